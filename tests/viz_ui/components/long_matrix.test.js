// The matrix of a long text: what its squares say, how zooming and dragging change what is seen, what Python is asked.

import assert from "node:assert/strict";
import test from "node:test";

import { bitsOf, callsOn, colours, happens, mounted, packed, textsOf } from "../../support/page.js";
import { asked, fitted, middleOf, moved, showing, whole, zoomed } from
  "../../../viz_ui/components/panels/view_part.js";

const { default: panels, tellPart } = await import("../../../viz_ui/components/panels/panels.js");

const SHAPE = /** @type {[number, number]} */ ([1000, 600]);
const TOKENS = Array.from({ length: 400 }, (_, i) => `${i} t`);
const BLOCK = 100; // the overview has 4 × 4 squares
const OVERVIEW = [1, 0.5, 0.25, 0.125, 0.0625, 0.75, 0.375, 0.1875, 0.875, 0.4375];
const LOWER = [1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1];

/** Values of float16 by their bits, for the few that stand here. */
const halves = new Uint16Array(OVERVIEW.map((value) => {
  const power = Math.floor(Math.log2(value));
  return ((power + 15) << 10) | ((value / 2 ** power - 1) * 1024);
}));

/** @param {object} changes */
function drawn(changes = {}, name = `n${Math.random()}`) {
  const axis = (/** @type {string} */ axis) => ({ axis, index: axis, labels: 0 });
  const items = [
    { kind: "matrix", name: "weights", title: "A", caption: "", role: "weights", scale: "sequential", low: 0, high: 1,
      factor: 1, ramp: true, rows: axis("query"), columns: axis("key"),
      overview: { row: 0, column: 0, block: BLOCK, shape: [4, 4], values: 0, mask: 0 } },
    { kind: "lines", name: "lines", title: "Who reads whom", of: "weights", strongest: { values: 1, rows: [
      { query: 210, keys: [3, 7], rest: { count: 209, total: 0.25, largest: 0.01 } },
      { query: 211, keys: [7], rest: { count: 0, total: 0, largest: 0 } },
    ] } },
    { kind: "bars", name: "bars", title: "What the query reads", of: "weights", strongest: { values: 2, rows: [
      { query: 210, keys: [3, 7], rest: { count: 209, total: 0.25, largest: 0.01 } },
    ] } },
  ];
  const header = { name, stamp: "s", items, labels: [TOKENS], masks: [{ cells: 16 }], selected: [210, 7], marked: null,
    values: [{ count: 10, half: true, unit: 1, mask: 0 }, { count: 3, half: false, mask: null },
      { count: 2, half: false, mask: null }], matrix_width: 660, feature_width: 256, list_height: 420,
    least_cell: 1, ...changes };
  const one = mounted(panels, "panels", packed(header, new Float32Array([0.25, 0.5, 1]), new Float32Array([0.25, 0.5]),
    halves, bitsOf(LOWER), colours.sequential, colours.diverging));
  const stage = one.root.querySelector("[data-panel=weights]").querySelector(".stage");
  return { ...one, name, stage, canvas: stage.querySelector("canvas") };
}

/** The cells 200 … 211 of both axes, exact: row · 12 + column thousandths. */
function exactPart(/** @type {string} */ name, stamp = "s") {
  const cells = Float32Array.from({ length: 144 }, (_, i) => i / 1000);
  tellPart(packed({ name, stamp, panel: "weights", view: { row: 200, column: 200, size: 12 }, masks: [],
    values: [{ count: 144, half: false, mask: null }],
    part: { row: 200, column: 200, block: 1, shape: [12, 12], values: 0, mask: null } }, cells));
}

/**
 * @param {ReturnType<typeof drawn>} one
 * @param {number} row
 * @param {number} column
 */
function onCell({ canvas }, row, column, kind = "pointermove", more = {}) {
  const { style, dataset } = canvas, at = (/** @type {string} */ side, /** @type {number} */ cells, size = "") =>
    parseFloat(style[side]) + (cells + 0.5) * Number(dataset[size]);
  happens(canvas, kind, { pointerId: 1, clientX: at("left", column - Number(dataset.column), "cellWidth"),
    clientY: at("top", row - Number(dataset.row), "cellHeight"), ...more });
}

const tooltip = (/** @type {ReturnType<typeof drawn>} */ one) => one.root.querySelector("[role=tooltip]").children
  .map((line) => line.textContent);
const note = (/** @type {ReturnType<typeof drawn>} */ one) =>
  one.root.querySelector("[data-panel=weights]").querySelector(".note").textContent;
const press = (/** @type {ReturnType<typeof drawn>} */ one, /** @type {string} */ key) =>
  happens(one.stage, "keydown", { key });
const seen = (/** @type {ReturnType<typeof drawn>} */ { canvas: { dataset } }) =>
  [dataset.row, dataset.column, dataset.rows].map(Number);
