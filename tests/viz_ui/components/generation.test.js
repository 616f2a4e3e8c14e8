// What the player of a generation writes of a step: each stage of the choice, the cache, the rows of weights.

import assert from "node:assert/strict";
import test from "node:test";

import { colours, happens, mounted, packed, stepsOn } from "../../support/page.js";

/** @typedef {import("../../support/page.js").Mounted} Mounted */

const { default: generation } = await import("../../../viz_ui/components/generation/generation.js");

const LABELS = ["0 a", "1 b", "2 c", "3 d", "4 e"]; // two of the prompt, three steps; the last is not read yet
const SAMPLING = { temperature: 0.5, top_k: 3, top_p: 0.9, vocabulary: 7, seed: 42 };
const [LIKELY, SECOND, CUT] = [
  { token_id: 2, label: "c", logit: 1.5, scaled: 3, full: 0.5, by_top_k: true, allowed: true, kept: true,
    probability: 0.625 },
  { token_id: 5, label: "f", logit: 1.25, scaled: 2.5, full: 0.3, by_top_k: true, allowed: true, kept: true,
    probability: 0.375 },
  { token_id: 6, label: "g", logit: -1, scaled: -2, full: 0.15, by_top_k: true, allowed: true, kept: false,
    probability: 0 },
];
const OUT = { token_id: 1, label: "h", logit: -2, scaled: -4, full: 0.05, by_top_k: false, allowed: true,
  kept: false, probability: 0 };
const BARRED = { ...OUT, allowed: false };
const STEP = {
  read: 2, queries: 2, numbers: [["tokens read", "1", "3"], ["cache bytes", "96 of 128", ""]], greedy: false,
    draw: 0.25,
  span: [0, 0.625], chosen: 2, drawn: 2, drawn_label: "c", forced: false, fixed: false, left: [7, 3, 2],
  held: [1, 0.95, 0.8], candidates: [LIKELY, SECOND, CUT, OUT],
};
const later = (/** @type {number} */ read, more = {}) => ({ ...STEP, read, queries: 1, ...more });
const FORCED = { forced: true, chosen: 5, drawn: 2, draw: 0.5, span: [0.625, 1] };
const KEYS = [1, 2, 3, 4, 10, 20, 30, 40]; // (D,S): two numbers of each of four tokens
const VALUES = KEYS.map((value) => -value);
const ROWS = [1, 0.25, 0.75, 0.125, 0.25, 0.625, 0.5, 0.25, 0.125, 0.125]; // of queries 0 to 3

/**
 * @param {any} changes
 * @param {number[][]} [arrays]
 */
function drawn(changes = {}, arrays = [KEYS, VALUES, ROWS]) {
  const header = {
    labels: LABELS, source: [], of_source: false, prompt_length: 2, asked: 3, running: false, step: 0, answered: 0,
    head_name: "layer 1, head 2", width: 2, ends: [40, 40], sampling: SAMPLING,
    steps: [STEP, later(3), later(4)], ...changes,
  };
  const floats = arrays.map((array) => new Float32Array(array));
  return mounted(generation, "generation", packed(header, ...floats, colours.sequential, colours.diverging));
}

const stages = (/** @type {Mounted} */ { root }) => root.querySelectorAll(".line.head span")
  .map((node) => node.textContent);
const lines = (/** @type {Mounted} */ { root }) => root.querySelectorAll(".line.left")
  .map((line) => [...line.children].map((cell) => cell.textContent));
const rows = (/** @type {Mounted} */ { root }) => root.querySelectorAll(".candidate")
  .map((row) => [...row.children].map((cell) => cell.textContent));
const verdict = (/** @type {Mounted} */ { root }) => root.querySelector(".verdict").querySelector("span").textContent;
const sentence = (/** @type {Mounted} */ { root }) => root.querySelector(".sentence").textContent;
const tooltip = (/** @type {Mounted} */ { root }) => [...root.querySelector("[role=tooltip]").children]
  .map((line) => line.textContent);

test("each stage has its own number: what it is set to, how many tokens it leaves, how much of the probability", () => {
  const one = drawn();
  assert.deepEqual(stages(one), ["token", "logit", "÷ T0.5", "softmax", "top-k3", "top-p0.9", "÷ sum0.800"]);
  assert.deepEqual(lines(one), [["tokens", "7", "7", "7", "3", "2", "2"], ["share kept", "", "", "1", "0.950", "0.842",
    "1"]]);
  const off = drawn({ sampling: { ...SAMPLING, top_k: 7, top_p: 1 } });
  assert.deepEqual(stages(off).slice(4, 6), ["top-koff", "top-poff"]);
  assert.match(one.root.querySelectorAll(".line.head span")[5].title, /smallest set of likeliest tokens/);
  assert.match(one.root.querySelectorAll(".line.head span")[6].title, /divided by their sum/);
});

