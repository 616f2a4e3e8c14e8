// entry.js makes modules of the one file that a browser gets: each once, with what they import.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const ENTRY = readFileSync(new URL("../../../viz_ui/components/shared/entry.js", import.meta.url), "utf8");
const FILES = {
  "shared/count.js": 'export const loaded = (globalThis.loaded = (globalThis.loaded ?? 0) + 1);\n',
  "one/part.js": 'import { loaded } from "../shared/count.js";\nexport const part = `part ${loaded}`;\n',
  "one/one.js": 'import {\n  part,\n} from "./part.js";\nimport { loaded } from "../shared/count.js";\n'
    + 'export default () => `one: ${part}, loaded ${loaded}, import x from "./part.js";`;\n',
  "two/two.js": 'import { loaded } from "../shared/count.js";\nexport default () => `two: loaded ${loaded}`;\n',
  "one/one.css": ".one {}",
  "all.css": ".all {}",
};

/**
 * The default export of entry.js for a component, as Streamlit's blob of it.
 * @param {string} name
 */
async function entryOf(name) {
  const component = { version: "v", script: `${name}/${name}.js`, styles: ["all.css", "one/one.css"] };
  const text = `const COMPONENT = ${JSON.stringify(component)};\n${ENTRY}`;
  return (await import(`data:text/javascript,${encodeURIComponent(text)}#${Math.random()}`)).default;
}

test("components share one file and its modules; a style stands before the first drawing", async () => {
  /** @type {{ asked: string[], made: string[] }} */
  const { asked, made } = { asked: [], made: [] };
  const browser = /** @type {any} */ (globalThis);
  browser.document = { baseURI: "http://app/below/heads" };
  browser.CSSStyleSheet = class { replaceSync(/** @type {string} */ text) { this.text = text; } };
  browser.Blob = class { constructor(/** @type {string[]} */ parts) { this.text = parts.join(""); } };
  browser.URL.createObjectURL = (/** @type {{ text: string }} */ { text }) => {
    made.push(text);
    return `data:text/javascript,${encodeURIComponent(text)}`;
  };
  browser.fetch = async (/** @type {URL} */ address) => {
    asked.push(String(address));
    return asked.length === 1 ? { ok: false, status: 503 } : { ok: true, json: async () => FILES };
  };

  await assert.rejects(entryOf("one"), /503.*Reload/); // and the next one asks again
  const [one, two] = await Promise.all([entryOf("one"), entryOf("two")]);
  const parentElement = /** @type {any} */ ({ adoptedStyleSheets: [] }); // as of every shadow root
  assert.equal(one({ parentElement }), 'one: part 1, loaded 1, import x from "./part.js";');
  assert.equal(two({ parentElement }), "two: loaded 1");
  assert.equal(parentElement.adoptedStyleSheets[0].text, ".all {}\n.one {}");
  assert.deepEqual(asked, Array(2).fill("http://app/below/components/v.json"));
  assert.equal(new Set(made).size, made.length);
});
