// What the panels write and tell: the numbers of cells, bars and lines, their names, and what a click or key means.

import assert from "node:assert/strict";
import test from "node:test";

import { bitsOf, callsOn, colours, firstOf, happens, mounted, packed, stepsOn, textsOf } from "../../support/page.js";

/** @typedef {import("../../support/page.js").Mounted} Mounted */

const { default: panels } = await import("../../../viz_ui/components/panels/panels.js");

const QUERIES = ["0 a", "1 b", "2 c"], KEYS = ["0 x", "1 y", "2 z"];
const FEATURES = ["0", "1"];
const RAW = [-4, 2, 0, 1, -8, 6, 3, 0.0625, -2];
const WEIGHTS = [1, 0.00390625, 0.99609375, 0.0625, 0.4375, 0.5]; // of the permitted cells, row by row
const CAUSAL = [1, 0, 0, 1, 1, 0, 1, 1, 1];
const FACTOR = 0.5;
const Q = [1, 2, 3, 4, 5, 6];

/**
 * @param {object} changes
 * @param {number[]} mask of the scores and weights
 */
function drawn(changes = {}, mask = CAUSAL) {
  const square = { rows: { axis: "query", index: "query", labels: 0 }, columns: { axis: "key", index: "key",
    labels: 1 } };
  const shared = { kind: "matrix", caption: "", factor: 1, mask: null, nonzero: null, ramp: true };
  const items = [
    { ...shared, name: "q", title: "Q", role: "query", scale: "diverging", low: -6, high: 6, values: 2,
      rows: { axis: "query", index: "query", labels: 0 }, columns: { axis: "feature", index: "", labels: 2 } },
    { ...shared, name: "raw", title: "QKᵀ", role: "scores", scale: "diverging", low: -8, high: 8, values: 0, nonzero: 1,
      ...square },
    { kind: "symbol", text: "÷ √D" },
    { ...shared, name: "scores", title: "QKᵀ/√D", role: "scores", scale: "diverging", low: -4, high: 4, values: 0,
      factor: FACTOR, mask: 0, ...square },
    { ...shared, name: "weights", title: "A", role: "weights", scale: "sequential", low: 0, high: 1, values: 1, mask: 0,
      ...square },
    { kind: "lines", name: "lines", title: "Who reads whom", of: "weights" },
    { kind: "bars", name: "bars", title: "Weights of one query", of: "weights" },
    { kind: "bars", name: "signed", title: "Scores of one query", of: "raw" },
    { kind: "bars", name: "scaled", title: "Scaled scores of one query", of: "scores" },
    { kind: "lines", name: "signed lines", title: "Scores", of: "raw" },
  ];
  const header = {
    items, labels: [QUERIES, KEYS, FEATURES], masks: [{ cells: 9 }, { cells: 9 }],
    values: [{ count: 9, half: false, mask: null }, { count: 6, half: false, mask: 0 }, { count: 6, half: false,
      mask: null }],
    selected: [2, 1], marked: null, matrix_width: 560, feature_width: 256, list_height: 420, least_cell: 1, ...changes,
  };
  return mounted(panels, "panels", packed(header, new Float32Array(RAW), new Float32Array(WEIGHTS), new Float32Array(Q),
    bitsOf(mask), bitsOf(RAW), colours.sequential, colours.diverging));
}

const page = drawn();
/** @param {string} name */
const panel = (name) => page.root.querySelector(`[data-panel=${name}]`);

/**
 * Point at a cell, or click it.
 * @param {string} name
 * @param {number} row
 * @param {number} column
 */
function onCell(name, row, column, kind = "pointermove", at = page) {
  const canvas = at.root.querySelector(`[data-panel=${name}]`).querySelector("canvas"), { style, dataset } = canvas;
  const clientX = parseFloat(style.left) + (column + 0.5) * Number(dataset.cellWidth);
  const clientY = parseFloat(style.top) + (row + 0.5) * Number(dataset.cellHeight);
  happens(canvas, kind, { clientX, clientY });
}

const tooltip = (at = page) => at.root.querySelector("[role=tooltip]").children
  .map((line) => line.textContent);

