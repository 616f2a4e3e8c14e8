// The diagrams of shapes and layouts: what boxes are called and hold, which letters light which axes, what a click
// opens.

import assert from "node:assert/strict";
import test from "node:test";

import { bitsOf, colours, firstOf, happens, mounted, packed, textsOf } from "../../support/page.js";
import { nearestAhead } from "../../../viz_ui/components/shared/walk.js";
import { route } from "../../../viz_ui/components/shape_diagram/shape_routes.js";

/** @typedef {import("../../support/page.js").Mounted} Mounted */

const from = (/** @type {string} */ path) => import(`../../../viz_ui/components/${path}.js`);
const { default: shapes } = await from("shape_diagram/shape_diagram");
const { default: layouts } = await from("layout_diagram/layout_diagram");

const axis = (/** @type {string} */ symbol, /** @type {number} */ size) => ({ symbol, letters: symbol.split("·"),
  size });
const tensor = (/** @type {string} */ name, /** @type {any} */ more) => ({ name, title: name, role: "stream",
  parameters: 0,
  nbytes: 96, tied: "", column: 0, row: 0, half: 0, axes: [axis("T", 3), axis("C", 8)], ...more });
const SHAPES = {
  letters: [{ letter: "T", words: "queries (tokens)", number: 3 }, { letter: "C", words: "width of the stream",
    number: 1024 },
    { letter: "L", words: "layers (blocks)", number: 3 }],
  around: [tensor("ids", { axes: [axis("T", 3)] }), tensor("embed", { parameters: 65792 }), tensor("final_norm", {}),
    tensor("logits", { tied: "tokens.weight" })],
  behind: 2, blocks: 3, block: 1, block_words: "12 parameters",
  tensors: [tensor("resid_pre", {}), tensor("attn.q", { column: 1, row: 2, role: "query", nbytes: 12345678,
    parameters: 12345678 }),
    tensor("attn.out", { column: 3, row: 1, axes: [axis("T", 3), axis("H·D", 8)] }), tensor("resid_post",
      { column: 5 })],
  adds: [{ name: "attention added", column: 3, row: 0, half: 0 }],
  edges: [{ start: "resid_pre", end: "attn.q", stream: false }, { start: "attention added", end: "resid_post",
    stream: true }],
  chosen: "attn.q",
  card: { title: "queries (T, C) = (3, 8)", line: "q = x @ w", facts: [["mean", "0.1"]],
    parameters: [["attn.query.weight", [axis("C", 8)], 64]] },
};
const diagram = (changes = {}) => mounted(shapes, "shapes", packed({ ...SHAPES, ...changes }));
const box = (/** @type {Mounted} */ { root }, /** @type {string} */ name) =>
  firstOf(root, "button", (node) => node.dataset.name === name);

test("a box has the letters and sizes of its axes, its parameters and its bytes", () => {
  const one = diagram();
  const foot = (/** @type {string} */ name) => [...box(one, name).querySelector(".foot").children]
    .map((node) => node.textContent);
  assert.deepEqual(["ids", "embed", "logits", "attn.q"].map(foot),
    [["", "96 B"], ["θ 65,792", "96 B"], ["θ tied", "96 B"], ["θ 12.3 M", "12.3 MB"]]);
  assert.equal(box(one, "attn.q").title, "attn.q: (T, C) = (3, 8), 12,345,678 parameters, 12,345,678 bytes");
  assert.equal(box(one, "logits").title, "logits: (T, C) = (3, 8), 0 parameters of its own "
    + "(it uses tokens.weight, which is counted where it is first used), 96 bytes");
  assert.deepEqual(textsOf(box(one, "attn.out"), ".axis"), ["T3", "H·D8"]);
  assert.equal(box(one, "attn.q").style["--hue"], "var(--query)");
  assert.equal(one.root.querySelector(".heading").textContent, "Block 1 of 3 · 12 parameters");
  assert.equal(one.root.querySelector(".blocks").textContent, "3 blocks012");
  assert.deepEqual([...one.root.querySelector(".around").children].slice(1)
    .map((node) => node.dataset.name ?? "blocks"),
    ["ids", "embed", "blocks", "final_norm", "logits"]);
});

test("a letter lights every axis that it names, and says how many", () => {
  const one = diagram(), lit = () => one.root.querySelectorAll(".lit").length;
  const said = () => one.root.querySelector("[role=status]").textContent;
  happens(one.root.querySelectorAll(".letter")[1], "pointerover");
  assert.equal(said(), "C = 1,024, width of the stream: in 6 axes of the diagram");
  happens(box(one, "attn.out").querySelectorAll(".axis")[1], "pointerover"); // H·D: letters without a legend here
  assert.deepEqual([said(), lit()], ["", 1]);
  happens(one.root, "pointerleave");
  assert.equal(lit(), 0);
});

test("a click opens a tensor or a block; the card is that of the chosen one", () => {
  const one = diagram();
  assert.deepEqual(one.root.querySelectorAll(".box").filter((node) => node.ariaPressed === "true")
    .map((node) => node.dataset.name), ["attn.q"]);
  assert.deepEqual(one.root.querySelectorAll(".pill").map((node) => node.ariaPressed), ["false", "true", "false"]);
  happens(box(one, "logits"), "click");
  happens(one.root.querySelectorAll(".pill")[2], "click");
  assert.deepEqual(one.told, [["pick", ["tensor", "logits"]], ["pick", ["block", 2]]]);
  const card = one.root.querySelector(".card");
  assert.deepEqual(["title", "line", "facts"].map((name) => card.querySelector(`.${name}`).textContent.trim()),
    ["queries (T, C) = (3, 8)", "q = x @ w", "mean 0.1"]);
  assert.equal(card.querySelector(".parameter").textContent, "attn.query.weightC864");
});

