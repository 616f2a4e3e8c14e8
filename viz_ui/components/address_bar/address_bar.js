/**
 * Puts the address right without a step of Back: what a visit or another page begins with, and what the server
 * brought into range. Streamlit's own way to write the address always makes a step, which is for what a reader chose.
 */

let latest = 0; // the last correction that was looked at: a change of theme brings the same one again

/** @param {{ data: { number: number, seen: [string, string][][], wanted: [string, string][] } }} component */
export default function ({ data }) {
  if (data.number <= latest) return;
  latest = data.number;
  const here = [...new URLSearchParams(window.location.search)];
  const embedding = here.filter(([name]) => isStreamlits(name));
  const ours = sorted(here.filter(([name]) => !isStreamlits(name)));
  if (!data.seen.some((seen) => sorted(seen) === ours)) return; // a later choice is there
  const query = new URLSearchParams([...embedding, ...data.wanted]).toString();
  const { pathname, hash } = window.location;
  window.history.replaceState(window.history.state, "", `${pathname}${query ? `?${query}` : ""}${hash}`);
}

/** @param {string} name */
function isStreamlits(name) {
  return ["embed", "embed_options"].includes(name.toLowerCase());
}

/** @param {[string, string][]} parameters */
function sorted(parameters) {
  const query = new URLSearchParams(parameters);
  query.sort();
  return query.toString();
}
