// The root: two sliders, the chosen pair as a large clock, all pairs as small ones, and the score by distance.

import { applyTheme, clamp, element, formatNumber, living, setText, unpack } from "../shared/shared.js";
import { Clock, LargeClock, lengthOf, RIM, turnedPair } from "./rotary_clocks.js";
import { ScoreCurve } from "./rotary_curve.js";

const STEP_MILLISECONDS = 60; // of playing: a token further each time

class RotaryPairs {
  constructor(root) {
    this.root = root;
    this.count = 0; // events that were told
    this.play = element("button", "tool play", "▶ Play");
    this.play.type = "button";
    this.play.title = "Move both tokens on, one position at a time";
    this.play.onclick = () => (this.timer ? this.stop() : this.start());
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

  tell(event) {
    this.send("move", event);
  }

  end() {
    this.pause();
  }

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

  /** The sum of all pairs, times the scale. */
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
      clock.show(now, { unit: this.unit, chosen: index === pair, isNew, index });
      if (index === pair) this.large.show(pairs[index], now, index, queryPosition, keyPosition);
    });
    for (const [setting, value] of [[this.shift, shift], [this.distance, distance]]) {
      setting.input.value = value;
      setText(setting.value, String(value).replace("-", "−"));
    }
    this.curve.show(distance);
    this.say(queryPosition, keyPosition);
  }

  /** Whether the pair's angle for this distance lies outside the arc that the trained distances went through. */
  isNew(theta, distance) {
    const { trained, both_ways } = this.head, whole = 2 * Math.PI, arc = trained * theta;
    const angle = (((distance * theta) % whole) + whole) % whole;
    return angle > arc && (!both_ways || whole - angle > arc);
  }

  say(queryPosition, keyPosition) {
    const { query, key, pairs, computed, scale } = this.head, { shift, distance } = this.now;
    const score = this.score(distance, shift), unseen = pairs.filter(({ theta }) => this.isNew(theta, distance));
    const part = (text, className = "") => element("span", className, text);
    const difference = Math.abs(score - computed), digits = Math.abs(computed) * 1e-4 + 1e-4;
    const verdict = difference < digits ? `as in the pass (${formatNumber(computed)})` : `in the pass ${formatNumber(computed)}`;
    this.readout.replaceChildren(
      part("query ", "query"), part(query.label, "query token"), part(` at ${queryPosition}, `),
      part("key ", "key"), part(key.label, "key token"), part(` at ${keyPosition}: `),
      part(`q · k = ${formatNumber(score / scale)}`), part(", "),
      part(`S = ${formatNumber(score)}`, "scores value"), part(`, ${verdict}. `),
      part(unseen.length ? `Distance ${distance} was never trained: ${unseen.length} of ${pairs.length} pairs stand at `
        + "an angle that no trained distance has (dashed)." : "", "small"),
    );
  }

  choose(pair, focus = false) {
    this.now.pair = clamp(pair, 0, this.small.length - 1);
    this.show();
    if (focus) this.small[this.now.pair].node.focus();
    this.told();
  }

  key(event) {
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
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
    this.timer = null;
    setText(this.play, "▶ Play");
  }

  told() {
    const { shift, distance, pair } = this.now;
    this.count += 1;
    this.tell([shift, distance - this.own, pair, this.count]);
  }
}

export default living(RotaryPairs, ".rotary");
