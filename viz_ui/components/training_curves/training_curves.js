// Lines over the steps of a training, as SVG, and a cursor on them: clicked, dragged, played or moved by keys.

import { unpack } from "../shared/blob.js";
import { drawn, element, setText, written } from "../shared/elements.js";
import { clamp } from "../shared/look.js";
import { living } from "../shared/mounting.js";
import { formatCount, formatNumber } from "../shared/numbers.js";
import { Player, Steps } from "../shared/player.js";

const PLOT_HEIGHTS = [140, 88], LEFT = 46, RIGHT = 10, LEGEND = 20, BOTTOM = 30; // pixels
const TELL_MS = 120; // a cursor that is dragged is told no more often

/**
 * One plot of training_curves.py: lines over the same steps.
 * @typedef {object} Plot
 * @property {string} axis
 * @property {number} highest
 * @property {{ name: string, role: string, dashed: boolean, values: (number | null)[] }[]} lines
 * @property {[name: string, value: number] | null} level to compare with
 */

/**
 * What training_curves.py tells in its header.
 * @typedef {object} Header
 * @property {Plot[]} plots
 * @property {number[]} at the steps of the training that were measured
 * @property {number} most steps of the whole training
 * @property {boolean} running
 * @property {number} step
 * @property {number} answered
 */

class TrainingCurves extends Steps {
  /** @type {Header} */
  head;
  width = 0;
  dragging = false;
  cursor = drawn("line");

  /** @param {HTMLElement} root */
  constructor(root) {
    super(root);
    this.player = new Player(this);
    this.picture = drawn("svg", { class: "curves", role: "img" });
    this.readout = element("p", "readout small");
    this.readout.setAttribute("aria-live", "off");
    root.append(this.player.node, this.picture, this.readout);
    this.picture.onpointerdown = (event) => {
      this.picture.setPointerCapture(event.pointerId);
      this.dragging = true;
      this.toPointer(event);
    };
    this.picture.onpointermove = (event) => {
      if (this.dragging) this.toPointer(event);
    };
    this.picture.onpointerup = this.picture.onpointercancel = () => {
      this.dragging = false;
    };
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(root);
  }

  /** @param {Uint8Array} data */
  read(data) {
    this.data = data;
    const { head } = unpack(data), before = this.coming;
    this.head = { ...head, running: before || head.running }; // while it ran, its end was followed
    this.take(head.at.length - 1, head.step, head.answered);
    this.head = head;
  }

  layout() {
    if (this.head) this.draw();
  }

  get coming() {
    return this.head?.running ?? false;
  }

  get place() {
    return `${formatCount(this.head.at[this.step])} of ${formatCount(this.head.most)}`;
  }

