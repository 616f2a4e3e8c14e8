// A matrix of words: what its cells say, how the keyboard walks, and what is told.

import assert from "node:assert/strict";
import test from "node:test";

import { happens, mounted, packed, textsOf } from "../../support/page.js";

/** @typedef {import("../../support/page.js").Mounted} Mounted */

const { default: words, paint } = await import("../../../viz_ui/components/word_matrix/word_matrix.js");

const HEADER = {
  title: "Likeliest", words: [["a", "b", "c"], ["d", "e", "f"]], kinds: ["probability", "entropy, bits"], high: 1,
  rows: { axis: "layer", labels: ["layer 0", "layer 1 = output"] },
  columns: { axis: "token", labels: ["3 x", "4 y", "5 z"] }, before: 3, after: 2, chosen: [0, 1], highest: 460,
};
const NUMBERS = new Float32Array([0, 0.25, 1, 0.5, NaN, 0.125, 9, 8, 7, 6, 5, 1e-5]);
const GREYS = Uint8Array.from({ length: 768 }, (_, i) => Math.floor(i / 3)); // black at 0, white at 1

const drawn = (changes = {}) => mounted(words, "word-matrix", packed({ ...HEADER, ...changes }, NUMBERS, GREYS));
const cells = (/** @type {Mounted} */ { root }) => root.querySelectorAll("td").map((cell) => cell.children[0]);
const press = (/** @type {any} */ cell, /** @type {string} */ key) => happens(cell, "keydown", { key });

test("each cell is a button that says its word, its place and its number", () => {
  const one = drawn();
  assert.deepEqual(textsOf(one.root, "td"), ["a", "b", "c", "d", "e", "f"]);
  assert.deepEqual(textsOf(one.root, "th"), ["layer", "3 x", "4 y", "5 z", "layer 0", "layer 1 = output"]);
  assert.deepEqual(cells(one).map(({ ariaLabel }) => ariaLabel), [
    "layer 0, token 3 x: a, probability 0", "layer 0, token 4 y: b, probability 0.2500",
    "layer 0, token 5 z: c, probability 1.000", "layer 1 = output, token 3 x: d, probability 0.5000",
    "layer 1 = output, token 4 y: e, probability not a number", "layer 1 = output, token 5 z: f, probability 0.1250",
  ]);
  assert.deepEqual(cells(one).map(({ tabIndex }) => tabIndex), [-1, 0, -1, -1, -1, -1]);
  assert.deepEqual(textsOf(one.root, ".chosen"), ["4 y", "layer 0"]);
});

test("letters are black or white, whichever has 4.5 : 1 on the colour; what is no number is hatched", () => {
  const one = drawn(), grounds = cells(one).map(({ style }) => [style.background, style.color]);
  assert.deepEqual(grounds.slice(0, 3), [
    ["rgb(0 0 0)", "#fff"], ["rgb(64 64 64)", "#fff"], ["rgb(255 255 255)", "#000"]]);
  assert.ok(cells(one)[4].classList.contains("hatched"));
  assert.equal(cells(one)[4].style.color, undefined);
  const table = Uint32Array.from({ length: 256 }, (_, grey) => 0xff000000 + grey * 0x10101);
  for (let grey = 0; grey < 256; grey++) {
    const node = { classList: { add() {} }, style: { background: "", color: "" } };
    paint(/** @type {any} */ (node), grey / 255, table);
    const part = grey / 255, light = part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const contrast = node.style.color === "#000" ? (light + 0.05) / 0.05 : 1.05 / (light + 0.05);
    assert.ok(contrast >= 4.5, `${grey}: ${contrast}`);
  }
});

test("the last colour is the high end of the scale, and the legend says it", () => {
  const one = drawn({ kinds: ["entropy, bits", "probability"], high: 2 });
  assert.deepEqual(cells(one).slice(1, 4).map(({ style }) => style.background),
    ["rgb(32 32 32)", "rgb(128 128 128)", "rgb(64 64 64)"]); // 0.25, 1 and 0.5 of 2
  assert.deepEqual(textsOf(one.root, ".legend span").filter(Boolean), ["entropy, bits:", "0", "2"]);
});

test("a click or a key picks a cell, and Tab then leads to it", () => {
  const one = drawn();
  happens(cells(one)[5], "click");
  assert.deepEqual(one.told, [["pick", [1, 2]]]);
  assert.deepEqual(cells(one).map(({ tabIndex }) => tabIndex), [-1, -1, -1, -1, -1, 0]);
  assert.deepEqual(textsOf(one.root, ".chosen"), ["5 z", "layer 1 = output"]);
});

test("arrow keys walk, and beyond the last column they ask for those that come next", () => {
  const one = drawn(), all = cells(one);
  /** @type {string[]} */
  const walked = [];
  for (const cell of all) cell.focus = () => walked.push(cell.textContent);
  press(all[1], "ArrowDown");
  press(all[4], "ArrowRight");
  press(all[5], "ArrowUp");
  press(all[2], "Home");
  press(all[0], "End");
  assert.deepEqual(walked, ["e", "f", "c", "a", "c"]);
  press(all[2], "ArrowRight");
  press(all[0], "ArrowLeft");
  assert.deepEqual(one.told, [["turn", 1], ["turn", -1]]);
});

test("where all columns are there, the arrow keys stop at the last, and nothing offers more", () => {
  const one = drawn({ before: 0, after: 0 }), all = cells(one);
  press(all[2], "ArrowRight");
  assert.deepEqual(one.told, []);
  assert.deepEqual(one.root.querySelectorAll(".turn").map(({ hidden }) => hidden), [true, true]);
});

test("buttons lead to the columns before and after, and say how many these are", () => {
  const one = drawn({ before: 0 }), [before, after] = one.root.querySelectorAll(".turn");
  assert.deepEqual([before.textContent, before.disabled], ["← 0 tokens", true]);
  assert.deepEqual([after.textContent, after.disabled], ["2 tokens →", false]);
  happens(after, "click");
  happens(one.root.querySelector(".open"), "click");
  assert.deepEqual(one.told, [["turn", 1], ["open", true]]);
});

test("the tooltip of a cell has all of its numbers", () => {
  const one = drawn();
  happens(cells(one)[5], "pointermove");
  const lines = [...one.root.querySelector("[role=tooltip]").children].map((line) => line.textContent);
  assert.deepEqual(lines, ["layer 1 = output", "token 5 z", "f", "probability: 0.1250", "entropy, bits: 1.000×10⁻⁵"]);
});
