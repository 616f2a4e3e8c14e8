// Who reads whom: queries on the left, keys on the right, and a line for each weight between them.

import { element, penOf, setText } from "../shared/elements.js";
import { clamp, pixelRatio, sizeCanvas } from "../shared/look.js";
import { formatNumber } from "../shared/numbers.js";
import { restInWords } from "./strongest.js";
import { scrollToShow, TokenList } from "./token_list.js";

const FAINTEST_LINE = 0.01; // share of the colour scale, at rest; of a token pointed at, every permitted line is drawn
const MOST_INK = 0.6; // of the window's height that all lines together cover where they begin
const OPACITIES = 24; // lines of nearly the same weight are stroked together
const SIGNS = { positive: "#D6604D", negative: "#4393C3" }; // hues of the diverging scale that stand out on any page

/**
 * Pixels of a line.
 * @param {number} step of its opacity
 */
const widthOf = (step) => 0.7 + (4 * step) / OPACITIES;

/** @typedef {{ side: "query" | "key", index: number } | null} Asked whose lines are asked for; null: everybody's */

export class LinesPanel {
  /** @type {import("./panels.js").List} */
  spec;
  rowHeight = 0;
  /** @type {[query: number, key: number, strength: number][]} */
  lines = [];
  /** @type {HTMLElement | undefined} */
  followed;
  /** @type {(strength: number) => number} */
  opacity = Math.sqrt;

  /**
   * @param {import("./panels.js").Panels} host
   * @param {string} name
   */
  constructor(host, name) {
    this.host = host;
    this.name = name;
    this.node = element("section", "panel lines");
    this.node.dataset.panel = name;
    this.title = element("span", "title weights");
    this.caption = element("div", "caption small");
    this.queries = new TokenList(this, "query", (row) => row.prepend(element("span", "number")));
    this.keys = new TokenList(this, "key", (row) => row.append(element("span", "number")));
    this.canvas = element("canvas");
    this.scroller = element("div", "scroller");
    this.scroller.onscroll = () => this.draw();
    const header = element("header");
    header.append(this.title);
    const inner = element("div", "columns");
    const middle = element("div", "middle");
    middle.append(this.canvas);
    inner.append(this.queries.node, middle, this.keys.node);
    this.scroller.append(inner);
    this.heads = element("div", "heads small");
    this.heads.append(element("span", "query"), element("span", "key"));
    this.note = element("div", "note small");
    this.node.append(header, this.caption, this.heads, this.scroller, this.note);
  }

  /** @param {import("./panels.js").List} spec */
  update(spec) {
    this.spec = spec;
    const { rows, columns } = spec.of, { strongest } = spec;
    setText(this.title, spec.title);
    this.title.className = `title ${spec.of.role}`;
    const faintest = formatNumber(FAINTEST_LINE * spec.of.high, 1);
    const sign = this.signed() ? " Red is above 0, blue below." : "";
    setText(this.note, `The larger the number, the thicker the line.${sign} Lines for numbers under ${faintest} appear `
      + "when you point at a token. Lines with both ends out of view are not drawn."
      + (strongest ? ` Shown are the chosen ${rows.axis} and those around it, each with its ${columns.axis}s of the `
        + "largest numbers." : ""));
    setText(this.heads.children[0], rows.axis);
    setText(this.heads.children[1], columns.axis);
    const name = (/** @type {string} */ axis) =>
      `${spec.title}: ${axis} tokens. Enter pins a token, Escape releases it.`;
    const keys = strongest && [...new Set(strongest.flatMap((row) => row.keys))].sort((a, b) => a - b);
    this.queries.setLabels(rows.labels, rows.axis, name(rows.axis), strongest?.map(({ query }) => query));
    this.keys.setLabels(columns.labels, columns.axis, name(columns.axis), keys);
  }

  signed() {
    return this.spec.of.scale === "diverging";
  }

