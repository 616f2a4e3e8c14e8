// What the tiles of FlashAttention write: each row before and after a tile, in numbers that add up.

import assert from "node:assert/strict";
import test from "node:test";

import { bitsOf, callsOn, colours, happens, mounted, packed, textsOf } from "../../support/page.js";

/** @typedef {import("../../support/page.js").Mounted} Mounted */

const { default: tiles } = await import("../../../viz_ui/components/tiles/tiles.js");

const QUERIES = ["0 a", "1 b"], KEYS = ["0 x", "1 y", "2 z"], VALUE = [[1, 3], [2, -1], [-2, 4]];
const SCORES = [[1, 2, 9], [0.5, -1, 3]], ALLOWED = [[1, 1, 0], [1, 1, 1]];
const CUTS = [[0, 2, 0, 2], [0, 2, 2, 3]]; // both queries with two keys, then with the third
const SINGLE = [[0, 1, 0, 2], [0, 1, 2, 3], [1, 2, 0, 2], [1, 2, 2, 3]]; // one query at a time

/**
 * The online softmax written out, tile by tile.
 * @param {[maximum: number, total: number]} start
 */
function online([maximum, total], cuts = CUTS) {
  const running = QUERIES.map(() => ({ m: maximum, l: total, o: [0, 0] }));
  return cuts.map(([top, bottom, left, right]) => {
    const rows = [], scores = [], exponentials = [], allowed = [];
    for (let i = top; i < bottom; i++) {
      const keys = KEYS.map((_, j) => j).slice(left, right), { m, l, o } = running[i];
      const seen = keys.filter((j) => ALLOWED[i][j]), highest = Math.max(m, ...seen.map((j) => SCORES[i][j]));
      const factor = Number.isFinite(m) ? Math.exp(m - highest) : 0;
      const powers = keys.map((j) => (ALLOWED[i][j] ? Math.exp(SCORES[i][j] - highest) : 0));
      running[i] = { m: highest, l: factor * l + powers.reduce((a, b) => a + b, 0),
        o: o.map((value, d) => factor * value + keys.reduce((sum, j, n) => sum + powers[n] * VALUE[j][d], 0)) };
      rows.push({ ...running[i], factor: seen.length ? factor : 1 });
      scores.push(...keys.map((j) => SCORES[i][j]));
      exponentials.push(...powers);
      allowed.push(...keys.map((j) => ALLOWED[i][j]));
    }
    return { rows, scores, exponentials, allowed };
  });
}

/**
 * @param {any} changes
 * @param {number[][]} cuts
 */
function drawn(changes = {}, cuts = CUTS) {
  const start = changes.start ?? [null, 0], made = online([start[0] ?? -Infinity, start[1]], cuts);
  const header = {
    queries: QUERIES, keys: KEYS, width: 2, tiles: cuts.map((cut, n) => [...cut, 40 + 20 * n, 16 * n]), skipped: [],
      half: false,
    units: [1, 1, 1], ends: [3, 8], start, moved: [64, 16], score_formula: "QKᵀ/√D", step: 0, query: 1, answered: 0,
      ...changes,
  };
  const all = (/** @type {(tile: ReturnType<typeof online>[0]) => number[]} */ of) =>
    new Float32Array(made.flatMap(of));
  return mounted(tiles, "tiles", packed(header,
    all(({ rows }) => rows.map(({ m }) => m)), all(({ rows }) => rows.map(({ l }) => l)),
    all(({ rows }) => rows.map(({ factor }) => factor)), all(({ scores }) => scores),
    all(({ exponentials }) => exponentials), all(({ rows }) => rows.flatMap(({ o }) => o)),
    bitsOf(made.flatMap(({ allowed }) => allowed)), colours.sequential, colours.diverging));
}

const worked = (/** @type {Mounted} */ { root }) => root.querySelector(".worked").textContent;
const sentence = (/** @type {Mounted} */ { root }) => root.querySelector(".sentence").textContent;
const tooltip = (/** @type {Mounted} */ { root }) => [...root.querySelector("[role=tooltip]").children]
  .map((line) => line.textContent);
const numbers = (/** @type {Mounted} */ { root }, /** @type {string} */ name) =>
  textsOf(root.querySelector(`[data-block=${name}]`), ".body div");