test("a cell's tooltip names its row, its column and its own number", () => {
  const cells = [
    { name: "raw", row: 0, column: 1, lines: ["query 0 a", "key 1 y", "2.000"] },
    { name: "raw", row: 0, column: 2, lines: ["query 0 a", "key 2 z", "exactly 0"] },
    { name: "scores", row: 2, column: 0, lines: ["query 2 c", "key 0 x", "1.500"] }, // times its factor
    { name: "scores", row: 1, column: 2, lines: ["query 1 b", "key 2 z", "masked (−∞)"] },
    { name: "weights", row: 1, column: 2, lines: ["query 1 b", "key 2 z", "masked (−∞), so weight 0"] },
    { name: "weights", row: 2, column: 1, lines: ["query 2 c", "key 1 y", "0.4375"] },
    { name: "q", row: 2, column: 0, lines: ["query 2 c", "feature 0", "5.000"] },
  ];
  for (const { name, row, column, lines } of cells) {
    onCell(name, row, column);
    assert.deepEqual(tooltip(), lines);
  }
});

test("pointing outside the cells shows nothing, at a row's label the row alone", () => {
  onCell("raw", 0, 1);
  onCell("raw", 3, 0);
  assert.ok(page.root.querySelector("[role=tooltip]").hidden);
  onCell("raw", 1, -1);
  assert.deepEqual(tooltip(), ["query 1 b"]);
  onCell("raw", -1, 2);
  assert.deepEqual(tooltip(), ["key 2 z"]);
  onCell("raw", 0, 3);
  assert.ok(page.root.querySelector("[role=tooltip]").hidden);
});

test("a click tells what it means in its own panel", () => {
  const one = drawn();
  onCell("scores", 1, 0, "click", one);
  onCell("q", 2, 1, "click", one);
  onCell("raw", -1, 2, "click", one);
  assert.deepEqual(one.told, [
    ["pick", { panel: "scores", row: 1, column: 0, query: 1, key: 0 }],
    ["pick", { panel: "q", row: 2, column: 1, query: 2, key: null }],
    ["pick", { panel: "raw", row: null, column: 2, query: null, key: 2 }],
  ]);
});

test("arrow keys walk from the selected cell and stay at the edges; what is reached is said", () => {
  const one = drawn(), stage = one.root.querySelector("[data-panel=weights]").querySelector("[role=application]");
  const said = () => one.root.querySelector("[aria-live=polite]").textContent;
  happens(stage, "keydown", { key: "ArrowLeft" });
  assert.equal(said(), "A: query 2 c, key 0 x, 0.06250");
  happens(stage, "keydown", { key: "ArrowDown" });
  assert.equal(said(), "A: query 2 c, key 0 x, 0.06250"); // the last row
  happens(stage, "keydown", { key: "ArrowUp" });
  happens(stage, "keydown", { key: "End" });
  assert.equal(said(), "A: query 1 b, key 2 z, masked (−∞), so weight 0");
  happens(stage, "keydown", { key: "Home", ctrlKey: true });
  assert.equal(said(), "A: query 0 a, key 0 x, 1.000");
  happens(stage, "keydown", { key: "PageDown" });
  happens(stage, "keydown", { key: "Enter" });
  assert.deepEqual(one.told, [["pick", { panel: "weights", row: 2, column: 0, query: 2, key: 0 }]]);
});

test("frames stand on the selected query and key of every panel, and nowhere else", () => {
  /** @param {string} name */
  const framed = (name) => Object.fromEntries(["row", "column"].map((axis) => {
    const frame = panel(name).querySelector(`.frame.selected.${axis}`);
    return [axis, frame.hidden ? null : Number(frame.dataset.index)];
  }));
  assert.deepEqual(framed("raw"), { row: 2, column: 1 });
  assert.deepEqual(framed("q"), { row: 2, column: null });
});

test("matrices are named for who does not see them, and their colour bars have their own ends", () => {
  assert.equal(panel("scores").querySelector("[role=application]").getAttribute("aria-label"),
    "QKᵀ/√D, 3 rows by 3 columns. Arrow keys move, Enter selects.");
  const open = panel("scores").querySelector(".open");
  assert.equal(open.ariaLabel, "Open QKᵀ/√D large, to zoom and save");
  assert.equal(open.title, open.ariaLabel);
  assert.deepEqual(textsOf(panel("raw"), ".ends span"), ["−8", "0", "8"]);
  assert.deepEqual(textsOf(panel("weights"), ".ends span"), ["0", "0.5", "1"]);
  assert.deepEqual(["raw", "weights"].map((name) => panel(name).querySelector(".masked").hidden), [true, false]);
  assert.deepEqual(["raw", "weights"].map((name) => panel(name).querySelector(".zeros").hidden), [false, true]);
  happens(open, "click");
  assert.deepEqual(page.told.pop(), ["open", { panel: "scores" }]);
});