  /** @param {import("./panels.js").Sizes} sizes */
  layout(sizes) {
    this.scroller.style.maxHeight = `${sizes.listHeight}px`;
    this.canvas.style.height = "0"; // its old height must not hold the list open
    const width = this.canvas.parentElement?.clientWidth ?? 0, height = this.scroller.clientHeight;
    sizeCanvas(this.canvas, width, height);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.rowHeight = this.queries.rows[0].getBoundingClientRect().height;
  }

  /**
   * Which lines are asked for: of the token pointed at, else of the pinned one, else (null) all.
   * @returns {Asked}
   */
  asked() {
    const { hovered, selected, pinned } = this.host, pinnedAt = pinned && selected[pinned];
    if (this.queries.rowOf(hovered?.query)) return { side: "query", index: hovered?.query ?? 0 };
    if (this.keys.rowOf(hovered?.key)) return { side: "key", index: hovered?.key ?? 0 };
    const list = pinned === "query" ? this.queries : this.keys;
    return pinned && pinnedAt != null && list.rowOf(pinnedAt) ? { side: pinned, index: pinnedAt } : null;
  }

  paint() {
    const { of } = this.spec, asked = this.asked();
    this.lines = [];
    for (const [query, key, value] of this.cells()) {
      if (asked && asked.index !== (asked.side === "query" ? query : key)) continue;
      const strength = value / of.high;
      if (Math.abs(strength) < (asked ? 1e-9 : FAINTEST_LINE)) continue;
      this.lines.push([this.queries.places.get(query) ?? 0, this.keys.places.get(key) ?? 0, strength]);
    }
    this.opacity = asked ? Math.sqrt : (weight) => weight; // few lines can be plainer than many
    this.writeNumbers(asked);
    this.draw();
  }

  /**
   * The permitted cells that were sent: of a long text the strongest of some queries.
   * @returns {Generator<[query: number, key: number, value: number]>}
   */
  * cells() {
    const { of, strongest } = this.spec, width = of.columns.labels.length;
    for (const { query, keys, values } of strongest ?? []) {
      for (let i = 0; i < keys.length; i++) yield [query, keys[i], values[i] * of.factor];
    }
    if (strongest) return;
    for (let at = 0; at < of.values.length; at++) {
      if (!of.mask || of.mask[at]) yield [Math.floor(at / width), at % width, of.values[at] * of.factor];
    }
  }

  /** @param {Asked} asked */
  writeNumbers(asked) {
    const { of, strongest } = this.spec;
    /** @type {Map<number, number>} */
    const numbers = new Map();
    for (const [query, key, value] of this.cells()) {
      if (asked?.side === "query" && asked.index === query) numbers.set(key, value);
      if (asked?.side === "key" && asked.index === key) numbers.set(query, value);
    }
    /**
     * @param {TokenList} list
     * @param {"query" | "key"} side whose numbers stand beside its tokens
     */
    const write = (list, side) => list.rows.forEach((row, i) => {
      const value = numbers.get(list.indices[i]), isAsked = asked?.side === side;
      const masked = isAsked && value === undefined && !strongest; // of a long text not all numbers were sent
      const text = !isAsked || (value === undefined && strongest) ? "" : masked ? "masked" : this.number(value ?? 0);
      setText(/** @type {HTMLElement} */ (row.querySelector(".number")), text);
      row.classList.toggle("apart", masked);
    });
    write(this.keys, "query");
    write(this.queries, "key");
    const axis = asked?.side === "query" ? of.rows : of.columns;
    const pinned = this.host.pinned && !this.host.hovered ? ", pinned: Escape shows all" : "";
    const row = asked?.side === "query" && strongest?.find(({ query }) => query === asked.index);
    const rest = row && row.rest.count ? `: ${row.keys.length} strongest. ${restInWords(row.rest, of)}` : "";
    const all = strongest ? `${strongest.length} of ${of.rows.labels.length} tokens` : "all tokens";
    setText(this.caption, asked ? `${axis.axis} ${axis.labels[asked.index]}${pinned}${rest}` : all);
    this.caption.title = rest ? this.caption.textContent ?? "" : "";
    this.caption.className = `caption small ${asked?.side ?? ""}`;
  }