test("the first tile of a row begins at −∞ and 0, a later one at what is left of those before it", () => {
  const one = drawn();
  // m′ = max(−∞, 0.5), l′ = 0 · 0 + e⁰ + e^−1.5
  assert.equal(worked(one), "Query 1 b: m′ = max(−∞, 0.5000) = 0.5000; l′ = 0 · 0 + 1.223 = 1.223; "
    + "O is multiplied by 0 before eˢ⁻ᵐ′·V is added.");
  happens(one.root, "keydown", { key: "ArrowRight" });
  // m′ = max(0.5, 3), l′ = e^−2.5 · 1.223 + 1
  assert.equal(worked(one), "Query 1 b: m′ = max(0.5000, 3.000) = 3.000; l′ = 0.08208 · 1.223 + 1.000 = 1.100; "
    + "O is multiplied by 0.08208 before eˢ⁻ᵐ′·V is added.");
});

test("where a head has a sink, a row begins with it: its logit, and 1 in the sum", () => {
  assert.equal(worked(drawn({ start: [1.5, 1] })), "Query 1 b: m′ = max(1.500, 0.5000) = 1.500; "
    + "l′ = 1.000 · 1.000 + 0.4500 = 1.450; O is multiplied by 1.000 before eˢ⁻ᵐ′·V is added.");
});

test("a row that the mask closes in a tile stays as it is", () => {
  assert.equal(worked(drawn({ step: 1, query: 0 })),
    "Query 0 a: every cell of its row in this tile is masked, so m, l and O stay as they are.");
});

test("the numbers beside the rows are those before and after the tile", () => {
  const one = drawn({ step: 1 });
  assert.deepEqual(numbers(one, "before.maximum"), ["2.000", "0.5000"]);
  assert.deepEqual(numbers(one, "maximum"), ["2.000", "3.000"]);
  assert.deepEqual(numbers(one, "rescaling"), ["1.000", "0.08208"]);
  assert.deepEqual(numbers(one, "before.total"), ["1.368", "1.223"]);
  assert.deepEqual(numbers(one, "total"), ["1.368", "1.100"]);
  assert.deepEqual(numbers(drawn(), "before.total"), ["0", "0"]);
});

test("a cell of the ledger says what it is", () => {
  const one = drawn({ step: 1 });
  const at = (/** @type {string} */ name, /** @type {number} */ row, /** @type {number} */ column) => {
    const canvas = one.root.querySelector(`[data-block=${name}]`).querySelector("canvas"), { width, height } =
      canvas.style;
    const columns = name === "scores" ? 1 : 2;
    happens(canvas, "pointermove", { clientX: (column + 0.5) * parseFloat(width) / columns,
      clientY: (row + 0.5) * parseFloat(height) / 2 });
    return tooltip(one);
  };
  assert.deepEqual(at("scores", 1, 0), ["query 1 b", "key 2 z", "S: 3.000"]);
  assert.deepEqual(at("scores", 0, 0), ["query 0 a", "key 2 z", "masked"]);
  // the mixed values of softmax(SCORES) of query 1: what O′ / l′ ends with
  const powers = SCORES[1].map((score) => Math.exp(score)), sum = powers.reduce((a, b) => a + b, 0);
  const mixed = powers.reduce((all, power, j) => all + (power / sum) * VALUE[j][1], 0);
  assert.deepEqual(at("mixed", 1, 1), ["query 1 b", "feature 1", `O′ / l′: ${mixed.toPrecision(4)}`]);
  const other = powers.reduce((all, power, j) => all + (power / sum) * VALUE[j][0], 0);
  assert.deepEqual(at("mixed", 1, 0)[2], `O′ / l′: ${other.toPrecision(4).replace("-", "−")}`);
  assert.deepEqual(at("output", 0, 0), ["query 0 a", "feature 0", "O′: 2.368"]); // 1·e^−1 + 2·e⁰
});

test("what a tile has read and written so far, of how much in all", () => {
  const one = drawn();
  assert.equal(sentence(one), "Queries 0–1 × keys 0–1. Bytes read so far: 40 of 64; written: 0 of 16.");
  assert.equal(one.root.querySelector(".place").textContent, "tile 1 of 2");
  happens(one.root, "keydown", { key: "End" });
  assert.equal(sentence(one), "Queries 0–1 × keys 2. Bytes read so far: 60 of 64; written: 16 of 16.");
});