const rest = () => new Promise((resolve) => setTimeout(resolve, 260));

test("what is seen stays within the matrix, and has twelve tokens at least", () => {
  assert.deepEqual(whole(SHAPE), { row: 0, column: 0, size: 1000 });
  assert.deepEqual(fitted({ row: 995, column: -3, size: 20 }, SHAPE), { row: 980, column: 0, size: 20 });
  assert.deepEqual(fitted({ row: 1, column: 1, size: 3 }, SHAPE), { row: 1, column: 1, size: 12 });
  assert.deepEqual(fitted({ row: 1, column: 590, size: 5000 }, SHAPE), { row: 0, column: 0, size: 1000 });
  assert.deepEqual(moved({ row: 10, column: 10, size: 20 }, -50, 5, SHAPE), { row: 0, column: 15, size: 20 });
});

test("zooming keeps the place under the pointer where it is", () => {
  const at = { row: 300, column: 200 }, near = zoomed(whole(SHAPE), 0.25, at, SHAPE);
  assert.deepEqual(near, { row: 225, column: 150, size: 250 });
  assert.equal((at.row - near.row) / near.size, 0.3);
  assert.deepEqual(zoomed(near, 4, at, SHAPE), whole(SHAPE));
});

test("a cell that is reached comes into view by as little as it takes", () => {
  const part = { row: 100, column: 100, size: 50 };
  assert.deepEqual(showing(part, { row: 120, column: 120 }, 1, SHAPE), part);
  assert.deepEqual(showing(part, { row: 150, column: 99 }, 1, SHAPE), { row: 101, column: 99, size: 50 });
  assert.deepEqual(middleOf(part, { row: 120, column: 149 }), { row: 120.5, column: 149.5 });
  assert.deepEqual(middleOf(part, { row: 20, column: 149 }), { row: 125, column: 125 });
});

test("Python is asked for whole tokens that hold all that is seen", () => {
  assert.deepEqual(asked({ row: 10.6, column: 20, size: 12 }), [10, 20, 13]);
  assert.deepEqual(asked(whole(SHAPE)), [0, 0, 1000]);
});

test("a square names its queries and keys and says that it shows the largest of so many cells", () => {
  const one = drawn();
  onCell(one, 250, 130);
  assert.deepEqual(tooltip(one), ["queries 200 t … 299 t", "keys 100 t … 199 t",
    "0.0625, the largest of 10,000 cells"]);
  onCell(one, 50, 350);
  assert.equal(tooltip(one)[2], "masked (−∞), all of them");
  assert.match(note(one), /^Each square stands for 100 × 100 cells and shows the largest number of them\./);
  const frame = one.stage.querySelector(".frame.hovered.row");
  assert.equal(parseFloat(frame.style.height), 100 * Number(one.canvas.dataset.cellHeight));
});

test("a click on a square asks for its cell and chooses none itself; a token's own cell is chosen at once", () => {
  const one = drawn();
  onCell(one, 250, 130, "click");
  assert.deepEqual(one.told, [["pick", { panel: "weights", row: 200, column: 100, block: 100 }]]);
  assert.equal(one.stage.querySelector(".frame.selected.row").dataset.index, "210");
  exactPart(one.name);
  onCell(one, 203, 204, "click");
  assert.deepEqual(one.told[1], ["pick", { panel: "weights", row: 203, column: 204, query: 203, key: 204 }]);
});

test("keys zoom about the chosen cell to tokens, and back to the whole; Python is asked once at rest", async () => {
  const one = drawn();
  for (let i = 0; i < 8; i++) press(one, "+");
  const [row, column, size] = seen(one);
  assert.equal(size, 12);
  assert.ok(row <= 210 && 210 < row + 12 && column <= 7 && 7 < column + 12);
  await rest();
  assert.deepEqual(one.told.map(([event]) => event), ["look"]);
  press(one, "0");
  assert.deepEqual(seen(one), [0, 0, 400]);
  await rest();
  assert.deepEqual(one.told[1], ["look", [0, 0, 400]]);
});

test("what Python sends of the part has each cell's own number, four digits, and labels of tokens", () => {
  const one = drawn();
  exactPart(one.name);
  assert.deepEqual(seen(one), [200, 200, 12]); // the elements were new: it is what was looked at before
  onCell(one, 203, 204);
  assert.deepEqual(tooltip(one), ["query 203 t", "key 204 t", "0.04000"]);
  assert.match(note(one), /^Each square is one query and one key\./);
  assert.deepEqual(textsOf(one.stage.querySelector(".labels.rows"), ".label"), TOKENS.slice(200, 212));
  const written = callsOn(one.canvas).filter(([call]) => call === "fillText").map(([, text]) => text);
  assert.equal(written.at(-1), "0.14"); // 0.143, in the last cell
});

test("a part of another head is not drawn over this one", () => {
  const one = drawn();
  exactPart(one.name, "of the head before");
  assert.deepEqual(seen(one), [0, 0, 400]);
  onCell(one, 203, 204);
  assert.match(tooltip(one)[2], /of 10,000 cells$/);
});

