// Rotary pairs as clocks: what each adds at two positions, which angles no trained distance had, and the score.

import assert from "node:assert/strict";
import test from "node:test";

import { happens, mounted, packed, textsOf } from "../../support/page.js";

/** @typedef {import("../../support/page.js").Mounted} Mounted */

const { default: rotary } = await import("../../../viz_ui/components/rotary_pairs/rotary_pairs.js");

const PAIRS = [
  { numbers: [0, 2], query: [1, 2], key: [3, -1], theta: 1 },
  { numbers: [1, 3], query: [-1, 0.5], key: [2, 2], theta: 0.1 },
];
const SCALE = 0.5, QUERY = 5, KEY = 2;

/** The product of the turned numbers as complex ones: Re(q · conj(k) · e^{i(distance)θ}). */
const product = (/** @type {typeof PAIRS[0]} */ { query: [a, b], key: [c, d], theta },
  /** @type {number} */ distance) =>
  (a * c + b * d) * Math.cos(distance * theta) + (a * d - b * c) * Math.sin(distance * theta);
const score = (/** @type {number} */ distance) => SCALE * PAIRS.reduce((sum, pair) => sum + product(pair, distance), 0);
const short = (/** @type {number} */ value, digits = 4) => value.toPrecision(digits).replace("-", "−");

const drawn = (changes = {}) => mounted(rotary, "rotary", packed({
  pairs: PAIRS, query: { label: "5 b", position: QUERY }, key: { label: "2 a", position: KEY }, scale: SCALE,
  computed: score(3), least: 0, most: 40, furthest: 60, trained: 15, both_ways: false, shift: 0, distance: 3, pair: 0,
  answered: 0, ...changes,
}));
const readout = (/** @type {Mounted} */ { root }) => root.querySelector(".readout").textContent;
const clocks = (/** @type {Mounted} */ { root }) => root.querySelectorAll(".clock").map((node) => node.textContent);
const saidOf = (/** @type {Mounted} */ { root }) => root.querySelectorAll(".clock").map((node) => node.ariaDescription);

test("the score is the sum of what the pairs add, as the pass had it, wherever both tokens stand", () => {
  const words = `q · k = ${short(score(3) / SCALE)}, S = ${short(score(3))}, as in the pass (${short(score(3))}). `;
  assert.equal(readout(drawn()), `query 5 b at 5, key 2 a at 2: ${words}`);
  assert.equal(readout(drawn({ shift: 7 })), `query 5 b at 12, key 2 a at 9: ${words}`);
  assert.deepEqual(clocks(drawn({ shift: 7 })),
    PAIRS.map((pair, n) => `Pair ${n}${short(product(pair, 3), 3)}`));
});

test("at another distance it is another score, and the one of the pass stands beside it", () => {
  const one = drawn({ distance: 10 });
  assert.equal(readout(one), `query 5 b at 12, key 2 a at 2: q · k = ${short(score(10) / SCALE)}, `
    + `S = ${short(score(10))}, but ${short(score(3))} in the pass. `);
});

test("angles are new where the trained distances did not reach them", () => {
  // trained up to 15: pair 0 has turned more than once, pair 1 by 1.5 rad
  const one = drawn({ distance: 16 });
  assert.match(readout(one),
    /Distance 16 never occurred in training\. 1 of 2 pairs stand at an angle that is new to the model/);
  assert.match(saidOf(one)[1], /, at an angle that no trained distance has$/);
  assert.doesNotMatch(saidOf(one)[0], /angle/);
  assert.doesNotMatch(readout(drawn({ distance: 15 })), /never occurred/);
  const back = drawn({ least: -2, distance: -2 });
  assert.match(readout(back), /never occurred in training\. 1 of 2/); // backwards, where a causal model was not trained
  assert.doesNotMatch(readout(drawn({ least: -2, distance: -2, both_ways: true })), /never occurred/);
});

test("the chosen pair is written out", () => {
  const one = drawn({ pair: 1 }), lines = textsOf(one.root, ".lines div");
  assert.equal(one.root.querySelector(".large").querySelector(".title").textContent, "Pair 1: numbers 1 (→) and 3 (↑)");
  assert.deepEqual(lines.slice(1, 4), [`θ = 0.1000 rad: one turn in ${short(20 * Math.PI)} tokens`,
    "q turned by 5 · θ = 0.5000 rad", "k turned by 2 · θ = 0.2000 rad"]);
  const angle = Math.cos(Math.atan2(0.5, -1) + 0.5 - Math.PI / 4 - 0.2), lengths = [Math.hypot(1, 0.5),
    Math.hypot(2, 2)];
  assert.ok(lines[4].includes(short(lengths[0], 3)) && lines[4].includes(short(lengths[1], 3)));
  assert.ok(lines[4].endsWith(`${short(angle, 3)} = ${short(product(PAIRS[1], 3))}`), lines[4]);
  const still = drawn({ pairs: [{ ...PAIRS[0], theta: 0 }, PAIRS[1]], distance: 3 });
  assert.equal(textsOf(still.root, ".lines div")[1], "θ = 0: these two numbers do not turn");
});

