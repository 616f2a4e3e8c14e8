// Rows of tokens: their targets, their order, what each reader sees of them; and the table of models.

import assert from "node:assert/strict";
import test from "node:test";

import { happens, html, mounted, packed, textsOf } from "../../support/page.js";

/** @typedef {import("../../support/page.js").Mounted} Mounted */

const from = (/** @type {string} */ path) => import(`../../../viz_ui/components/${path}.js`);
const { default: targets } = await from("tokens/token_targets");
const { default: order } = await from("tokens/token_order");
const { default: aligned } = await from("tokens/aligned_tokens");
const { default: seen } = await from("tokens/seen_tokens");
const { default: shaded } = await from("tokens/shaded_texts");
const { default: table } = await from("model_table/model_table");

const ROW = [
  { read: "0 a", hidden: false, target: "1 b", loss: 0.5, rank: 1, best: "b" },
  { read: "1 b", hidden: true, target: "1 c", loss: 2, rank: 1234, best: "x" },
  { read: "2 c", hidden: false, target: null, loss: 0, rank: 0, best: "" },
];
const tooltip = (/** @type {Mounted} */ { root }) => [...root.querySelector("[role=tooltip]").children]
  .map((line) => line.textContent);
const asked = () => mounted(targets, "targets", packed({ row: ROW, blind: 4, position: 1, answered: 0 }));

test("a target has its loss against the uniform guess, its rank, and how likely it was", () => {
  const one = asked(), cells = one.root.querySelectorAll(".cell");
  assert.deepEqual(cells.map(({ textContent, ariaDescription }) => [textContent, ariaDescription]), [
    ["0 a↓1 b0.500#1", "target 1 b: loss 0.500 nats, rank 1"],
    ["1 b↓1 c2.00#1,234", "target 1 c: loss 2.00 nats, rank 1234"], ["2 cno target", undefined],
  ]);
  assert.deepEqual(one.root.querySelectorAll(".fill").map(({ style }) => style.width), ["12.5%", "50%"]);
  assert.deepEqual(textsOf(one.root, ".rank"), ["#1", "#1,234"]);
  assert.deepEqual(cells.map(({ classList }) => classList.contains("known")), [true, false, false]);
  happens(cells[0], "pointermove");
  assert.deepEqual(tooltip(one), ["reads 0 a", "target 1 b", "p = 0.607, −ln p = 0.5000 nats", "the likeliest of all"]);
  happens(cells[1], "pointermove");
  assert.deepEqual(tooltip(one), ["reads 1 b", "target 1 c", "p = 0.135, −ln p = 2.000 nats",
    "1,233 tokens likelier; the likeliest is x"]);
  happens(cells[2], "pointermove");
  assert.deepEqual(tooltip(one), ["reads 2 c"]);
});

test("a target is chosen by a click or a key, and not again", () => {
  const one = asked(), [first, second] = one.root.querySelectorAll(".cell");
  happens(second, "click");
  happens(first, "click");
  happens(one.root.querySelector(".row"), "keydown", { key: "ArrowLeft" });
  happens(one.root.querySelector(".row"), "keydown", { key: "End" });
  assert.deepEqual(one.told, [["pick", [0, 1]], ["pick", [2, 2]]]);
  assert.deepEqual(one.root.querySelectorAll(".cell").map(({ ariaPressed }) => ariaPressed),
    ["false", "false", "true"]);
});

test("a token is moved to another place, and the order says which stands where", () => {
  const one = mounted(order, "token-order", packed({ labels: ["0 a", "1 b", "2 c"], order: [2, 0, 1], answered: 0 }));
  assert.deepEqual(textsOf(one.root, "button"), ["2 c", "0 a", "1 b"]);
  const press = (/** @type {string} */ key, shiftKey = false) => happens(one.root, "keydown", { key, shiftKey });
  press("ArrowLeft", true); // the first one stays
  press("ArrowRight");
  press("ArrowRight", true);
  assert.deepEqual(textsOf(one.root, "button"), ["2 c", "1 b", "0 a"]);
  assert.deepEqual(one.told, [["move", [[2, 1, 0], 1]]]);
  const chips = one.root.querySelectorAll("button");
  assert.deepEqual(chips.map(({ classList }) => classList.contains("moved")), [true, false, true]);
  assert.match(chips[2].ariaLabel, /^0 a, at place 2\. /);
});

