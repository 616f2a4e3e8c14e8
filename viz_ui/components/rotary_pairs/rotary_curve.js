// The score of one query and one key as a function of their distance, with the distance that is chosen.

import { drawn, element, setText, written } from "../shared/elements.js";
import { clamp } from "../shared/look.js";
import { formatCount, formatNumber } from "../shared/numbers.js";

const CURVE = { width: 280, height: 206, left: 46, right: 10, top: 16, bottom: 38, most: 1024 };

/** @typedef {{ least: number, most: number, trained: number, own: number }} Distances own: between the two tokens */

export class ScoreCurve {
  /** @type {[least: number, most: number]} */
  ends = [0, 1];
  /** @type {[low: number, high: number]} */
  span = [0, 1];
  /** @type {(distance: number) => number} */
  scoreOf = () => 0;
  pressed = false;
  dot = drawn("circle");
  rule = drawn("line");

  /** @param {(distance: number, done: boolean) => void} choose done: the pointer was let go */
  constructor(choose) {
    this.node = element("section", "curve");
    this.title = element("div", "title scores", "Score S by distance");
    this.picture = drawn("svg", { viewBox: `0 0 ${CURVE.width} ${CURVE.height}`, "aria-hidden": "true" });
    this.note = element("div", "small");
    this.node.append(this.title, this.picture, this.note);
    this.picture.onpointerdown = (event) => {
      this.picture.setPointerCapture(event.pointerId);
      this.pressed = true;
      choose(this.distanceAt(event), false);
    };
    this.picture.onpointermove = (event) => {
      if (this.pressed) choose(this.distanceAt(event), false);
    };
    this.picture.onpointerup = this.picture.onpointercancel = (event) => {
      if (this.pressed) choose(this.distanceAt(event), true);
      this.pressed = false;
    };
  }

  /**
   * New tokens: the whole curve, from the shortest distance to the longest.
   * @param {Distances} distances
   * @param {(distance: number) => number} scoreOf
   */
  update({ least, most, trained, own }, scoreOf) {
    this.ends = [least, most];
    this.scoreOf = scoreOf;
    const step = Math.ceil((most - least + 1) / CURVE.most), every = step > 1 ? `one in ${step} distances drawn; ` : "";
    const scores = Array.from({ length: Math.ceil((most - least + 1) / step) }, (_, n) => scoreOf(least + n * step));
    setText(this.note, `${every}q and k before the rotation stay the same`);
    const low = Math.min(0, ...scores), high = Math.max(0, ...scores);
    this.span = [low, high === low ? low + 1 : high];
    const { width, height, right, top, bottom, left } = CURVE, floor = height - bottom;
    const points = scores.map((score, n) => `${this.x(least + n * step)},${this.y(score)}`).join(" ");
    const limit = this.x(Math.min(trained, most)), x = this.x(own);
    this.dot = drawn("circle", { r: 5.5, class: "now" });
    this.rule = drawn("line", { y1: top, y2: floor, class: "rule" });
    this.picture.replaceChildren(
      drawn("rect", { x: limit, y: top, width: width - right - limit, height: floor - top, class: "beyond" }),
      drawn("line", { x1: left, x2: width - right, y1: this.y(0), y2: this.y(0), class: "axis" }),
      drawn("line", { x1: x, x2: x, y1: floor, y2: floor + 5, class: "own" }),
      drawn("polyline", { points, class: "score" }), this.rule, this.dot,
      ...this.words(least, most, trained, limit),
    );
  }

  /**
   * @param {number} least
   * @param {number} most
   * @param {number} trained
   * @param {number} limit where the trained distances end
   */
  words(least, most, trained, limit) {
    const { width, height, right, top, bottom, left } = CURVE, floor = height - bottom;
    /**
     * @param {string} words
     * @param {number} x
     * @param {number} y
     * @param {string} anchor
     */
    const text = (words, x, y, anchor) => written(words, { x, y, "text-anchor": anchor });
    const [low, high] = this.span, nodes = [
      text(formatNumber(high, 3), left - 5, this.y(high) + 4, "end"),
      text(formatNumber(low, 3), left - 5, this.y(low) + 4, "end"),
      text(formatCount(least), left, floor + 16, "middle"), text(formatCount(most), width - right, floor + 16, "end"),
      text("distance i − j", (left + width - right) / 2, floor + 32, "middle"),
    ];
    if (low < 0 && high > 0 && Math.min(this.y(0) - top, floor - this.y(0)) > 14) {
      nodes.push(text("0", left - 5, this.y(0) + 4, "end"));
    }
    if (trained < most) {
      nodes.push(text(formatCount(trained), limit, floor + 16, "middle"));
      nodes.push(text("never trained", limit + 5, top + 11, "start"));
    }
    return nodes;
  }

  /** @param {number} distance */
  show(distance) {
    const x = String(this.x(distance));
    this.dot.setAttribute("cx", x);
    this.dot.setAttribute("cy", String(this.y(this.scoreOf(distance))));
    this.rule.setAttribute("x1", x);
    this.rule.setAttribute("x2", x);
  }

  /** @param {number} distance */
  x(distance) {
    const [least, most] = this.ends, room = CURVE.width - CURVE.left - CURVE.right;
    return CURVE.left + (room * (distance - least)) / (most - least);
  }

  /** @param {number} score */
  y(score) {
    const [low, high] = this.span, room = CURVE.height - CURVE.top - CURVE.bottom;
    return CURVE.top + (room * (high - score)) / (high - low);
  }

  /** @param {PointerEvent} event */
  distanceAt({ clientX }) {
    const box = this.picture.getBoundingClientRect(), [least, most] = this.ends;
    const x = ((clientX - box.left) * CURVE.width) / box.width, room = CURVE.width - CURVE.left - CURVE.right;
    return clamp(Math.round(least + ((x - CURVE.left) * (most - least)) / room), least, most);
  }
}
