// The grid of heads: what each is called, what it shares, where its picture stands, and what a click or key chooses.

import assert from "node:assert/strict";
import test from "node:test";

import { bitsOf, colours, happens, mounted, packed, stepsOn, textsOf } from "../../support/page.js";

/** @typedef {import("../../support/page.js").Mounted} Mounted */

const { default: headGrid, tellChoice } = await import("../../../viz_ui/components/head_grid/head_grid.js");

const NOTES = ["", "reads the token before", "", "", "", "induction"]; // two layers of three heads

const CHOICE = { grid: "heads", layer: 1, head: 0, answered: 0 };

/**
 * @param {any} changes
 * @param {number[]} masked bits, 1 where a cell is not drawn
 */
function blobOf(changes = {}, masked = []) {
  const header = { layers: 2, heads: 3, keyHeads: null, notes: NOTES, rows: 2, columns: 2, maskForEach: false,
    maskBytes: Math.ceil(masked.length / 8), name: "heads", notesFrom: "", ...changes };
  const steps = Uint8Array.from({ length: header.layers * header.heads * 4 }, (_, i) => i + 1);
  return packed(header, colours.sequential, steps, bitsOf(masked));
}

function drawn(changes = {}, /** @type {number[]} */ masked = [], choice = {}) {
  const one = mounted(headGrid, "head-grid", blobOf(changes, masked));
  tellChoice({ ...CHOICE, ...choice });
  return one;
}
const buttons = (/** @type {Mounted} */ { root }) => root.querySelectorAll("button");
const chosen = (/** @type {Mounted} */ one) => buttons(one).findIndex((node) => node.ariaPressed === "true");
const caption = (/** @type {Mounted} */ { root }) => root.querySelector(".caption").textContent;

test("each head is named by its layer, its number, and what it was found to do", () => {
  assert.deepEqual(buttons(drawn()).map((node) => node.ariaLabel), [
    "Layer 0, head 0", "Layer 0, head 1, reads the token before", "Layer 0, head 2",
    "Layer 1, head 0", "Layer 1, head 1", "Layer 1, head 2, induction",
  ]);
  assert.equal(caption(drawn()), "Chosen: layer 1, head 0");
  assert.equal(caption(drawn({}, [], { head: 2 })), "Chosen: layer 1, head 2 · induction");
  assert.equal(drawn().root.ariaLabel, "Choose one of 2 × 3 heads; arrow keys move");
  assert.deepEqual(textsOf(drawn().root, ".layer-name"), ["layer 0", "layer 1"]);
  assert.deepEqual(textsOf(drawn().root, ".head-name"), ["0", "1", "2"]);
});

test("heads that share keys and values say with whom, groups of unequal size too", () => {
  const one = drawn({ keyHeads: [0, 0, 1], notes: Array(6).fill("") });
  assert.deepEqual(buttons(one).slice(3).map((node) => node.ariaLabel), [
    "Layer 1, head 0, shares key/value head 0 with head 1", "Layer 1, head 1, shares key/value head 0 with head 0",
    "Layer 1, head 2, reads key/value head 1",
  ]);
  const brackets = one.root.querySelectorAll(".key-head").map(({ textContent, style }) => [textContent,
    style.gridColumn]);
  assert.deepEqual(brackets, [["K,V 0", "span 2"], ["K,V 1", "span 1"]]);
  assert.match(drawn({ keyHeads: [0, 0, 0] }).root.querySelector("button").ariaLabel, /head 0 with heads 1, 2$/);
});

test("pointed at, a head says who it is and what it does", () => {
  const one = drawn({ keyHeads: [0, 0, 1] });
  happens(buttons(one)[1], "pointermove");
  assert.deepEqual([...one.root.querySelector("[role=tooltip]").children].map((line) => line.textContent),
    ["layer 0, head 1", "shares key/value head 0 with head 0", "reads the token before"]);
});

test("what a note was measured on stands below it, and nowhere else", () => {
  const one = drawn({ notesFrom: "of a text" });
  const lines = (/** @type {number} */ index) => {
    happens(buttons(one)[index], "pointermove");
    return [...one.root.querySelector("[role=tooltip]").children].map((line) => line.textContent);
  };
  assert.deepEqual(lines(1), ["layer 0, head 1", "reads the token before", "of a text"]);
  assert.deepEqual(lines(0), ["layer 0, head 0"]);
});

test("a click and the arrow keys choose a head, and tell its layer and its number", () => {
  const one = drawn();
  happens(buttons(one)[5], "click");
  for (const [key, more] of /** @type {[string, object?][]} */ ([["ArrowUp"], ["ArrowLeft"], ["Home"], ["ArrowUp"],
    ["End", { ctrlKey: true }]])) happens(buttons(one)[chosen(one)], "keydown", { key, ...more });
  assert.deepEqual(one.told.map(([, value]) => value), [[1, 2, 1], [0, 2, 2], [0, 1, 3], [0, 0, 4], [1, 2, 5]]);
  happens(buttons(one)[5], "click"); // it is chosen already
  assert.equal(one.told.length, 5);
});

test("an answer to an earlier choice takes nothing back, one to the last does", () => {
  const one = drawn();
  happens(buttons(one)[5], "click");
  happens(buttons(one)[2], "click");
  tellChoice({ ...CHOICE, layer: 1, head: 2, answered: 1 });
  assert.equal(chosen(one), 2);
  tellChoice({ ...CHOICE, layer: 0, head: 1, answered: 2 });
  assert.equal(chosen(one), 1);
});

test("a choice that comes before its grid is taken when the grid is there, one of another grid never", () => {
  tellChoice({ ...CHOICE, grid: "early", layer: 0, head: 2 });
  const one = mounted(headGrid, "head-grid", blobOf({ name: "early" }));
  assert.equal(chosen(one), 2);
  tellChoice({ ...CHOICE, grid: "another", layer: 1, head: 1 });
  assert.equal(chosen(one), 2);
});

test("a choice that the grid has no head for waits for the grid that has it", () => {
  const one = drawn();
  tellChoice({ ...CHOICE, layer: 3, head: 1 });
  assert.equal(chosen(one), 3);
  one.send(blobOf({ layers: 4, notes: Array(12).fill("") }));
  assert.equal(chosen(one), 10);
});

test("each head's picture stands in its place, and what is masked is not drawn", () => {
  const painted = (/** @type {Mounted} */ { root }) => stepsOn(root.querySelector(".pictures"));
  assert.deepEqual(painted(drawn()), [[1, 2, 5, 6, 9, 10], [3, 4, 7, 8, 11, 12], [13, 14, 17, 18, 21, 22],
    [15, 16, 19, 20, 23, 24]]);
  assert.deepEqual(painted(drawn({}, [0, 1, 0, 0])).slice(2), [[13, null, 17, null, 21, null], [15, 16, 19, 20, 23,
    24]]);
  const apart = Array(24).fill(0);
  apart[4 * 4 + 2] = 1; // the third cell of layer 1, head 1
  assert.deepEqual(painted(drawn({ maskForEach: true }, apart)).slice(2), [[13, 14, 17, 18, 21, 22],
    [15, 16, null, 20, 23, 24]]);
});

test("what is chosen is said and marked at once, also before Python has heard of it", () => {
  const one = drawn();
  happens(buttons(one)[1], "click");
  assert.equal(caption(one), "Chosen: layer 0, head 1 · reads the token before");
  const marked = (/** @type {string} */ kind) => one.root.querySelectorAll(kind)
    .map((node) => node.classList.contains("chosen"));
  assert.deepEqual([marked(".layer-name"), marked(".head-name")], [[true, false], [false, true, false]]);
});
