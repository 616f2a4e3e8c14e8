// The curves of a training and the cursor on them; the mask that is drawn by hand.

import assert from "node:assert/strict";
import test from "node:test";

import { bitsOf, firstOf, happens, mounted, packed, textsOf } from "../../support/page.js";

/** @typedef {import("../../support/page.js").Mounted} Mounted */

const { default: curves } = await import("../../../viz_ui/components/training_curves/training_curves.js");
const { default: maskEditor } = await import("../../../viz_ui/components/mask_editor/mask_editor.js");
const { MaskBits } = await import("../../../viz_ui/components/mask_editor/mask_bits.js");

const AT = [0, 10, 20, 40], LOSS = [4, 2, null, 1], WEIGHT = [0, 0.25, 0.5, 1];
const PLOTS = [
  { axis: "loss", highest: 5, lines: [{ name: "loss", role: "stream", dashed: false, values: LOSS }],
    level: ["guess", 3] },
  { axis: "weight", highest: 1, lines: [{ name: "induction", role: "weights", dashed: true, values: WEIGHT }],
    level: null },
];
const trained = (changes = {}) => mounted(curves, "training",
  packed({ plots: PLOTS, at: AT, most: 50, running: false, step: 1, answered: 0, ...changes }));
const [LEFT, INNER] = [46, 1000 - 46 - 10];
const x = (/** @type {number} */ step) => LEFT + (INNER * step) / 50;

test("a curve has its value at its step, and a gap where nothing was measured", () => {
  const { root } = trained(), [loss, , weight] = root.querySelectorAll("path.line");
  const y = (/** @type {number} */ value) => 20 + 140 * (1 - value / 5), above = 20 + 140 + 8 + 20;
  assert.equal(loss.getAttribute("d"),
    `M${[[0, 4], [10, 2], [40, 1]].map(([step, value]) => `${x(step)} ${y(value)}`).join("L")}`);
  assert.equal(weight.getAttribute("d"),
    `M${AT.map((step, n) => `${x(step)} ${above + 88 * (1 - WEIGHT[n])}`).join("L")}`);
  const level = root.querySelectorAll("line.level")[0];
  assert.deepEqual(["y1", "y2"].map((name) => Number(level.getAttribute(name))), [y(3), y(3)]);
  assert.ok(textsOf(root, "text").includes("guess 3.00"));
});

test("at the cursor stand the numbers of that step", () => {
  const one = trained(), readout = () => one.root.querySelector(".readout").textContent;
  assert.equal(readout(), "loss 2.00 · induction 0.250");
  assert.equal(one.root.querySelector(".place").textContent, "10 of 50");
  assert.equal(one.root.querySelector(".curves").getAttribute("aria-label"), "Step 10: loss 2.00 · induction 0.250");
  happens(one.root, "keydown", { key: "ArrowRight" });
  assert.equal(readout(), "induction 0.500"); // no loss was measured there
  assert.equal(Number(one.root.querySelector(".cursor").getAttribute("x1")), x(20));
  for (const [step, nearest] of [[34, 40], [29.5, 20], [30.5, 40], [4.5, 0], [5.5, 10]]) {
    happens(one.root.querySelector(".curves"), "pointerdown", { clientX: x(step) });
    assert.equal(one.root.querySelector(".place").textContent, `${nearest} of 50`);
    happens(one.root.querySelector(".curves"), "pointerup");
  }
});

const CAUSAL = [1, 0, 0, 1, 1, 0, 1, 1, 1];
const NAMES = { rows: ["0 a", "1 b", "2 c"], columns: ["0 x", "1 y", "2 z"] };
const editor = (changes = {}, cells = CAUSAL) => mounted(maskEditor, "mask-editor",
  packed({ ...NAMES, name: "Mask B", states: ["open", "closed (−∞)"], open: "rgb(10, 20, 30)", cursor: [1, 1],
    answered: 0, ...changes },
    bitsOf(cells)));
/** @param {Mounted} one */
const told = ({ told: events }) => {
  const [, [cells]] = events[events.length - 1], bytes = Buffer.from(cells, "base64");
  return Array.from({ length: 9 }, (_, i) => (bytes[i >> 3] >> (7 - (i & 7))) & 1);
};
const said = (/** @type {Mounted} */ { root }) => root.querySelector(".said").textContent;
const press = (/** @type {Mounted} */ one, /** @type {string} */ key, more = {}) =>
  happens(one.root.querySelector("[role=application]"), "keydown", { key, ...more });

test("keys walk over the cells and onto the labels, and each place is said", () => {
  const one = editor();
  press(one, "ArrowRight");
  assert.equal(said(one), "query 1 b, key 2 z: closed (−∞)");
  press(one, "ArrowRight");
  press(one, "ArrowDown");
  assert.equal(said(one), "query 2 c, key 2 z: open");
  press(one, "Home");
  press(one, "ArrowLeft");
  assert.equal(said(one), "query 2 c, all keys");
  press(one, "Home", { ctrlKey: true });
  press(one, "ArrowUp");
  assert.equal(said(one), "all queries, key 0 x");
  assert.equal(one.root.ariaLabel, "Mask B, 3 queries by 3 keys");
});

test("Space switches a cell, a row or a column; Shift and an arrow paint on", () => {
  const one = editor();
  press(one, " ");
  assert.deepEqual(told(one), [1, 0, 0, 1, 0, 0, 1, 1, 1]);
  press(one, "ArrowLeft");
  press(one, "ArrowLeft");
  press(one, " "); // a row that is not all open is opened
  assert.deepEqual(told(one), [1, 0, 0, 1, 1, 1, 1, 1, 1]);
  press(one, " "); // one that is all open is closed
  assert.deepEqual(told(one), [1, 0, 0, 0, 0, 0, 1, 1, 1]);
  press(one, "ArrowRight");
  press(one, "ArrowUp");
  press(one, "ArrowUp");
  press(one, " ");
  assert.deepEqual(told(one), [1, 0, 0, 1, 0, 0, 1, 1, 1]);
  press(one, "ArrowDown");
  press(one, "ArrowRight", { shiftKey: true });
  assert.deepEqual(told(one), [1, 1, 0, 1, 0, 0, 1, 1, 1]);
  assert.deepEqual(one.told.map(([, [, number]]) => number), [1, 2, 3, 4, 5]);
});