test("the curve is the score by distance, with its ends and where training ended", () => {
  const one = drawn();
  /** @type {number[][]} */
  const points = one.root.querySelector(".score").getAttribute("points").split(" ")
    .map((/** @type {string} */ point) => point.split(",").map(Number));
  const scores = Array.from({ length: 41 }, (_, distance) => score(distance));
  const low = Math.min(0, ...scores), high = Math.max(0, ...scores);
  assert.equal(points.length, 41);
  points.forEach(([x, y], distance) => {
    assert.ok(Math.abs(x - (46 + (224 * distance) / 40)) < 1e-9);
    assert.ok(Math.abs(y - (16 + (152 * (high - scores[distance])) / (high - low))) < 1e-9);
  });
  const words = textsOf(one.root.querySelector(".curve"), "text");
  for (const text of [short(high, 3), short(low, 3), "0", "40", "15", "never trained"]) assert.ok(words.includes(text),
    text);
  assert.ok(!textsOf(drawn({ trained: 40 }).root.querySelector(".curve"), "text").includes("never trained"));
  const dot = one.root.querySelector(".now");
  assert.equal(Number(dot.getAttribute("cx")), points[3][0]);
  assert.ok(Math.abs(Number(dot.getAttribute("cy")) - points[3][1]) < 1e-9);
});

test("what is told is how far both moved, how far the distance is from their own, and the pair", () => {
  const one = drawn(), [shift, distance] = one.root.querySelectorAll(".controls input");
  assert.deepEqual([shift.max, distance.min, distance.max], [60, 0, 40]);
  distance.value = "8";
  happens(distance, "input");
  happens(distance, "change");
  happens(one.root.querySelectorAll(".clock")[1], "click");
  happens(one.root.querySelector(".clocks"), "keydown", { key: "ArrowRight" }); // the last one
  happens(one.root.querySelector(".clocks"), "keydown", { key: "ArrowUp" });
  assert.deepEqual(one.told.map(([, value]) => value), [[0, 5, 0, 1], [0, 5, 1, 2], [0, 5, 1, 3], [0, 5, 0, 4]]);
});

test("both tokens are moved by the one slider, and play goes on until the furthest place", (context) => {
  context.mock.timers.enable({ apis: ["setInterval"] });
  const one = drawn(), [shift] = one.root.querySelectorAll(".controls input"), play = one.root.querySelector(".play");
  shift.value = "57";
  happens(shift, "input");
  assert.match(readout(one), /^query 5 b at 62, key 2 a at 59: /);
  happens(play, "click");
  context.mock.timers.tick(60 * 3);
  assert.match(readout(one), /at 65, key 2 a at 62/);
  assert.deepEqual(one.told, []);
  context.mock.timers.tick(60);
  assert.match(readout(one), /at 65, key 2 a at 62/);
  assert.deepEqual([one.told, play.textContent], [[["move", [60, 0, 0, 1]]], "▶ Play"]);
});

test("an arm points where its numbers say, upwards for a positive second one", () => {
  const { root } = drawn({ query: { label: "0 b", position: 0 }, key: { label: "0 a", position: 0 }, distance: 0 });
  const arms = root.querySelector(".large").querySelectorAll(".arm").filter((node) => node.classList.contains("query"));
  for (const arm of arms) {
    assert.ok(Number(arm.getAttribute("x2")) > 0 && Number(arm.getAttribute("y2")) < 0); // (1, 2)
    assert.ok(Math.abs(Number(arm.getAttribute("y2")) / Number(arm.getAttribute("x2")) + 2) < 1e-9);
  }
});

test("a distance is chosen on the curve by the nearest whole number, and the curve says where it begins", () => {
  const one = drawn({ least: -4 }), picture = one.root.querySelector(".curve").querySelector("svg");
  const texts = textsOf(one.root.querySelector(".curve"), "text");
  assert.ok(texts.includes("-4") && texts.includes("40"), texts.join());
  const x = (/** @type {number} */ distance) => 46 + (224 * (distance + 4)) / 44;
  for (const [enlarged, distance] of [[1, 9.6], [1.75, 9.6], [0.5, 30.4]]) { // the picture fills the room that it has
    picture.style.width = `${280 * enlarged}px`;
    happens(picture, "pointerdown", { clientX: enlarged * x(distance) });
    happens(picture, "pointerup", { clientX: enlarged * x(distance) });
  }
  assert.deepEqual(one.told.map(([, [, distance]]) => distance), [10 - 3, 10 - 3, 30 - 3]);
});