test("a candidate has its number at every stage, a cut one says where it was cut", () => {
  const one = drawn(), [likely, , cut, out] = one.root.querySelectorAll(".candidate");
  assert.deepEqual(rows(one), [
    ["c", "1.500", "3.00", "0.500", "✓", "✓", "0.625"], ["f", "1.250", "2.50", "0.300", "✓", "✓", "0.375"],
    ["g", "−1.000", "−2.00", "0.150", "✓", "cut", ""], ["h", "−2.000", "−4.00", "0.0500", "cut", "", ""],
  ]);
  assert.equal(likely.ariaDescription, `logit 1.500, probability 0.500, 0.625 after the cut. ${likely.title}`);
  assert.match(cut.ariaDescription, /^logit −1.000, probability 0.150, cut. Take g instead;/);
  assert.deepEqual([likely.ariaPressed, cut.ariaPressed], ["true", "false"]);
  assert.deepEqual(likely.querySelectorAll(".bar").map((bar) => bar.style.width), ["50%", "62.5%"]);
  assert.equal(likely.title, "The token that comes next");
  assert.equal(out.title, "Take h instead; the text after it is then written again");
  happens(likely, "click"); // it comes next already
  happens(out, "click");
  assert.deepEqual(one.told, [["branch", [0, 1, 1]]]);
});

test("the running sum lays the kept tokens end to end, with the draw on them", () => {
  const one = drawn({ steps: [{ ...STEP, left: [7, 3, 12], candidates: [{ ...LIKELY, probability: 0.5 },
    { ...SECOND, probability: 0.25 }, CUT] }, later(3), later(4)] });
  const sum = one.root.querySelector(".sum"), places = sum.querySelectorAll(".part")
    .map(({ title, style }) => [title, style.left, style.width]);
  assert.deepEqual(places, [["c: from 0 to 0.500", "0%", "50%"], ["f: from 0.500 to 0.750", "50%", "25%"]]);
  assert.equal(sum.querySelector(".others").textContent, "10 more");
  assert.equal(sum.querySelector(".others").style.left, "75%");
  assert.equal(sum.querySelector(".mark").style.left, "25%");
  assert.equal(sum.ariaLabel, "Running sum of the probabilities; u = 0.2500");
});

test("a chosen token that is not among the likeliest stands where it was drawn, behind unnamed ones", () => {
  const far = { ...SECOND, token_id: STEP.chosen, label: "z", probability: 0.125 };
  const likely = { ...LIKELY, token_id: 99 };
  const one = drawn({ steps: [{ ...STEP, span: [0.75, 0.875], left: [7, 3, 5], candidates: [
    { ...likely, probability: 0.5 }, far] }, later(3), later(4)] });
  const sum = one.root.querySelector(".sum");
  assert.deepEqual(sum.querySelectorAll(".part").map(({ style }) => style.left), ["0%", "75%"]);
  const others = sum.querySelector(".others");
  assert.deepEqual([others.textContent, others.style.left], ["3 more", "50%"]);
});

test("what decided is said: chance, the reader, greed, or the model itself", () => {
  assert.equal(verdict(drawn()), "Seed 42 gives the random number u = 0.2500. “2 c” is drawn for u from 0 to 0.6250.");
  const greedy = { ...STEP, greedy: true, candidates: [{ ...LIKELY, scaled: null }] };
  const one = drawn({ steps: [greedy, later(3), later(4)] });
  assert.equal(verdict(one), "Greedy: “2 c” has the largest logit.");
  assert.deepEqual(stages(one), ["token", "logit", "", "softmax", "largest", "", "left"]);
  assert.deepEqual(rows(one), [["c", "1.500", "", "0.500", "✓", "", "0.625"]]);
  assert.ok(one.root.querySelector(".sum").hidden);
  const among = drawn({ steps: [{ ...greedy, candidates: [LIKELY, BARRED] }, later(3), later(4)] });
  assert.equal(verdict(among), "Greedy: “2 c” has the largest logit of the tokens that are not barred here.");
  assert.equal(rows(among)[1][4], "barred");
  const forced = drawn({ steps: [{ ...STEP, ...FORCED }, later(3), later(4)] });
  assert.equal(verdict(forced), "u = 0.5000 draws “c”, but you took “2 c”.");
  assert.equal(verdict(drawn({ steps: [{ ...STEP, forced: true }, later(3), later(4)] })),
    "u = 0.2500 draws “c”, and you took it too.");
  assert.equal(verdict(drawn({ steps: [{ ...greedy, ...FORCED }, later(3), later(4)] })),
    "Greedy takes “c”, but you took “2 c”.");
  assert.match(verdict(drawn({ steps: [{ ...STEP, fixed: true }, later(3), later(4)] })), /always writes “2 c” here/);
  const undo = forced.root.querySelector(".verdict").querySelector("button");
  assert.deepEqual([undo.hidden, drawn().root.querySelector(".verdict").querySelector("button").hidden], [false, true]);
  happens(undo, "click");
  assert.deepEqual(forced.told, [["branch", [0, null, 1]]]);
});