test("readers of a text with a blank: hidden, seen, and beyond what one sees", () => {
  const rows = [{ title: "both", words: "", blank: 1, seen_until: 4 }, { title: "before", words: "", blank: 1,
    seen_until: 1 },
    { title: "some", words: "", blank: 3, seen_until: 2 }];
  const one = mounted(seen, "seen-tokens", packed({ tokens: ["a", "b", "c", "d"], rows }));
  const kinds = one.root.querySelectorAll(".tokens").map((list) => [...list.children].map((node) => node.className));
  assert.deepEqual(kinds, [["token seen", "token blank", "token seen", "token seen"],
    ["token seen", "token blank", "token beyond", "token beyond"],
    ["token seen", "token seen", "token beyond", "token blank"]]);
  assert.deepEqual(textsOf(one.root.querySelectorAll(".tokens")[1], "button"), ["a", "▁▁▁", "c", "d"]);
  const names = one.root.querySelectorAll(".tokens")[1].children.map((node) => node.ariaLabel);
  assert.deepEqual(names, ["before: token 0, a", "before: token 1, b, hidden", "before: token 2, c, not seen",
    "before: token 3, d, not seen"]);
  assert.deepEqual(one.root.querySelectorAll(".tokens")[2].children.map((node) => node.ariaLabel), [
    "some: token 0, a", "some: token 1, b", "some: token 2, c, not seen", "some: token 3, d, hidden"]);
  happens(one.root.querySelectorAll("button")[6], "click");
  assert.deepEqual(one.told, [["pick", 2]]);
});

const COLUMNS = [["L", "Layers"], ["H", "Heads"]];
const LOOK = { name: "look", words: "Look at it", primary: true, done: false, sure: "" };
const CHOSEN = { ...LOOK, words: "Chosen", primary: false, done: true };
const REMOVE = { name: "remove", words: "Remove", primary: false, done: false, sure: "Remove it?" };
const model = (/** @type {string} */ name, more = {}) =>
  ({ name, state: "bundled", about: `all about ${name}`, chosen: false, cells: ["4", "8"], acts: [LOOK], ...more });

test("a model has its numbers under their own heads, what is said of it, and buttons that name it", () => {
  const rows = [model("one", { chosen: true, acts: [CHOSEN] }),
    model("two", { state: "fetched", acts: [LOOK, REMOVE] })];
  const page = mounted(table, "model-table", packed({ columns: COLUMNS, rows }));
  const heads = page.root.querySelectorAll("thead th").map(({ textContent, title }) => [textContent, title]);
  assert.deepEqual(heads, [["Model", ""], ["State", ""], ["L", "Layers"], ["H", "Heads"]]);
  const [first, second] = page.root.querySelectorAll("tbody");
  assert.deepEqual([first.ariaCurrent, second.ariaCurrent], ["true", null]);
  const cells = second.querySelector("tr").children.slice(2).map(({ textContent, title }) => [textContent, title]);
  assert.deepEqual(cells, [["4", "Layers"], ["8", "Heads"]]);
  assert.equal(second.querySelector(".about").textContent, "all about two");
  assert.equal(second.querySelector(".about").colSpan, 4);
  assert.deepEqual(first.querySelectorAll("button").map((node) => [node.ariaLabel, node.disabled]),
    [["Chosen: one", true]]);
  const [look, remove] = second.querySelectorAll("button");
  happens(look, "click");
  happens(remove, "click");
  assert.deepEqual(page.told, [["act", ["look", "two"]]]); // what is gone for good is asked once more
  assert.deepEqual([remove.textContent, remove.ariaLabel], ["Remove it?", "Remove it? two"]);
  happens(remove, "click");
  assert.deepEqual(page.told[1], ["act", ["remove", "two"]]);
  happens(remove, "blur");
  assert.deepEqual([remove.textContent, remove.ariaLabel], ["Remove", "Remove: two"]);
  happens(remove, "click"); // and once more after that
  assert.deepEqual([page.told.length, remove.textContent], [2, "Remove it?"]);
});

test("a row that goes takes its buttons along, and the others keep their order", () => {
  const send = (/** @type {string[]} */ names) => packed({ columns: COLUMNS, rows: names.map((name) => model(name)) });
  const page = mounted(table, "model-table", send(["one", "two", "three"]));
  const kept = page.root.querySelectorAll("tbody")[2];
  page.send(send(["one", "three", "new"]));
  assert.deepEqual(textsOf(page.root, ".name"), ["one", "three", "new"]);
  assert.equal(page.root.querySelectorAll("tbody")[1], kept); // with its focus
  const fetched = model("three", { state: "fetched", cells: ["5", "9"], chosen: true, acts: [CHOSEN, REMOVE] });
  page.send(packed({ columns: COLUMNS, rows: [model("one"), fetched, model("new")] }));
  assert.deepEqual(textsOf(page.root, ".name"), ["one", "three", "new"]);
  const row = page.root.querySelectorAll("tbody")[1];
  assert.deepEqual([...textsOf(row, ".state"), ...textsOf(row, "button"), row.ariaCurrent],
    ["fetched", "Chosen", "Remove", "true"]);
  assert.deepEqual(row.querySelector("tr").children.slice(2).map(({ textContent }) => textContent), ["5", "9"]);
});

test("a token that is dragged takes the place of the one whose middle was passed", () => {
  const one = mounted(order, "token-order", packed({ labels: ["0 a", "1 b", "2 c"], order: [2, 0, 1], answered: 0 }));
  const [first, , last] = one.root.querySelectorAll("button");
  Object.assign(last.style, { left: "100px", width: "40px" });
  html.body.elementFromPoint = () => last;
  const drop = () => happens(one.root, "pointerup");
  happens(first, "pointerdown");
  happens(one.root, "pointermove", { clientX: 110 }); // before its middle
  assert.deepEqual(textsOf(one.root, "button"), ["2 c", "0 a", "1 b"]);
  happens(one.root, "pointermove", { clientX: 130 });
  assert.deepEqual(textsOf(one.root, "button"), ["0 a", "1 b", "2 c"]);
  drop();
  happens(first, "pointerdown");
  drop(); // where it was
  assert.deepEqual(one.told, [["move", [[0, 1, 2], 1]]]);
  happens(one.root, "keydown", { key: "ArrowRight", shiftKey: true }); // the last one stays
  assert.equal(one.told.length, 1);
});