test("the map tells done from coming, and shows a number only where it is worked out", () => {
  const one = drawn({ step: 1 }), canvas = one.root.querySelector(".map").querySelector("canvas"),
    { left, top, width } = canvas.style;
  const cell = parseFloat(width) / 3;
  const at = (/** @type {Mounted} */ page, /** @type {number} */ row, /** @type {number} */ column) => {
    happens(page.root.querySelector(".map").querySelector(".stage"), "pointermove",
      { clientX: parseFloat(left) + (column + 0.5) * cell, clientY: parseFloat(top) + (row + 0.5) * cell });
    return tooltip(page);
  };
  assert.deepEqual(at(one, 1, 1), ["query 1 b", "key 1 y", "−1.000", "tile 1 of 2, done, no longer in fast memory"]);
  assert.deepEqual(at(one, 1, 2), ["query 1 b", "key 2 z", "3.000", "tile 2 of 2, in fast memory"]);
  assert.deepEqual(at(one, 0, 2), ["query 0 a", "key 2 z", "masked (−∞)", "tile 2 of 2, in fast memory"]);
  assert.deepEqual(at(drawn(), 1, 2), ["query 1 b", "key 2 z", "not worked out yet", "tile 2 of 2, still to come"]);
  const map = one.root.querySelector(".map");
  assert.equal(map.querySelector(".title").textContent, "S = QKᵀ/√D 2 × 3, one tile at a time");
  assert.deepEqual(textsOf(map, ".entry").slice(-4), ["S−33", "eS−m′01", "O−88", "O / l−3.843.84"]);
});

test("tiles of other sides than their number of rows are found under the pointer", () => {
  const one = drawn({ step: 0 }, SINGLE), canvas = one.root.querySelector(".map").querySelector("canvas"),
    { left, top, width } = canvas.style;
  const cell = parseFloat(width) / 3, found = [[0, 1], [0, 2], [1, 0], [1, 2]].map(([row, column]) => {
    happens(one.root.querySelector(".map").querySelector(".stage"), "pointermove",
      { clientX: parseFloat(left) + (column + 0.5) * cell, clientY: parseFloat(top) + (row + 0.5) * cell });
    return tooltip(one)[3].split(",")[0];
  });
  assert.deepEqual(found, ["tile 1 of 4", "tile 2 of 4", "tile 3 of 4", "tile 4 of 4"]);
});

test("another query is chosen by a click or an arrow, and told together with the tile", async () => {
  const one = drawn({ step: 1 });
  happens(one.root, "keydown", { key: "ArrowUp" });
  assert.match(worked(one), /^Query 0 a/);
  happens(one.root, "keydown", { key: "ArrowUp" }); // the first one of the tile
  await new Promise((go) => setTimeout(go, 300));
  assert.deepEqual(one.told, [["step", [-1, 0, 1]]]);
});

test("a click on a row of a later tile chooses its query, one on the map the tile as well", async () => {
  const one = drawn({ step: 2, query: 0 }, SINGLE), ledger = one.root.querySelector("[data-block=scores]");
  assert.match(worked(one), /^Query 1 b/); // the tile has no row of query 0
  assert.deepEqual(textsOf(drawn({ step: 3 }, SINGLE).root, ".key-labels .key"), ["2 z"]);
  happens(ledger.querySelector("canvas"), "click", { clientX: 1, clientY: 1 });
  const { left, top, width } = one.root.querySelector(".map").querySelector("canvas").style, cell =
    parseFloat(width) / 3;
  await new Promise((go) => setTimeout(go, 300));
  happens(one.root.querySelector(".map").querySelector(".stage"), "click",
    { clientX: parseFloat(left) + 2.5 * cell, clientY: parseFloat(top) + 0.5 * cell });
  await new Promise((go) => setTimeout(go, 300));
  assert.deepEqual(one.told, [["step", [2, 1, 1]], ["step", [1, 0, 2]]]);
});

test("quantities are named with their powers, and the strips show which rows and columns are in fast memory", () => {
  const { root } = drawn({ step: 1 }), titles = root.querySelectorAll(".block")
    .map((block) => block.querySelector(".title").textContent);
  assert.deepEqual(titles, ["S", "m", "m′", "em−m′", "eS−m′", "l", "l′", "O", "O′", "O′ / l′"]);
  const cell = parseFloat(root.querySelector(".map").querySelector("canvas").style.width) / 3;
  const [block] = root.querySelector(".of-K").querySelectorAll("i"), [row] =
    root.querySelector(".of-Q").querySelectorAll("i");
  assert.deepEqual([parseFloat(block.style.left) / cell, parseFloat(block.style.width) / cell].map(Math.round), [2, 1]);
  assert.deepEqual([parseFloat(row.style.top) / cell, parseFloat(row.style.height) / cell].map(Math.round), [0, 2]);
});

test("what is done is dim, what is to come is covered, what is in fast memory is plain", () => {
  const covers = [0, 1].map((step) => callsOn(drawn({ step }).root.querySelector(".map").querySelector("canvas"))
    .filter(([name]) => name === "globalAlpha").map(([, alpha]) => alpha).filter((_, n) => n % 2 === 0));
  assert.deepEqual(covers, [[0, 1], [0.68, 0]]);
});