test("arrow keys go by squares, then by tokens, and take the picture along", () => {
  const one = drawn(), said = () => one.root.querySelector("[aria-live=polite]").textContent;
  press(one, "ArrowUp");
  assert.equal(said(), "A: queries 100 t … 199 t, keys 0 t … 99 t, 0.500, the largest of 10,000 cells");
  press(one, "Enter");
  assert.deepEqual(one.told.pop(), ["pick", { panel: "weights", row: 100, column: 0, block: 100 }]);
  const near = drawn({ selected: [211, 205] });
  exactPart(near.name);
  press(near, "ArrowDown");
  assert.equal(seen(near)[0] > 200, true); // row 212, coarser again until Python answers
  press(near, "ArrowUp");
  press(near, "ArrowUp");
  press(near, "ArrowRight");
  assert.equal(near.root.querySelector("[aria-live=polite]").textContent.startsWith("A: quer"), true);
});

test("a drag moves what is seen and is no click; the whole cannot be dragged", () => {
  const one = drawn();
  exactPart(one.name);
  onCell(one, 205, 205, "pointerdown");
  const { left, top } = one.canvas.getBoundingClientRect(), size = Number(one.canvas.dataset.cellWidth);
  const to = { pointerId: 1, clientX: left + 7.5 * size, clientY: top + 4.5 * size }; // two right, one up
  happens(one.canvas, "pointermove", to);
  happens(one.canvas, "pointerup", to);
  happens(one.canvas, "click", to);
  assert.deepEqual(seen(one), [201, 198, 12]);
  assert.deepEqual(one.told, []);
  happens(one.canvas, "pointermove", { ...to, clientX: to.clientX + 90, buttons: 0 }); // let go outside: no drag
  assert.deepEqual(seen(one), [201, 198, 12]);
  press(one, "Enter");
  assert.equal(one.told.at(-1)?.[0], "pick"); // the keyboard picks after a drag too
  const still = drawn();
  onCell(still, 205, 205, "pointerdown");
  onCell(still, 105, 205, "pointermove");
  assert.deepEqual(seen(still), [0, 0, 400]);
});

test("two fingers that part zoom in, and the wheel only with Ctrl", () => {
  const one = drawn(), [wheel] = one.stage.listeners.wheel;
  onCell(one, 150, 150, "pointerdown", { pointerId: 1 });
  onCell(one, 250, 250, "pointerdown", { pointerId: 2 });
  onCell(one, 350, 350, "pointermove", { pointerId: 2 });
  assert.equal(Math.round(seen(one)[2]), 200); // half, for they are twice as far apart
  let stopped = 0;
  const turn = (/** @type {boolean} */ ctrlKey) => wheel({ ctrlKey, deltaY: -400, deltaMode: 0, clientX: 300, clientY:
    300, preventDefault: () => { stopped += 1; } });
  turn(false);
  assert.deepEqual([Math.round(seen(one)[2]), stopped], [200, 0]);
  turn(true);
  assert.deepEqual([seen(one)[2] < 100, stopped], [true, 1]);
});

test("bars have the strongest keys and say how much weight the others have", () => {
  const { root } = drawn(), bars = root.querySelector("[data-panel=bars]");
  assert.deepEqual(textsOf(bars, ".token").slice(-2), ["3 t", "7 t"]);
  assert.deepEqual(textsOf(bars, ".number"), ["0.2500", "0.5000"]);
  assert.equal(bars.querySelector(".caption").textContent, "query 210 t · its 2 strongest keys · sum 1.000");
  assert.match(bars.querySelector(".note").textContent, /The other 209 keys have 0\.250 of the weight together\.$/);
});

test("lines join the queries that were sent with their strongest keys, and say what is left out", () => {
  const one = drawn(), lines = one.root.querySelector("[data-panel=lines]");
  assert.deepEqual(["query", "key"].map((side) => textsOf(lines.querySelector(`.${side}-side`), ".token")),
    [["210 t", "211 t"], ["3 t", "7 t"]]);
  const [first] = lines.querySelector(".query-side").querySelectorAll(".row");
  happens(first, "pointermove");
  assert.deepEqual(textsOf(lines.querySelector(".key-side"), ".number"), ["0.250", "0.500"]);
  assert.equal(lines.querySelector(".caption").textContent,
    "query 210 t: 2 strongest. The other 209 keys have 0.250 of the weight together.");
  happens(lines.querySelector(".key-side").querySelectorAll(".row")[0], "pointermove");
  assert.deepEqual(textsOf(lines.querySelector(".query-side"), ".number"), ["0.250", ""]); // of 211 it was not sent
  happens(first, "click");
  assert.deepEqual(one.told, [["pick", { panel: "lines", row: 210, column: null, query: 210, key: null }]]);
});