test("a legend names only what is seen: masked cells, and zeros that are not masked", () => {
  /**
   * @param {number[]} mask
   * @param {number[]} values
   */
  function legend(mask, values) {
    const square = { rows: { axis: "query", index: "query", labels: 0 }, columns: { axis: "key", index: "key",
      labels: 0 } };
    const change = { kind: "matrix", name: "change", title: "Change", caption: "", role: "weights", scale: "diverging",
      low: -1, high: 1, values: 0, factor: 1, mask: 0, nonzero: 1, ramp: true, ...square };
    const one = mounted(panels, "panels", packed({ items: [change], labels: [["0 a", "1 b"]],
      masks: [{ cells: 4 }, { cells: 4 }], values: [{ count: 4, half: false, mask: null }], selected: [0, 0],
      marked: null, matrix_width: 560, feature_width: 256, list_height: 420, least_cell: 1 },
    new Float32Array(values), bitsOf(mask), bitsOf(values), colours.sequential, colours.diverging));
    return [".masked", ".zeros"].filter((name) => !one.root.querySelector(".legend").querySelector(name).hidden);
  }
  assert.deepEqual(legend([1, 0, 1, 1], [0.5, 0, -0.25, 0.25]), [".masked"]);
  assert.deepEqual(legend([1, 0, 1, 1], [0, 0, -0.25, 0.25]), [".masked", ".zeros"]);
  assert.deepEqual(legend([1, 1, 1, 1], [0, 0.5, -0.25, 0.25]), [".zeros"]);
  assert.deepEqual(legend([1, 1, 1, 1], [1, 0.5, -0.25, 0.25]), []);
});

/** @param {string} name */
const bars = (name, at = page) => at.root.querySelector(`[data-panel=${name}]`).querySelectorAll(".row")
  .map((row) => {
    const { left, width } = row.querySelector(".fill").style;
    return [row.querySelector(".token").textContent, row.querySelector(".number").textContent, left, width];
  });

test("bars are the numbers of the query, from 0 to one round end for all queries", () => {
  assert.deepEqual(bars("bars"), [
    ["0 x", "0.06250", "0", "6.25%"], ["1 y", "0.4375", "0", "43.75%"], ["2 z", "0.5000", "0", "50%"],
  ]);
  assert.equal(panel("bars").querySelector(".caption").textContent, "query 2 c · sum 1.000");
  assert.match(panel("bars").querySelector(".note").textContent, /^Bars run from 0 to 1, the same for every query\.$/);
});

test("a negative bar runs left of the middle, a positive one right of it", () => {
  assert.deepEqual(bars("signed"), [
    ["0 x", "3.000", "50%", "15%"], ["1 y", "0.06250", "50%", "0.3125%"], ["2 z", "−2.000", "40%", "10%"],
  ]); // of ±10
  assert.match(panel("signed").querySelector(".note").textContent, /from −10 to 10/);
  assert.doesNotMatch(panel("signed").querySelector(".caption").textContent, /sum/);
  assert.deepEqual(bars("scaled"), [
    ["0 x", "1.500", "50%", "15%"], ["1 y", "0.03125", "50%", "0.3125%"], ["2 z", "−1.000", "40%", "10%"],
  ]); // of ±5: the largest permitted one is −4
});

test("the end of the bars is that of permitted cells: what the mask closes does not count", () => {
  const { root } = drawn({}, [1, 1, 1, 1, 0, 0, 1, 1, 0]); // without −8 and 6
  assert.match(root.querySelector("[data-panel=scaled]").querySelector(".note").textContent, /from −2 to 2,/);
});

test("bars can be sorted by value; masked ones stand last", () => {
  const one = drawn({ selected: [1, 0] });
  assert.deepEqual(bars("bars", one).map(([, number]) => number), ["0.003906", "0.9961", "masked"]);
  const [byPosition, byValue] = one.root.querySelector("[data-panel=bars]").querySelectorAll(".tool");
  happens(byValue, "click");
  assert.deepEqual(bars("bars", one).map(([label]) => label), ["1 y", "0 x", "2 z"]);
  assert.deepEqual([byPosition.ariaPressed, byValue.ariaPressed], ["false", "true"]);
  happens(byPosition, "click");
  assert.deepEqual(bars("bars", one).map(([label]) => label), ["0 x", "1 y", "2 z"]);
  happens(one.root.querySelector("[data-panel=bars]").querySelectorAll(".row")[1], "click");
  assert.deepEqual(one.told.pop(), ["pick", { panel: "bars", row: 1, column: 1, query: 1, key: 1 }]);
  happens(one.root.querySelector("[data-panel=scaled]").querySelectorAll(".tool")[1], "click"); // behind negative ones
  assert.deepEqual(bars("scaled", one).map(([, number]) => number), ["0.5000", "−4.000", "masked"]);
});

