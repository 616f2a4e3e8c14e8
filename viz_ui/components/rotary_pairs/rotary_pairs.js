// The root: two sliders, the chosen pair as a large clock, all pairs as small ones, and the score by distance.

import { unpack } from "../shared/blob.js";
import { button, element, setText } from "../shared/elements.js";
import { applyTheme, clamp } from "../shared/look.js";
import { living } from "../shared/mounting.js";
import { formatNumber } from "../shared/numbers.js";
import { Clock, LargeClock, lengthOf, RIM, turnedPair } from "./rotary_clocks.js";
import { ScoreCurve } from "./rotary_curve.js";

/** @type {Record<string, number>} */
const ALONG = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };
const STEP_MILLISECONDS = 60; // of playing: a token further each time

/**
 * What rotary_pairs.py tells in its header.
 * @typedef {object} Header
 * @property {import("./rotary_clocks.js").Pair[]} pairs
 * @property {{ label: string, position: number }} query
 * @property {{ label: string, position: number }} key
 * @property {number} scale of the score
 * @property {number} computed the score in the pass
 * @property {number} least distance
 * @property {number} most distance
 * @property {number} furthest shift
 * @property {number} trained distances
 * @property {boolean} both_ways whether distances below 0 were trained too
 * @property {number} shift
 * @property {number} distance
 * @property {number} pair
 * @property {number} answered
 */