test("a step says what it reads, and with how many keys", () => {
  assert.equal(sentence(drawn()),
    "Step 0, prefill, reads all 2 tokens of the prompt in one pass and fills the cache. Next comes “2 c”.");
  assert.equal(sentence(drawn({ step: 2 })),
    "Step 2 reads one token, “3 d”. Its query attends to the 4 keys of the cache. Next comes “4 e”.");
  assert.match(sentence(drawn({ step: 1, steps: [STEP, later(3, { forced: true }), later(4)] })), /You took “3 d”\.$/);
  assert.match(sentence(drawn({ step: 1, steps: [STEP, later(3, { queries: 3 }), later(4)] })),
    /reads all 3 tokens again/);
});

test("the numbers of a step stand with the cache and without; one that holds for both stands once", () => {
  const cells = drawn().root.querySelector("table").querySelectorAll("tr")
    .map((row) => [...row.children].map((cell) => cell.textContent));
  assert.deepEqual(cells, [["this step", "cache", "no cache"], ["tokens read", "1", "3"],
    ["cache bytes", "96 of 128"]]);
});

test("columns of the cache are the tokens that were read, and each has its own key, value and weight", () => {
  const one = drawn({ step: 1 }), strips = one.root.querySelector(".strips"), stage = strips.querySelector(".stage");
  assert.equal(strips.querySelector(".title").textContent, "The cache of layer 1, head 2");
  const cell = 22; // pixels, the widest
  assert.deepEqual(["A", "K", "V"].map((name) => strips.querySelector(`.of-${name}`).style.width),
    Array(3).fill(`${3 * cell}px`));
  assert.equal(strips.querySelector(".of-A").querySelector("[role=img]").ariaLabel, "Weights of query 2 c over 3 keys");
  assert.equal(strips.querySelector(".of-K").querySelector("[role=img]").ariaLabel,
    "Keys, 2 numbers for each of 3 tokens");
  const heights = strips.querySelector(".of-A").querySelectorAll("i").map((bar) => parseFloat(bar.style.top));
  assert.deepEqual(heights, [34 * 0.8, 34 * 0.6, 0]); // 0.125, 0.25 and 0.625, the largest
  assert.equal(strips.querySelector(".most").textContent, "0.63");
  assert.match(strips.querySelector(".legend").textContent, /A is largest, 0\.625, at “2 c”$/);
  const top = (/** @type {string} */ name) => parseFloat(strips.querySelector(`.of-${name}`).style.top);
  const at = (/** @type {string} */ name, /** @type {number} */ column, down = 2) => {
    happens(stage, "pointermove", { clientX: (column + 0.5) * cell, clientY: top(name) + down });
    return tooltip(one);
  };
  assert.deepEqual(at("A", 1), ["query 2 c", "key 1 b", "weight 0.2500"]);
  assert.deepEqual(at("K", 2), ["key of 2 c", "feature 0 of 2", "3.000"]);
  assert.deepEqual(at("V", 1, 60), ["value of 1 b", "feature 1 of 2", "−20.00"]);
  at("K", 3);
  assert.ok(one.root.querySelector("[role=tooltip]").hidden); // it is not read yet
});

test("columns that this step adds are framed, and those to come are kept free", () => {
  const strips = (/** @type {object} */ changes) => drawn(changes).root.querySelector(".strips");
  const framed = (/** @type {object} */ changes) => {
    const { left, width } = strips(changes).querySelector(".fresh").style;
    return [parseFloat(left) / 22, parseFloat(width) / 22];
  };
  assert.deepEqual([framed({ step: 0 }), framed({ step: 2 })], [[0, 2], [3, 1]]);
  assert.deepEqual([0, 1, 2].map((step) => strips({ step }).querySelector(".ahead").hidden), [false, false, true]);
  assert.deepEqual([0, 1, 2].map((step) => strips({ step }).querySelector(".generated").textContent),
    ["generated, 0", "generated, 1", "generated, 2"]);
});