test("a query that may read nothing says so", () => {
  const one = drawn({ selected: [1, 0] }, [1, 0, 0, 0, 0, 0, 1, 1, 1]), panel =
    one.root.querySelector("[data-panel=bars]");
  assert.equal(panel.querySelector(".empty").hidden, false);
  assert.deepEqual(textsOf(panel, ".row .number"), ["masked", "masked", "masked"]);
  assert.ok(drawn().root.querySelector("[data-panel=bars]").querySelector(".empty").hidden);
});

test("pointed at, a token's lines have their weights beside the other side's tokens", () => {
  const one = drawn(), lines = one.root.querySelector("[data-panel=lines]");
  const numbers = (/** @type {string} */ side) => textsOf(lines, `.${side}-side .number`);
  const caption = () => lines.querySelector(".caption").textContent;
  assert.equal(caption(), "all tokens");
  happens(lines.querySelectorAll(".query-side .row")[1], "pointermove");
  assert.deepEqual([caption(), numbers("key"), numbers("query")],
    ["query 1 b", ["0.004", "0.996", "masked"], ["", "", ""]]);
  happens(lines.querySelectorAll(".key-side .row")[1], "pointermove");
  assert.deepEqual([caption(), numbers("query"), numbers("key")],
    ["key 1 y", ["masked", "0.996", "0.438"], ["", "", ""]]);
  happens(lines.querySelectorAll(".key-side .row")[1], "click");
  assert.deepEqual(one.told.pop(), ["pick", { panel: "lines", row: null, column: 1, query: null, key: 1 }]);
  happens(lines.querySelectorAll(".key-side .row")[1].parentNode, "pointerleave");
  assert.equal(caption(), "key 1 y, pinned: Escape shows all");
  happens(one.root, "keydown", { key: "Escape" });
  assert.equal(caption(), "all tokens");
});

test("lines at rest are those of a hundredth of the scale or more; a score has three digits and its sign", () => {
  const notes = ["lines", "signed lines"].map((name) =>
    firstOf(page.root, ".lines", (one) => one.dataset.panel === name).querySelector(".note").textContent);
  assert.match(notes[0], /Lines for numbers under 0\.01 appear/);
  assert.doesNotMatch(notes[0], /Red/);
  assert.match(notes[1], /Red is above 0, blue below\. Lines for numbers under 0\.08 appear/);
  const one = drawn(), signed = one.root.querySelectorAll(".lines")[1];
  happens(signed.querySelectorAll(".query-side .row")[1], "pointermove");
  assert.deepEqual(textsOf(signed, ".key-side .number"), ["1.00", "−8.00", "6.00"]);
});

test("what travelled as float16 has three digits, and less than it can say is said as such", () => {
  const halves = new Uint16Array([0x3c00, 0x0001, 0x3555, 0xc000]); // 1, the smallest, 1/3, −2
  const header = {
    labels: [["0 a", "1 b"], ["0 x", "1 y"]], masks: [{ cells: 4 }], selected: null, marked: null, matrix_width: 560,
    feature_width: 256, list_height: 420, least_cell: 1, values: [{ count: 4, half: true, unit: 2, mask: null }],
    items: [{ kind: "matrix", name: "raw", title: "QKᵀ", caption: "", role: "scores", scale: "diverging", low: -4,
      high: 4,
      values: 0, factor: 1, mask: 0, nonzero: null, ramp: true,
      rows: { axis: "query", index: "query", labels: 0 }, columns: { axis: "key", index: "key", labels: 1 } }],
  };
  const one = mounted(panels, "panels", packed(header, halves, bitsOf([1, 1, 1, 1]), colours.sequential,
    colours.diverging));
  const numbers = [[0, 0], [0, 1], [1, 0], [1, 1]].map(([row, column]) => {
    onCell("raw", row, column, "pointermove", one);
    return tooltip(one)[2];
  });
  assert.ok(one.root.querySelector(".masked").hidden); // no cell is
  assert.deepEqual(numbers, ["2.00", "below 1.2×10⁻⁴", "0.667", "−4.00"]);
});