class RotaryPairs {
  /** @type {import("../shared/mounting.js").Send} */
  send;
  /** @type {Uint8Array | undefined} */
  data;
  /** @type {Header} */
  head;
  /** @type {string | undefined} */
  tokens; // what the clocks were made for
  /** @type {Clock[]} */
  small = [];
  unit = 1; // pixels of a clock for a length of 1
  own = 0; // distance of the two tokens
  now = { shift: 0, distance: 0, pair: 0 };
  count = 0; // events that were told
  /** @type {ReturnType<typeof setInterval> | undefined} */
  timer;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.play = button("tool play", "▶ Play", () => (this.timer ? this.stop() : this.start()));
    this.play.title = "Move both tokens on, one position at a time";
    this.shift = this.slider("Move both tokens by", (value) => { this.now.shift = value; });
    this.distance = this.slider("Distance i − j", (value) => { this.now.distance = value; });
    const controls = element("div", "controls");
    controls.append(this.play, this.shift.node, this.distance.node);
    this.readout = element("div", "readout");
    this.readout.setAttribute("aria-live", "polite");
    this.large = new LargeClock();
    this.clocks = element("div", "clocks");
    this.clocks.setAttribute("role", "group");
    this.clocks.ariaLabel = "Pairs: arrow keys choose one";
    this.clocks.onkeydown = (event) => this.key(event);
    this.curve = new ScoreCurve((distance, done) => {
      this.now.distance = distance;
      this.show();
      if (done) this.told();
    });
    const pictures = element("div", "pictures");
    pictures.append(this.large.node, this.clocks, this.curve.node);
    root.append(controls, this.readout, pictures);
  }

  /**
   * @param {string} name
   * @param {(value: number) => void} take
   */
  slider(name, take) {
    const node = element("label", "setting"), input = element("input", "slider"), value = element("output");
    input.type = "range";
    input.oninput = () => {
      this.pause();
      take(Number(input.value));
      this.show();
    };
    input.onchange = () => this.told();
    node.append(element("span", "", name), input, value);
    return { node, input, value };
  }

  /**
   * @param {{ input: HTMLInputElement, value: HTMLElement }} slider
   * @param {number} value
   */
  set(slider, value) {
    slider.input.value = String(value);
    setText(slider.value, String(value).replace("-", "−"));
  }

  /** @param {unknown} event */
  tell(event) {
    this.send("move", event);
  }

  end() {
    this.pause();
  }

  /** @param {Uint8Array} data */
  receive(data) {
    applyTheme(this.root);
    if (data === this.data) return;
    this.data = data;
    const { head } = unpack(data), tokens = JSON.stringify([head.pairs, head.query, head.key]);
    const other = tokens !== this.tokens;
    this.tokens = tokens;
    this.head = head;
    this.own = head.query.position - head.key.position;
    if (other || head.answered >= this.count) { // an answer to an earlier move takes nothing back
      this.pause();
      this.count = Math.max(this.count, head.answered);
      this.now = { shift: head.shift, distance: head.distance, pair: head.pair };
    }
    if (other) this.build();
    this.show();
  }

  build() {
    const { pairs, least, most, furthest } = this.head;
    this.unit = RIM / (Math.max(...pairs.flatMap(({ query, key }) => [lengthOf(query), lengthOf(key)])) || 1);
    this.small = pairs.map((_, index) => new Clock(index, (pair) => this.choose(pair)));
    this.clocks.replaceChildren(...this.small.map(({ node }) => node));
    Object.assign(this.shift.input, { min: 0, max: furthest });
    Object.assign(this.distance.input, { min: least, max: most });
    this.curve.update({ ...this.head, own: this.own }, (distance) => this.score(distance, 0));
  }

  /**
   * The sum of all pairs, times the scale.
   * @param {number} distance
   * @param {number} shift
   */
  score(distance, shift) {
    const { pairs, key, scale } = this.head, at = key.position + shift;
    return scale * pairs.reduce((sum, pair) => sum + turnedPair(pair, at + distance, at).product, 0);
  }

  show() {
    const { pairs, key } = this.head, { shift, distance, pair } = this.now;
    const keyPosition = key.position + shift, queryPosition = keyPosition + distance;
    this.small.forEach((clock, index) => {
      const now = turnedPair(pairs[index], queryPosition, keyPosition);
      const isNew = this.isNew(pairs[index].theta, distance);
      clock.show(now, { unit: this.unit, chosen: index === pair, isNew });
      if (index === pair) this.large.show(pairs[index], now, index, queryPosition, keyPosition);
    });
    this.set(this.shift, shift);
    this.set(this.distance, distance);
    this.curve.show(distance);
    this.say(queryPosition, keyPosition);
  }

  /**
   * Whether the pair's angle for this distance lies outside the arc that the trained distances went through.
   * @param {number} theta
   * @param {number} distance
   */
  isNew(theta, distance) {
    const { trained, both_ways } = this.head, whole = 2 * Math.PI, arc = trained * theta;
    const angle = (((distance * theta) % whole) + whole) % whole;
    return angle > arc && (!both_ways || whole - angle > arc);
  }

  /**
   * @param {number} queryPosition
   * @param {number} keyPosition
   */
  say(queryPosition, keyPosition) {
    const { query, key, pairs, computed, scale } = this.head, { shift, distance } = this.now;
    const score = this.score(distance, shift), unseen = pairs.filter(({ theta }) => this.isNew(theta, distance));
    /**
     * @param {string} text
     * @param {string} [className]
     */
    const part = (text, className = "") => element("span", className, text);
    const difference = Math.abs(score - computed), digits = Math.abs(computed) * 1e-4 + 1e-4;
    const passed = formatNumber(computed);
    const verdict = difference < digits ? `as in the pass (${passed})` : `but ${passed} in the pass`;
    this.readout.replaceChildren(
      part("query ", "query"), part(query.label, "query token"), part(` at ${queryPosition}, `),
      part("key ", "key"), part(key.label, "key token"), part(` at ${keyPosition}: `),
      part(`q · k = ${formatNumber(score / scale)}`), part(", "),
      part(`S = ${formatNumber(score)}`, "scores value"), part(`, ${verdict}. `),
      part(unseen.length ? `Distance ${distance} never occurred in training. ${unseen.length} of ${pairs.length} pairs `
        + "stand at an angle that is new to the model (dashed)." : "", "small"),
    );
  }

  /**
   * @param {number} pair
   * @param {boolean} [focus]
   */
  choose(pair, focus = false) {
    this.now.pair = clamp(pair, 0, this.small.length - 1);
    this.show();
    if (focus) this.small[this.now.pair].node.focus();
    this.told();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const by = ALONG[event.key];
    if (!by) return;
    event.preventDefault();
    this.choose(this.now.pair + by, true);
  }

  start() {
    setText(this.play, "❚❚ Pause");
    this.timer = setInterval(() => {
      if (this.now.shift >= this.head.furthest) return this.stop();
      this.now.shift += 1;
      return this.show();
    }, STEP_MILLISECONDS);
  }

  stop() {
    this.pause();
    this.told();
  }

  pause() {
    clearInterval(this.timer);
    this.timer = undefined;
    setText(this.play, "▶ Play");
  }

  told() {
    const { shift, distance, pair } = this.now;
    this.count += 1;
    this.tell([shift, distance - this.own, pair, this.count]);
  }
}

export default living(RotaryPairs, ".rotary");