test("a stroke leaves no gaps, paints one thing, and is undone as one", () => {
  const one = editor(), cells = one.root.querySelector("[role=application]"), size =
    parseFloat(one.root.style["--cell"]);
  const at = (/** @type {number} */ row, /** @type {number} */ column) => ({ clientX: (column + 0.5) * size,
    clientY: (row + 0.5) * size });
  happens(cells, "pointerdown", at(0, 2));
  happens(cells, "pointermove", at(2, 0));
  happens(cells, "pointerup");
  assert.deepEqual(told(one), [1, 0, 1, 1, 1, 0, 1, 1, 1]); // the diagonal from (0,2) to (2,0), opened
  happens(one.root, "keydown", { key: "z", ctrlKey: true });
  assert.deepEqual(told(one), CAUSAL);
  happens(one.root, "keydown", { key: "Z", ctrlKey: true, shiftKey: true });
  assert.deepEqual(told(one), [1, 0, 1, 1, 1, 0, 1, 1, 1]);
  happens(one.root, "keydown", { key: "y", ctrlKey: true }); // there is nothing more
  assert.equal(one.told.length, 3);
});

test("tools start from a mask that is known, invert, and undo", () => {
  const one = editor({}, Array(9).fill(0)), tool = (/** @type {string} */ name) =>
    happens(firstOf(one.root, ".tool", (node) => node.textContent === name), "click");
  tool("causal");
  assert.deepEqual(told(one), CAUSAL);
  tool("invert");
  assert.deepEqual(told(one), CAUSAL.map((open) => 1 - open));
  tool("bidirectional");
  assert.deepEqual(told(one), Array(9).fill(1));
  tool("undo");
  assert.deepEqual(told(one), CAUSAL.map((open) => 1 - open));
  tool("redo");
  tool("none");
  assert.deepEqual(told(one), Array(9).fill(0));
  const disabled = () => ["undo", "redo"].map((name) =>
    firstOf(one.root, ".tool", (node) => node.textContent === name).disabled);
  assert.deepEqual(disabled(), [false, true]);
  assert.deepEqual([...editor().root.querySelectorAll(".tool")].filter((node) => node.disabled).length, 2);
});

test("a label switches its whole row or column, and open cells have the colour of the page", () => {
  const one = editor(), size = parseFloat(one.root.style["--cell"]);
  happens(one.root.querySelector(".column-labels"), "click", { clientX: 1.5 * size });
  assert.deepEqual(told(one), [1, 1, 0, 1, 1, 0, 1, 1, 1]);
  happens(one.root.querySelector(".row-labels"), "click", { clientY: 2.5 * size });
  assert.deepEqual(told(one), [1, 1, 0, 1, 1, 0, 0, 0, 0]);
  const [, { data }] = one.root.querySelector("canvas").pen.calls.at(-1);
  assert.deepEqual([...data.slice(0, 12)], [10, 20, 30, 255, 10, 20, 30, 255, 0, 0, 0, 0]);
});

test("an answer to an earlier stroke takes nothing back, another mask is taken", () => {
  const one = editor(), open = () => Number(one.root.querySelector("canvas").dataset.open);
  press(one, " ");
  press(one, " ");
  press(one, " ");
  const blob = (/** @type {number} */ answered, cells = CAUSAL) =>
    packed({ ...NAMES, name: "Mask B", states: ["in", "out"], open: "rgb(10, 20, 30)", cursor: [0, 0],
      answered }, bitsOf(cells));
  one.send(blob(2));
  assert.equal(open(), 5);
  one.send(blob(3, Array(9).fill(1)));
  assert.equal(open(), 9);
});

test("axes have round numbers, and dashed lines are dashed", () => {
  const { root } = trained(), texts = textsOf(root, ".tick");
  assert.deepEqual(texts.slice(0, 4), ["0", "2", "4", "loss"]); // up to 5
  assert.deepEqual(texts.slice(-7), ["0", "10", "20", "30", "40", "50", "step"]);
  assert.deepEqual(root.querySelectorAll("path.line").map((node) => node.classList.contains("dashed")),
    [false, false, true, true]);
});

test("cells can be made larger and smaller, and a new stroke ends what could be redone", () => {
  const one = editor(), size = () => parseFloat(one.root.style["--cell"]), before = size();
  const tool = (/** @type {string} */ name) => firstOf(one.root, ".tool", (node) => node.textContent === name);
  happens(tool("−"), "click");
  assert.ok(size() < before);
  happens(tool("+"), "click");
  assert.equal(size(), before);
  press(one, " ");
  happens(tool("undo"), "click");
  assert.equal(tool("redo").disabled, false);
  press(one, " ");
  assert.equal(tool("redo").disabled, true);
});

test("of many strokes the last hundred can be taken back, the latest first", () => {
  const bits = new MaskBits(1, 150, new Uint8Array(150));
  for (let stroke = 0; stroke < 150; stroke++) {
    bits.remember();
    bits.set(0, stroke, 1);
  }
  for (let left = 149; left >= 50; left--) {
    assert.ok(bits.undo());
    assert.deepEqual([bits.count(), bits.get(0, left)], [left, 0]);
  }
  assert.ok(!bits.undo());
});