test("a cell has its step of its scale, a masked one none", () => {
  const painted = (/** @type {string} */ name) => stepsOn(panel(name).querySelector("canvas"));
  assert.deepEqual(painted("weights"), [[255, null, null], [1, 254, null], [16, 112, 128]]);
  assert.deepEqual(painted("scores"), [[64, null, null], [143, 0, null], [175, 128, 96]]); // −2 … 3 of ±4
});

test("numbers in large cells are those of the cells, times their factor", () => {
  const written = (/** @type {string} */ name) => callsOn(panel(name).querySelector("canvas"))
    .filter(([call]) => call === "fillText").map(([, text]) => text);
  assert.deepEqual(written("scores"), ["−2.00", "0.50", "−4.00", "1.50", "0.03", "−1.00"]);
  assert.deepEqual(written("raw"), ["−4.00", "2.00", "1.00", "−8.00", "6.00", "3.00", "0.06", "−2.00"]);
});

test("at rest only lines of a hundredth or more are drawn, of one token all; negative ones have their colour", () => {
  const one = drawn(), [lines, signed] = one.root.querySelectorAll(".lines");
  /** How many lines of each colour were drawn last. */
  const strokes = (/** @type {Mounted["root"]} */ node) => {
    const calls = callsOn(node.querySelector("canvas")), found = [0, 0];
    let colour = -1;
    for (const [call] of calls.slice(calls.findLastIndex(([name]) => name === "clearRect"))) {
      if (call === "strokeStyle") colour += 1; // first the positive ones
      if (call === "moveTo") found[colour] += 1;
    }
    return found;
  };
  assert.deepEqual(strokes(lines), [5, 0]); // of six permitted, one is 0.004
  assert.deepEqual(strokes(signed), [4, 3]); // of nine, one is 0 and one 0.0625 of 8
  happens(lines.querySelectorAll(".query-side .row")[1], "pointermove");
  assert.deepEqual(strokes(lines), [2, 0]);
  assert.deepEqual(strokes(signed), [2, 1]);
});

test("pointing at another query shows its row in the bars; after a click all panels mean it", () => {
  const one = drawn();
  onCell("raw", 1, 0, "pointermove", one);
  assert.deepEqual(bars("bars", one).map(([, number]) => number), ["0.003906", "0.9961", "masked"]);
  onCell("q", 1, 0, "click", one);
  happens(one.root.querySelector("[data-panel=q]").querySelector(".stage"), "pointerleave");
  assert.deepEqual(bars("bars", one).map(([, number]) => number), ["0.003906", "0.9961", "masked"]);
  const frame = one.root.querySelector("[data-panel=weights]").querySelector(".frame.selected.row");
  assert.deepEqual([frame.hidden, frame.dataset.index], [false, "1"]);
});

test("a marked feature is framed where a panel has it", () => {
  const framed = [0, 1, 2].map((feature) => {
    const { root } = drawn({ marked: { feature } }), frame =
      root.querySelector("[data-panel=q]").querySelector(".frame.selected.column");
    return frame.hidden ? null : frame.dataset.index;
  });
  assert.deepEqual(framed, ["0", "1", null]);
});

test("zeros are dotted, and numbers are black on light cells and white on dark ones", () => {
  const calls = callsOn(panel("raw").querySelector("canvas")), from = calls.findLastIndex(([name]) =>
    name === "clearRect");
  const now = calls.slice(from);
  assert.equal(now.filter(([name]) => name === "fillRect").length, 1); // the one zero
  const colours = now.filter(([name]) => name === "fillStyle" || name === "fillText").map(([, given]) => given);
  assert.equal(colours[colours.indexOf("−8.00") - 1], "#fff"); // (0, 0, 1) is dark, and so is (255, 0, 1)
  assert.equal(page.root.dataset.theme, "light");
});

test("a tooltip keeps within the window", () => {
  const box = page.root.querySelector("[role=tooltip]"), canvas = panel("raw").querySelector("canvas");
  const at = (/** @type {number} */ clientX) => {
    Object.assign(canvas.style, { left: `${clientX - 5}px` });
    happens(canvas, "pointermove", { clientX, clientY: parseFloat(canvas.style.top) + 5 });
    return parseFloat(box.style.left);
  };
  const before = canvas.style.left;
  assert.deepEqual([at(100) > 100, at(1270) < 1270], [true, true]);
  canvas.style.left = before;
});

