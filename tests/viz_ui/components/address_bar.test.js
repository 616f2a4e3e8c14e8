// The address is replaced, without a step of Back, and only where it still is what the server thinks it is.

import assert from "node:assert/strict";
import test from "node:test";

import addressBar from "../../../viz_ui/components/address_bar/address_bar.js";

let number = 0;

/**
 * What the address is after a correction, which makes no step of Back.
 * @param {string} address
 * @param {[name: string, value: string][]} seen
 * @param {[name: string, value: string][]} wanted
 * @param {{ again?: boolean, also?: [string, string][][] }} [more]
 */
function corrected(address, seen, wanted, { again = false, also = /** @type {[string, string][][]} */ ([]) } = {}) {
  const location = new URL(address, "http://localhost/");
  let steps = 0;
  const history = {
    state: "kept",
    /**
     * @param {unknown} state
     * @param {string} _
     * @param {string} to
     */
    replaceState: (state, _, to) => {
      assert.equal(state, "kept");
      location.href = new URL(to, location).href;
    },
    pushState: () => (steps += 1),
  };
  globalThis.window = /** @type {any} */ ({ location, history });
  addressBar({ data: { number: again ? number : ++number, seen: [seen, ...also], wanted } });
  assert.equal(steps, 0);
  return location.pathname + location.search + location.hash;
}

/** @type {[name: string, value: string][]} */
const HEAD = [["model", "tiny-gpt"], ["head", "2.6"]];

test("what a page begins with", () => {
  assert.equal(corrected("/masks", [], HEAD), "/masks?model=tiny-gpt&head=2.6");
  assert.equal(corrected("/?layer=2", [["layer", "2"]], HEAD), "/?model=tiny-gpt&head=2.6");
});

test("the order of what is seen does not matter, its texts do", () => {
  assert.equal(corrected("/?b=2&a=1&b=3", [["a", "1"], ["b", "2"], ["b", "3"]], []), "/");
  assert.equal(corrected("/?b=3&a=1&b=2", [["a", "1"], ["b", "2"], ["b", "3"]], []), "/?b=3&a=1&b=2");
});

test("a later choice stays", () => {
  assert.equal(corrected("/?head=3.2", [["head", "2.6"]], []), "/?head=3.2");
});

test("Streamlit's own parameters and the place on the page stay", () => {
  const there = "/?embed=true&head=2.6&embed_options=dark_theme#cell";
  assert.equal(corrected(there, [["head", "2.6"]], [["head", "0.0"]]),
    "/?embed=true&embed_options=dark_theme&head=0.0#cell");
});

test("any text survives", () => {
  const prompt = "naïve café, 你好 & <b> 100 % + 1 = ?\n#";
  const address = new URL(corrected("/", [], [["prompt", prompt]]), "http://localhost/");
  assert.equal(address.searchParams.get("prompt"), prompt);
});

test("the same correction is made once", () => {
  assert.equal(corrected("/", [], HEAD), "/?model=tiny-gpt&head=2.6");
  assert.equal(corrected("/", [], HEAD, { again: true }), "/");
});

test("where a run began again, the address of before the last correction is right, too", () => {
  assert.equal(corrected("/heads", HEAD, [["model", "tiny-bert"]], { also: [[]] }), "/heads?model=tiny-bert");
  assert.equal(corrected("/heads?model=x", HEAD, [["model", "tiny-bert"]], { also: [[]] }), "/heads?model=x");
});