  /** Python draws what belongs to the cursor, so it hears of every move, but not of more than it can draw. */
  rest() {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.tell("step", this.step === this.last ? -1 : this.step);
    }, TELL_MS);
  }

  /** @param {number} step */
  x(step) {
    return LEFT + ((this.width - LEFT - RIGHT) * step) / this.head.most;
  }

  /** @param {PointerEvent} event */
  toPointer(event) {
    const { at, most } = this.head, inner = this.width - LEFT - RIGHT;
    const wanted = ((event.clientX - this.picture.getBoundingClientRect().left - LEFT) / inner) * most;
    const distances = at.map((step) => Math.abs(step - wanted));
    this.pause(false);
    this.go(distances.indexOf(Math.min(...distances)));
  }

  draw() {
    this.width = Math.max(this.root.clientWidth, 240);
    /** @type {SVGElement[]} */
    const parts = [];
    let top = 0;
    this.head.plots.forEach((plot, n) => {
      parts.push(...this.plot(plot, top + LEGEND, PLOT_HEIGHTS[n]));
      top += LEGEND + PLOT_HEIGHTS[n] + 8;
    });
    parts.push(...this.axis(top - 8));
    this.cursor = drawn("line", { class: "cursor", y1: LEGEND, y2: top - 8 });
    this.picture.replaceChildren(...parts, this.cursor);
    this.picture.setAttribute("viewBox", `0 0 ${this.width} ${top + BOTTOM - 8}`);
    this.picture.style.height = `${top + BOTTOM - 8}px`;
    this.show();
  }

  /**
   * @param {Plot} plot
   * @param {number} top
   * @param {number} height
   */
  plot({ axis, highest, lines, level }, top, height) {
    /** @param {number} value */
    const y = (value) => top + height * (1 - clamp(value, 0, highest) / highest);
    /** @type {SVGElement[]} */
    const parts = [];
    for (const tick of ticks(highest)) {
      parts.push(drawn("line", { class: "grid", x1: LEFT, x2: this.width - RIGHT, y1: y(tick), y2: y(tick) }));
      parts.push(written(String(tick), { x: LEFT - 5, y: y(tick) + 4, class: "tick", "text-anchor": "end" }));
    }
    const middle = top + height / 2;
    const upwards = { x: 11, y: middle, class: "tick", "text-anchor": "middle", transform: `rotate(-90 11 ${middle})` };
    parts.push(written(axis, upwards));
    if (level) {
      parts.push(drawn("line", { class: "level", x1: LEFT, x2: this.width - RIGHT, y1: y(level[1]), y2: y(level[1]) }));
    }
    let left = LEFT;
    for (const line of lines) {
      const className = `line ${line.role}${line.dashed ? " dashed" : ""}`;
      parts.push(drawn("path", { class: className, d: this.path(line.values, y) }));
      parts.push(drawn("path", { class: className, d: `M${left} ${top - 8}h22` }));
      parts.push(written(line.name, { x: left + 27, y: top - 4, class: `name ${line.role}` }));
      left += 44 + 6.6 * line.name.length;
    }
    if (level) { // in front of the lines, which run there
      const words = `${level[0]} ${formatNumber(level[1], 3)}`, place = { x: this.width - RIGHT, y: y(level[1]) + 14 };
      parts.push(written(words, { ...place, class: "tick haloed", "text-anchor": "end" }));
    }
    return parts;
  }

  /**
   * @param {(number | null)[]} values
   * @param {(value: number) => number} y
   */
  path(values, y) {
    const points = values.flatMap((value, n) => (value === null ? [] : [`${this.x(this.head.at[n])} ${y(value)}`]));
    return points.length ? `M${points.join("L")}` : "";
  }

  /** @param {number} bottom */
  axis(bottom) {
    /** @type {SVGElement[]} */
    const parts = [drawn("line", { class: "level solid", x1: LEFT, x2: this.width - RIGHT, y1: bottom, y2: bottom })];
    for (const tick of ticks(this.head.most, this.width < 400 ? 4 : 6)) {
      const below = { x: this.x(tick), y: bottom + 14, class: "tick", "text-anchor": "middle" };
      parts.push(written(formatCount(tick), below));
    }
    parts.push(written("step", { x: LEFT - 12, y: bottom + 14, class: "tick", "text-anchor": "end" }));
    return parts;
  }

  /** The cursor, the numbers at it, and the player. */
  show() {
    const step = this.head.at[this.step], x = this.x(step);
    this.cursor.setAttribute("x1", String(x));
    this.cursor.setAttribute("x2", String(x));
    const numbers = this.head.plots.flatMap(({ lines }) => lines).flatMap(({ name, values }) => {
      const value = values[this.step];
      return value === null ? [] : [`${name} ${formatNumber(value, 3)}`];
    });
    setText(this.readout, numbers.join(" · "));
    this.picture.setAttribute("aria-label", `Step ${step}: ${this.readout.textContent}`);
    this.player.show();
  }

  end() {
    super.end();
    this.observer.disconnect();
  }
}

/**
 * Round numbers from 0 up to `highest`, about `count` of them.
 * @param {number} highest
 * @param {number} [count]
 */
function ticks(highest, count = 4) {
  const rough = highest / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough) ?? 10 * power;
  return Array.from({ length: Math.floor(highest / step + 1e-9) + 1 }, (_, n) => Number((n * step).toPrecision(6)));
}

export default living(TrainingCurves, ".training");