test("an answer to an earlier choice of a target takes nothing back; only rank 1 is known", () => {
  const row = [...ROW.slice(0, 2), { ...ROW[0], rank: 2 }, ROW[2]], blob = (/** @type {number} */ position,
    answered = 0) =>
    packed({ row, blind: 4, position, answered });
  const one = mounted(targets, "targets", blob(1)), cells = () => one.root.querySelectorAll(".cell");
  assert.deepEqual(cells().map((cell) => cell.classList.contains("known")), [true, false, false, false]);
  happens(cells()[0], "click");
  happens(cells()[2], "click");
  const chosen = () => cells().findIndex((cell) => cell.ariaPressed === "true");
  one.send(blob(0, 1));
  assert.equal(chosen(), 2);
  one.send(blob(3, 2));
  assert.equal(chosen(), 3);
});

test("a new model stands in its own place of the table", () => {
  const send = (/** @type {string[]} */ names) => packed({ columns: COLUMNS, rows: names.map((name) => model(name)) });
  const page = mounted(table, "model-table", send(["one", "three"]));
  page.send(send(["one", "two", "three"]));
  assert.deepEqual(textsOf(page.root, ".name"), ["one", "two", "three"]);
});

test("two texts stand one above the other, and what differs is marked and said", () => {
  const header = { columns: [["0 The", "0 The"], ["1 blue", "1 brave"], [null, "2 old"]], names: ["clean", "corrupted"],
    differing: [false, true, true], chosen: 1 };
  const one = mounted(aligned, "aligned-tokens", packed(header)), columns = one.root.querySelectorAll("button");
  assert.deepEqual(columns.map((node) => node.children.map((line) => line.textContent)),
    [["0 The", "0 The"], ["1 blue", "1 brave"], ["–", "2 old"]]);
  assert.deepEqual(columns.map(({ classList }) => classList.contains("other")), [false, true, true]);
  assert.deepEqual(columns.map((node) => node.ariaLabel),
    ["0 The 0 The, the same", "1 blue 1 brave, different", "– 2 old, different"]);
  assert.equal(columns[2].ariaDescription, "clean: no token, corrupted: 2 old");
  assert.deepEqual(columns.map(({ ariaPressed, tabIndex }) => [ariaPressed, tabIndex]),
    [["false", -1], ["true", 0], ["false", -1]]);
  happens(columns[2], "click");
  assert.deepEqual(one.told, [["pick", 2]]);
});

const shadedToken = (/** @type {string} */ label, /** @type {any} */ weight, more = {}) => ({ label, weight,
  is_query: false, is_key: false, skipped: 0, ...more });
const TEXTS = [{ words: "mean 0.5", name: "See it", href: "./?head=1.0", left: 12, tokens: [
  shadedToken("a", 0.2, { skipped: 3 }), shadedToken("b", 0.8, { is_key: true }),
  shadedToken("c", null, { is_query: true }),
] }, { words: "mean 0", name: "Nothing opens.", href: "", left: 0, tokens: [shadedToken("d", 0)] }];

test("a shaded text is a link, shaded by its own largest weight, and says what it leaves out", () => {
  const one = mounted(shaded, "shaded-texts", packed({ groups: [{ title: "Most", texts: TEXTS }] }));
  assert.deepEqual(textsOf(one.root, ".title"), ["Most"]);
  const [link, other] = one.root.querySelectorAll(".text");
  assert.deepEqual([link.tagName, link.href, link.target], ["A", "./?head=1.0", "_blank"]);
  assert.equal(other.tagName, "DIV");
  assert.deepEqual(textsOf(one.root, ".gap"), ["… 3 tokens …", "… 12 tokens …"]);
  assert.deepEqual(textsOf(one.root, ".opens"), ["See it", "Nothing opens."]);
  const tokens = one.root.querySelectorAll(".token");
  assert.deepEqual(tokens.map(({ style }) => style["--shade"]), ["11.25%", "45%", "0%", "0%"]);
  assert.deepEqual(tokens.map(({ className }) => className), ["token", "token read", "token asks", "token"]);
});

test("a shaded token that is pointed at says its weight", () => {
  const one = mounted(shaded, "shaded-texts", packed({ groups: [{ title: "Most", texts: TEXTS }] }));
  const [first, , third] = one.root.querySelectorAll(".token");
  happens(first, "pointermove");
  assert.deepEqual(tooltip(one), ["a", "the query's weight on it: 0.200"]);
  happens(third, "pointermove");
  assert.deepEqual(tooltip(one), ["c", "not read by this query"]);
});
