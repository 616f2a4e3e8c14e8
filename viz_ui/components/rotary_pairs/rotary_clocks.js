// Pairs of numbers as clocks: the arms of the query and the key, turned by their positions.

import { button, drawn, element, setText } from "../shared/elements.js";
import { formatNumber } from "../shared/numbers.js";

export const RIM = 46; // of a viewBox of 100, with the middle at 0

/** @typedef {import("../shared/arrows.js").Point} Point */

/**
 * Two numbers of the query and of the key that turn together.
 * @typedef {object} Pair
 * @property {[first: number, second: number]} numbers which of the head they are
 * @property {Point} query
 * @property {Point} key
 * @property {number} theta radians for one position
 */

/** @typedef {{ q: Point, k: Point, product: number }} Turned both arms after their turn, and what they add to q · k */

/**
 * A pair at two positions.
 * @param {Pair} pair
 * @param {number} queryPosition
 * @param {number} keyPosition
 * @returns {Turned}
 */
export function turnedPair({ query, key, theta }, queryPosition, keyPosition) {
  const q = turned(query, queryPosition * theta), k = turned(key, keyPosition * theta);
  return { q, k, product: q[0] * k[0] + q[1] * k[1] };
}

/**
 * @param {Point} arm
 * @param {number} angle
 * @returns {Point}
 */
function turned([x, y], angle) {
  const cos = Math.cos(angle), sin = Math.sin(angle);
  return [x * cos - y * sin, y * cos + x * sin];
}

/** @param {Point} arm */
export const lengthOf = ([x, y]) => Math.hypot(x, y);

/** @param {Point} arm */
const directionOf = ([x, y]) => Math.atan2(y, x);

/**
 * An arm from the middle; on the screen y goes down, in the plane of a pair up.
 * @param {SVGElement} line
 * @param {Point} arm
 * @param {number} unit
 */
function placeArm(line, [x, y], unit) {
  line.setAttribute("x2", String(x * unit));
  line.setAttribute("y2", String(-y * unit));
}

/**
 * A dot on the rim shows the direction of an arm that is too short to be seen.
 * @param {SVGElement} dot
 * @param {Point} arm
 */
function placeDot(dot, arm) {
  const angle = directionOf(arm);
  dot.setAttribute("cx", String(RIM * Math.cos(angle)));
  dot.setAttribute("cy", String(-RIM * Math.sin(angle)));
}

/** @param {SVGElement[]} parts */
function face(parts) {
  const node = drawn("svg", { viewBox: "-50 -50 100 100", "aria-hidden": "true" });
  node.append(drawn("circle", { r: RIM, class: "rim" }), ...parts);
  return node;
}

/**
 * @param {string} role
 * @param {string} [more] classes
 */
const arm = (role, more = "") => drawn("line", { class: `arm ${role} ${more}` });

/** One of the small clocks: a button that chooses its pair. */
export class Clock {
  /**
   * @param {number} index
   * @param {(index: number) => void} choose
   */
  constructor(index, choose) {
    this.parts = { k: arm("key"), q: arm("query") };
    this.dots = { k: drawn("circle", { r: 4, class: "key" }), q: drawn("circle", { r: 4, class: "query" }) };
    this.node = button("clock", "", () => choose(index));
    this.node.value = String(index);
    this.words = element("span", "number");
    const name = element("span", "name small", `Pair ${index}`);
    this.node.append(name, face([...Object.values(this.dots), ...Object.values(this.parts)]), this.words);
  }

  /**
   * @param {Turned} now
   * @param {{ unit: number, chosen: boolean, isNew: boolean }} state
   */
  show(now, { unit, chosen, isNew }) {
    placeArm(this.parts.q, now.q, unit);
    placeArm(this.parts.k, now.k, unit);
    placeDot(this.dots.q, now.q);
    placeDot(this.dots.k, now.k);
    setText(this.words, formatNumber(now.product, 3));
    this.node.classList.toggle("new-angle", isNew);
    this.node.ariaPressed = String(chosen);
    this.node.tabIndex = chosen ? 0 : -1;
    const untrained = isNew ? ", at an angle that no trained distance has" : "";
    this.node.ariaDescription = `the part of the score that this pair adds${untrained}`;
  }
}

/** The chosen pair, large: arms before and after the turn, the angle between them, and its arithmetic. */
export class LargeClock {
  constructor() {
    this.node = element("section", "large");
    this.title = element("div", "title");
    this.before = { k: arm("key", "before"), q: arm("query", "before") };
    this.after = { k: arm("key"), q: arm("query") };
    this.between = drawn("path", { class: "between" });
    const across = drawn("line", { x1: -RIM, x2: RIM, class: "axis" });
    const upwards = drawn("line", { y1: -RIM, y2: RIM, class: "axis" });
    this.picture = face([across, upwards, this.between, ...Object.values(this.before), ...Object.values(this.after)]);
    this.lines = element("div", "lines");
    this.node.append(this.title, this.picture, this.lines);
  }

  /**
   * @param {Pair} pair
   * @param {Turned} now
   * @param {number} index
   * @param {number} queryPosition
   * @param {number} keyPosition
   */
  show(pair, now, index, queryPosition, keyPosition) {
    const { numbers: [first, second], theta, query, key } = pair;
    const radius = Math.max(lengthOf(query), lengthOf(key)) || 1;
    setText(this.title, `Pair ${index}: numbers ${first} (→) and ${second} (↑)`);
    placeArm(this.before.q, query, RIM / radius);
    placeArm(this.before.k, key, RIM / radius);
    placeArm(this.after.q, now.q, RIM / radius);
    placeArm(this.after.k, now.k, RIM / radius);
    const angle = this.showAngle(now);
    /**
     * @param {string} name
     * @param {number} position
     * @param {string} className
     */
    const turn = (name, position, className) =>
      element("div", className, `${name} turned by ${position} · θ = ${formatNumber(position * theta)} rad`);
    const sizes = `${formatNumber(lengthOf(query), 3)} · ${formatNumber(lengthOf(key), 3)}`;
    this.lines.replaceChildren(
      element("div", "small", "dashed: before the turn"),
      element("div", "", theta
        ? `θ = ${formatNumber(theta)} rad: one turn in ${formatNumber((2 * Math.PI) / theta)} tokens`
        : "θ = 0: these two numbers do not turn"),
      turn("q", queryPosition, "query"),
      turn("k", keyPosition, "key"),
      element("div", "weights", `|q| · |k| · cos ${formatNumber((angle * 180) / Math.PI, 3)}° = ${sizes} · `
        + `${formatNumber(Math.cos(angle), 3)} = ${formatNumber(now.product)}`),
    );
    this.after.q.classList.toggle("none", !lengthOf(query));
  }

  /**
   * The arc from the key's arm to the query's, the short way; gives its angle.
   * @param {Turned} now
   * @returns {number}
   */
  showAngle({ q, k }) {
    const from = directionOf(k), whole = directionOf(q) - from;
    const angle = Math.atan2(Math.sin(whole), Math.cos(whole)), r = 16;
    const at = (/** @type {number} */ a) => `${r * Math.cos(a)} ${-r * Math.sin(a)}`;
    this.between.setAttribute("d", `M ${at(from)} A ${r} ${r} 0 0 ${angle > 0 ? 0 : 1} ${at(from + angle)}`);
    return angle;
  }
}
