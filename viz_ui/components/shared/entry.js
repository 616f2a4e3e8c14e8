// What every message of a component carries instead of its script and style: how to get them. serving.py writes the
// line `const COMPONENT = …` before it. The files of all components come in one, and each module that is asked for
// becomes a blob, once for all of them. A module in a blob resolves no path: it imports by the addresses of others.

/** @typedef {{ texts: Record<string, string>, addresses: Record<string, string> }} Files */

/** @type {Record<string, Promise<Files>>} */
const versions = (globalThis.componentFiles ??= {});

/** @returns {Promise<Files>} */
async function readAll() {
  const answer = await fetch(new URL(`components/${COMPONENT.version}.json`, document.baseURI));
  if (!answer.ok) throw new Error(`The scripts of this page did not arrive (${answer.status}). Reload the page.`);
  return { texts: await answer.json(), addresses: {} };
}

/**
 * @param {Files} files
 * @param {string} name
 * @returns {string} the address of that module
 */
function addressOf(files, name) {
  const withAddresses = () => files.texts[name].replace(/^(import [^;]* from )"([^"]+)";$/gm, (_, what, path) =>
    `${what}"${addressOf(files, new URL(path, `file:///${name}`).pathname.slice(1))}";`);
  return (files.addresses[name] ??= URL.createObjectURL(
    new Blob([withAddresses(), `\n//# sourceURL=components/${name}`], { type: "text/javascript" }),
  ));
}

const files = await (versions[COMPONENT.version] ??= readAll().catch((error) => {
  delete versions[COMPONENT.version]; // the next component asks again
  throw error;
}));
const styles = new CSSStyleSheet();
styles.replaceSync(COMPONENT.styles.map((name) => files.texts[name]).join("\n"));
const { default: mount } = await import(addressOf(files, COMPONENT.script));

/** @param {import("./mounting.js").Call<unknown>} call */
export default (call) => {
  const root = call.parentElement;
  // Before the first drawing, which measures; not again, for the browser would work all styles out anew.
  if (root.adoptedStyleSheets[0] !== styles) root.adoptedStyleSheets = [styles];
  return mount(call);
};