  draw() {
    const ratio = pixelRatio(), pen = penOf(this.canvas);
    const width = this.canvas.width / ratio, height = this.canvas.height / ratio;
    const top = this.scroller.scrollTop, half = this.rowHeight / 2;
    /** @returns {number[][]} of each opacity the ends of its lines */
    const fresh = () => Array.from({ length: OPACITIES + 1 }, () => []);
    const positive = fresh(), negative = fresh();
    let ink = 0; // pixels of full colour
    for (const [i, j, strength] of this.lines) {
      const from = i * this.rowHeight + half - top, to = j * this.rowHeight + half - top;
      if (![from, to].some((end) => end >= 0 && end <= height)) continue; // what only passes by is in the way
      const steps = strength < 0 ? negative : positive;
      const step = Math.round(clamp(Math.abs(strength), 0, 1) * OPACITIES);
      steps[step].push(from, to);
      ink += this.alphaOf(step) * widthOf(step);
    }
    // Many strong lines across one window would close into a wall of colour, so they get thinner.
    const thinner = Math.min(1, (MOST_INK * height) / ink);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.stroke(pen, positive, this.signed() ? SIGNS.positive : getComputedStyle(this.title).color, thinner, width);
    this.stroke(pen, negative, SIGNS.negative, thinner, width);
    pen.globalAlpha = 1;
  }

  /** @param {number} step */
  alphaOf(step) {
    return Math.max(this.opacity(step / OPACITIES), 0.03);
  }

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {number[][]} steps of each opacity the ends of its lines
   * @param {string} colour
   * @param {number} thinner
   * @param {number} width
   */
  stroke(pen, steps, colour, thinner, width) {
    pen.strokeStyle = colour;
    steps.forEach((ends, step) => {
      if (!ends.length) return;
      pen.globalAlpha = this.alphaOf(step);
      pen.lineWidth = thinner * widthOf(step);
      pen.beginPath();
      for (let k = 0; k < ends.length; k += 2) {
        pen.moveTo(0, ends[k]);
        pen.lineTo(width, ends[k + 1]);
      }
      pen.stroke();
    });
  }

  /**
   * @param {import("./panels.js").Selection} selected
   * @param {import("./panels.js").Focus | null} hovered
   */
  highlight(selected, hovered) {
    this.queries.mark(selected.query, hovered?.query);
    this.keys.mark(selected.key, hovered?.key);
    if (hovered?.panel !== this.name) this.follow(hovered ?? selected);
    this.paint();
  }

  /**
   * Bring what is meant elsewhere into view, once: after that the reader may scroll as they like.
   * @param {import("./panels.js").Selection} meant
   */
  follow({ query, key }) {
    const wanted = query != null ? this.queries.rowOf(query) : this.keys.rowOf(key);
    if (wanted && wanted !== this.followed) scrollToShow(wanted);
    this.followed = wanted;
  }

  /**
   * @param {"query" | "key"} side
   * @param {number} index
   * @returns {import("./panels.js").Focus}
   */
  focus(side, index) {
    /** @type {import("./panels.js").Focus} */
    const focus = { panel: this.name, row: null, column: null, query: null, key: null, other: {} };
    focus[side] = focus[side === "query" ? "row" : "column"] = index;
    return focus;
  }

  /**
   * @param {"query" | "key"} side
   * @param {number} index
   */
  point(side, index) {
    this.host.hover(this.focus(side, index));
  }

  /**
   * A click pins and selects; a second one on the same token lets go.
   * @param {"query" | "key"} side
   * @param {number} index
   */
  choose(side, index) {
    if (this.host.pinned === side && this.host.selected[side] === index) return this.host.unpin();
    this.host.pinned = side;
    this.host.pick(this.name, side === "query" ? index : null, side === "key" ? index : null);
  }

  /**
   * A weight to three places, so that a column of them can be compared; anything else to three digits.
   * @param {number} value
   * @returns {string}
   */
  number(value) {
    if (this.spec.of.role !== "weights") return formatNumber(value, 3);
    return value > 0 && value < 0.0005 ? "<0.001" : value.toFixed(3);
  }
}