test("the picture of all rows says which pass computed a cell", () => {
  const one = drawn({ step: 2 }), square = one.root.querySelector(".square"), stage = square.querySelector(".stage");
  const at = (/** @type {number} */ row, /** @type {number} */ column) => {
    happens(stage, "pointermove", { clientX: (column + 0.5) * 22, clientY: (row + 0.5) * 22 });
    return tooltip(one);
  };
  assert.deepEqual(at(3, 1), ["query 3 d", "key 1 b", "weight 0.2500", "computed in step 2"]);
  assert.deepEqual(at(1, 1), ["query 1 b", "key 1 b", "weight 0.7500", "computed in the prefill"]);
  assert.deepEqual(at(1, 2), ["query 1 b", "key 2 c", "masked (−∞), so weight 0", "computed in the prefill"]);
  assert.equal(square.querySelector(".title").textContent, "A, (S, S) = (4, 4)");
  assert.equal(square.querySelector(".note").textContent,
    "Only the framed row is computed. Without the cache, all 4 rows would be computed.");
  assert.equal(drawn().root.querySelector(".square").querySelector(".note").textContent,
    "Prefill computes all 2 rows at once.");
});

test("across two texts the source is there from the first step on, and each query has a weight for all of it", () => {
  const rows = Array.from({ length: 4 * 3 }, (_, i) => i / 16), six = [1, 2, 3, 4, 5, 6];
  const one = drawn({ of_source: true, source: ["0 p", "1 q", "2 r"], step: 2 }, [six, six, rows]);
  assert.match(sentence(one), /^Step 2 reads one token, “3 d”\. Its query attends to the 3 keys of the source\./);
  const strips = one.root.querySelector(".strips");
  assert.equal(strips.querySelector(".of-prompt").textContent, "source, 3, read once");
  happens(strips.querySelector(".stage"), "pointermove",
    { clientX: 1.5 * 22, clientY: parseFloat(strips.querySelector(".of-A").style.top) + 2 });
  assert.deepEqual(tooltip(one), ["query 3 d", "key 1 q", "weight 0.6250"]);
  assert.equal(one.root.querySelector(".square").querySelector(".title").textContent, "A, (T, S) = (4, 3)");
  assert.match(sentence(drawn({ of_source: true, source: ["0 p", "1 q", "2 r"] }, [six, six, rows])),
    /^Step 0 reads the source \(3 tokens\) and 2 tokens of the decoder, and fills the cache with both\./);
});

test("tokens lead to the step that chose them, those of the prompt to the prefill", () => {
  const one = drawn({ step: 2 }), chips = one.root.querySelectorAll(".chip");
  assert.deepEqual(chips.map(({ textContent, ariaLabel }) => [textContent, ariaLabel]), [
    ["a", "0 a, of the prompt"], ["b", "1 b, of the prompt"], ["c", "2 c, chosen in step 0"],
      ["d", "3 d, chosen in step 1"],
    ["e", "4 e, chosen in step 2"],
  ]);
  const place = () => one.root.querySelector(".place").textContent;
  assert.equal(place(), "step 2 of 2");
  happens(chips[3], "click");
  assert.equal(place(), "step 1 of 2");
  assert.deepEqual(chips.map(({ classList }) => classList.contains("later")), [false, false, false, false, true]);
  happens(chips[1], "click");
  assert.equal(place(), "step 0 of 2");
  assert.equal(chips[2].getAttribute("aria-current"), "step");
  happens(one.root, "keydown", { key: "ArrowRight" });
  happens(one.root, "keydown", { key: "ArrowRight" });
  happens(one.root, "keydown", { key: "ArrowRight" });
  assert.equal(place(), "step 2 of 2");
  happens(one.root, "keydown", { key: "Home" });
  assert.equal(place(), "step 0 of 2");
  const names = ["First step", "Step back", "Play", "Step forward", "Last step"];
  const buttons = one.root.querySelector(".player").querySelectorAll("button");
  assert.deepEqual(buttons.map((node) => node.ariaLabel), names);
  assert.deepEqual(buttons.map((node) => node.disabled), [true, true, false, false, false]);
  happens(buttons[4], "click");
  assert.equal(one.root.querySelector(".slider").getAttribute("aria-valuetext"), "step 2 of 2");
  assert.deepEqual(buttons.map((node) => node.disabled), [false, false, false, true, true]);
});