test("arrows run from box to box at right angles, and the stream wraps at the edge", () => {
  const a = { left: 0, right: 100, top: 0, bottom: 50 }, way = { gap: 10, edge: 400, wrapped: false };
  const at = (/** @type {number} */ left, /** @type {number} */ top) => ({ left, right: left + 100, top, bottom: top
    + 50 });
  assert.deepEqual(route(a, at(120, 0), way), [[100, 25], [120, 25]]);
  assert.deepEqual(route(a, at(0, 80), way), [[50, 50], [50, 80]]);
  assert.deepEqual(route(at(0, 80), a, way), [[50, 80], [50, 50]]);
  assert.deepEqual(route(a, at(120, 80), way), [[50, 50], [50, 75], [148, 75], [148, 80]]);
  assert.deepEqual(route(at(120, 80), a, way), [[220, 105], [50, 105], [50, 50]]);
  assert.deepEqual(route(at(0, 80), at(120, 0), { ...way, stream: true }), [[100, 105], [105, 105], [105, 25],
    [120, 25]]);
  assert.deepEqual(route(at(300, 0), at(4, 80), { ...way, wrapped: true }),
    [[400, 25], [400, 25], [400, 75], [1, 75], [1, 105], [4, 105]]);
});

const button = (/** @type {string} */ name, more = {}) => ({ name, title: name, words: "", role: "stream",
  aloud: `all of ${name}`, ...more });
const half = (/** @type {string} */ name, cross = false) =>
  ({ branch: button(name), norm: button(`${name} norm`), norm_first: true, is_cross: cross });
const stack = (/** @type {string} */ name, /** @type {any[]} */ halves) => ({ title: name, reads: "a b",
  start: button(`${name} in`),
  blocks: [{ halves, end: button(`${name} end`) }], ends: [button(`${name} out`, { words: "next: b 12%" })] });

test("each stack has its boxes, pictures of its weights, and arrows into every cross-attention", () => {
  const picture = [["decoder attn", 2, 2]], steps = Uint8Array.from([10, 20, 30, 40]);
  const header = { layouts: [{ title: "encoder-decoder", model: "two", words: "Both.",
    stacks: [stack("encoder", [half("encoder attn")]),
    stack("decoder", [half("decoder attn"), half("decoder cross", true), half("decoder ffn")])] }],
      chosen: "decoder cross",
      pictures: picture };
  const one = mounted(layouts, "layouts", packed(header, colours.sequential, steps, bitsOf([1, 0, 1, 1])));
  assert.deepEqual(textsOf(one.root, ".stack-title"), ["encoder", "decoder"]);
  assert.equal(one.root.querySelectorAll(".reading").length, 2); // a line and its head
  assert.equal(box(one, "decoder out").textContent, "decoder outnext: b 12%");
  const [chosen] = one.root.querySelectorAll(".box").filter((node) => node.ariaPressed === "true");
  assert.deepEqual([chosen.dataset.name, chosen.title], ["decoder cross", "all of decoder cross"]);
  const [, { data }] = box(one, "decoder attn").querySelector("canvas").pen.calls[0];
  assert.deepEqual([0, 1, 2, 3].map((cell) => (data[4 * cell + 3] ? data[4 * cell] : null)), [10, null, 30, 40]);
  assert.equal(box(one, "encoder attn").querySelector("canvas"), null);
  happens(box(one, "encoder attn norm"), "click");
  assert.deepEqual(one.told, [["pick", "encoder attn norm"]]);
});

test("an arrow key goes to the nearest button ahead, rather straight on than aside", () => {
  const at = (/** @type {number} */ left, /** @type {number} */ top) =>
    /** @type {any} */ ({ getBoundingClientRect: () => ({ left, right: left + 20, top, bottom: top + 20 }) });
  const here = at(100, 100), right = at(160, 100), nearer = at(130, 140), below = at(100, 140), left = at(40, 100);
  const all = [right, nearer, below, left, here];
  const ahead = (/** @type {string} */ key, more = {}) =>
    nearestAhead(/** @type {any} */ ({ key, preventDefault: () => {}, ...more }), here, all);
  assert.deepEqual(["ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "Enter"].map((key) => ahead(key)),
    [right, below, left, undefined, undefined]);
  assert.equal(ahead("ArrowRight", { ctrlKey: true }), undefined);
});

test("the decoder is the mirror image of the encoder, and the stream behind a block stands beside its last half",
  () => {
  const header = { layouts: [{ title: "both", model: "two", words: "",
    stacks: [stack("encoder", [half("encoder attn"), half("encoder ffn")]),
    stack("decoder", [half("decoder attn"), half("decoder ffn")])] }], chosen: "", pictures: [] };
  const one = mounted(layouts, "layouts", packed(header, colours.sequential));
  const at = (/** @type {string} */ name) => box(one, name).getBoundingClientRect();
  const wide = at("encoder in").width, right = at("decoder in").left + wide;
  assert.equal(at("encoder attn").left - at("encoder in").left, right - at("decoder attn").right);
  assert.ok(at("encoder attn").left - at("encoder in").left > 40); // its stream runs left of it
  assert.equal(at("encoder end").top, at("encoder ffn").top);
  assert.ok(at("encoder ffn").width < at("encoder attn").width);
});