test("another pinned token takes the place of the first, and lines of one token are plainer", () => {
  const one = drawn(), lines = one.root.querySelector("[data-panel=lines]"), rows =
    lines.querySelectorAll(".query-side .row");
  happens(rows[1], "click");
  happens(rows[2], "click");
  happens(rows[2].parentNode, "pointerleave");
  assert.equal(lines.querySelector(".caption").textContent, "query 2 c, pinned: Escape shows all");
  const alphas = (/** @type {Mounted} */ { root }) => {
    const calls = callsOn(root.querySelector("[data-panel=lines]").querySelector("canvas"));
    return calls.slice(calls.findLastIndex(([name]) => name === "clearRect"))
      .filter(([name]) => name === "globalAlpha").map(([, alpha]) => alpha);
  };
  assert.ok(alphas(one).includes(Math.sqrt(0.5))); // 0.5 of query 2
  assert.ok(alphas(drawn()).includes(0.5));
  assert.equal(rows[1].querySelector(".token").title, "query 1 b");
});

test("keys of a list of tokens go by one or ten, and a bar that is pointed at is a key of the query", () => {
  const one = drawn(), list = one.root.querySelector("[data-panel=bars]").querySelector("[role=listbox]");
  happens(list, "keydown", { key: "Home" });
  happens(list, "keydown", { key: "PageDown" });
  const frame = (/** @type {string} */ axis) =>
    one.root.querySelector("[data-panel=weights]").querySelector(`.frame.hovered.${axis}`).dataset.index;
  assert.deepEqual([frame("row"), frame("column")], ["2", "2"]);
  happens(list, "keydown", { key: "ArrowUp" });
  assert.deepEqual([frame("row"), frame("column")], ["2", "1"]);
  happens(list, "keydown", { key: "Enter" });
  assert.deepEqual(one.told, [["pick", { panel: "bars", row: 2, column: 1, query: 2, key: 1 }]]);
});

test("frames and labels stand where their row is, in cells that are wider than high too", () => {
  const { root } = drawn({ matrix_width: 200, feature_width: 30 }), stage = root.querySelector("[data-panel=q]");
  const { cellHeight, cellWidth } = stage.querySelector("canvas").dataset;
  assert.notEqual(cellHeight, cellWidth);
  const top = parseFloat(stage.querySelector("canvas").style.top), frame = stage.querySelector(".frame.selected.row");
  assert.equal(parseFloat(frame.style.top), top + 2 * Number(cellHeight));
  const label = stage.querySelectorAll(".labels.rows .label")[1] ?? stage.querySelectorAll(".rows .label")[1];
  assert.equal(parseFloat(label.style.top), top + 1.5 * Number(cellHeight) - 7.5);
});

test("PageUp goes ten rows up, and what a shorter text has not is no longer selected", () => {
  const one = drawn(), stage = one.root.querySelector("[data-panel=weights]").querySelector("[role=application]");
  happens(stage, "keydown", { key: "PageUp" });
  assert.equal(one.root.querySelector("[aria-live=polite]").textContent,
    "A: query 0 a, key 1 y, masked (−∞), so weight 0");
  const shorter = { rows: { axis: "query", index: "query", labels: 0 }, columns: { axis: "key", index: "key",
    labels: 1 } };
  const item = { kind: "matrix", name: "weights", title: "A", caption: "", role: "weights", scale: "sequential",
    low: 0, high: 1,
    values: 0, factor: 1, mask: null, nonzero: null, ramp: true, ...shorter };
  one.send(packed({ items: [item], labels: [["0 a", "1 b"], ["0 x", "1 y"]], masks: [], selected: null, marked: null,
    values: [{ count: 4, half: false, mask: null }],
    matrix_width: 560, feature_width: 256, list_height: 420, least_cell: 1 },
  new Float32Array(4), colours.sequential, colours.diverging));
  const frames = one.root.querySelector("[data-panel=weights]").querySelectorAll(".frame.selected");
  assert.deepEqual(frames.map((node) => node.hidden), [true, false]); // query 2 is gone, key 1 is there
});

test("a cell that is of no token is never smaller than asked for; the matrix then grows", () => {
  /** @param {number} least_cell */
  const width = (least_cell) => Number(drawn({ feature_width: 12, least_cell }).root.querySelector("[data-panel=q]")
    .querySelector("canvas").dataset.cellWidth);
  assert.deepEqual([width(1), width(14)], [12 / FEATURES.length, 14]);
});