test("a reader who rests is told to Python, with −1 for the last step", async () => {
  const one = drawn({ step: 0 });
  happens(one.root, "keydown", { key: "ArrowRight" });
  assert.deepEqual(one.told, []);
  await new Promise((go) => setTimeout(go, 300));
  happens(one.root, "keydown", { key: "End" });
  await new Promise((go) => setTimeout(go, 300));
  assert.deepEqual(one.told, [["step", [1, 1]], ["step", [-1, 2]]]);
});

test("playing begins anew at the end, goes a step at a time at its speed, and stops at the last", (context) => {
  context.mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  const one = drawn({ step: 2 }), place = () => one.root.querySelector(".place").textContent;
  const play = one.root.querySelector(".player").querySelectorAll("button")[2];
  happens(play, "click");
  assert.deepEqual([place(), play.ariaLabel], ["step 0 of 2", "Pause"]);
  context.mock.timers.tick(999);
  assert.equal(place(), "step 0 of 2");
  context.mock.timers.tick(1);
  assert.equal(place(), "step 1 of 2");
  context.mock.timers.tick(400);
  assert.deepEqual(one.told, [["step", [0, 1]]]); // where it begins; who passes through does not rest
  const speed = one.root.querySelector("select");
  speed.value = "2×";
  happens(speed, "change");
  context.mock.timers.tick(500);
  assert.deepEqual([place(), play.ariaLabel], ["step 2 of 2", "Play"]);
  context.mock.timers.tick(300);
  assert.deepEqual(one.told, [["step", [0, 1]], ["step", [-1, 2]]]);
});

test("names stand under the columns that were read, beside the newest; those of the prompt look like it", () => {
  const { root } = drawn({ step: 1 }), names = root.querySelectorAll(".labels .name");
  assert.deepEqual(names.slice(0, 4).map((node) => node.hidden), [false, false, true, true]);
  assert.deepEqual(names.slice(0, 4).map((node) => node.classList.contains("of-prompt")), [true, true, false, false]);
  assert.deepEqual(names.slice(4).map((node) => node.textContent), ["2 c"]);
  assert.equal(drawn({ step: 2 }).root.querySelector(".generated").style.left, `${2 * 22 + 1}px`);
  assert.equal(parseFloat(drawn({ step: 2 }).root.querySelector(".earlier").style.height), 3 * 22);
});

test("cells of the cache and of the weights have their step of their own scale", () => {
  const { root } = drawn({ ends: [40, 80], step: 2 });
  const step = (/** @type {number} */ value, /** @type {number} */ end) => Math.floor(((value + end) / (2 * end)) * 255
    + 0.5);
  const rowsOf = (/** @type {number[]} */ values, /** @type {number} */ end) =>
    [values.slice(0, 4), values.slice(4)].map((row) => row.map((value) => step(value, end)));
  assert.deepEqual(stepsOn(root.querySelector(".of-K").querySelector("canvas")), rowsOf(KEYS, 40));
  assert.deepEqual(stepsOn(root.querySelector(".of-V").querySelector("canvas")), rowsOf(VALUES, 80));
  assert.deepEqual(stepsOn(root.querySelector(".square").querySelector("canvas")),
    [[255, null, null, null], [64, 191, null, null], [32, 64, 159, null], [128, 64, 32, 32]]);
  assert.match(root.querySelector(".strips").querySelector(".legend").textContent, /^K−4040V−80802 rows each \(D\)/);
});

test("while tokens come there is room for all that were asked for", () => {
  const { root } = drawn({ running: true, asked: 5 });
  assert.equal(root.querySelector(".strips").querySelector(".stage").style.width, `${6 * 22 + 2}px`);
  assert.equal(root.querySelector(".place").textContent, "3 of 5 tokens");
});

test("what is cut is greyed and hatched, what is kept is not", () => {
  const candidates = drawn().root.querySelectorAll(".candidate");
  assert.deepEqual(candidates.map((node) => node.classList.contains("cut")), [false, false, true, true]);
  assert.deepEqual(candidates.map((node) => node.children[6].classList.contains("hatched")), [false, false, true,
    true]);
});

test("of a source, the frame of what is new is there in the first step alone", () => {
  const six = [1, 2, 3, 4, 5, 6], rows = Array(12).fill(0.25);
  const hidden = [0, 1].map((step) => drawn({ of_source: true, source: ["0 p", "1 q", "2 r"], step }, [six, six, rows])
    .root.querySelector(".strips").querySelector(".fresh").hidden);
  assert.deepEqual(hidden, [false, true]);
});
