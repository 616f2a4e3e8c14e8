// What every message of a component carries instead of its script and style: where they are. serving.py writes the
// line `const COMPONENT = …` before it. A blob of Streamlit's runs this, so that no path is relative to it.

/** @param {string} names */
const addressOf = (names) => new URL(`components/${COMPONENT.version}/${names}`, document.baseURI).href;

/**
 * @param {string} address
 * @returns {Promise<CSSStyleSheet>}
 */
async function readStyles(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`The style of this picture did not arrive (${answer.status}). Reload the page.`);
  return new CSSStyleSheet().replace(await answer.text());
}

const [{ default: mount }, styles] = await Promise.all([
  import(addressOf(COMPONENT.script)),
  readStyles(addressOf(COMPONENT.styles)),
]);

/** @param {import("./mounting.js").Call<unknown>} call */
export default (call) => {
  call.parentElement.adoptedStyleSheets = [styles]; // before the first drawing, which measures
  return mount(call);
};
