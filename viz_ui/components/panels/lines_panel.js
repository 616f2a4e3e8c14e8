// Who reads whom: queries on the left, keys on the right, and a line for each weight between them.

import { clamp, element, formatNumber, setText } from "../shared/shared.js";
import { scrollToShow, TokenList } from "./token_list.js";

const FAINTEST_LINE = 0.01; // share of the colour scale, at rest; of a token pointed at, every permitted line is drawn
const MOST_INK = 0.6; // of the window's height that all lines together cover where they begin
const OPACITIES = 24; // lines of nearly the same weight are stroked together
const SIGNS = { positive: "#D6604D", negative: "#4393C3" }; // hues of the diverging scale that stand out on any page

const widthOf = (step) => 0.7 + (4 * step) / OPACITIES; // pixels

export class LinesPanel {
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

  update(spec) {
    this.spec = spec;
    const { rows, columns } = spec.of;
    setText(this.title, spec.title);
    this.title.className = `title ${spec.of.role}`;
    const faintest = formatNumber(FAINTEST_LINE * spec.of.high, 1);
    const sign = this.signed() ? " Red is above 0, blue below." : "";
    setText(this.note, `The larger the number, the thicker the line.${sign} Lines under ${faintest} appear when you `
      + "point at a token. Lines with both ends out of view are not drawn.");
    setText(this.heads.children[0], rows.axis);
    setText(this.heads.children[1], columns.axis);
    for (const [list, { labels, axis }] of [[this.queries, rows], [this.keys, columns]]) {
      list.setLabels(labels, axis, `${spec.title}: ${axis} tokens. Enter pins a token, Escape releases it.`);
    }
  }

  signed() {
    return this.spec.of.scale === "diverging";
  }

  layout(sizes) {
    this.scroller.style.maxHeight = `${sizes.listHeight}px`;
    this.canvas.style.height = 0; // its old height must not hold the list open
    const ratio = window.devicePixelRatio || 1;
    const width = this.canvas.parentNode.clientWidth, height = this.scroller.clientHeight;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.rowHeight = this.queries.rows[0].getBoundingClientRect().height;
  }

  /** Which lines are asked for: of the token pointed at, else of the pinned one, else (null) all. */
  asked() {
    const { hovered, selected, pinned } = this.host;
    if (hovered?.query != null) return { side: "query", index: hovered.query };
    if (hovered?.key != null) return { side: "key", index: hovered.key };
    if (pinned && selected[pinned] != null) return { side: pinned, index: selected[pinned] };
    return null;
  }

  paint() {
    const { of } = this.spec, asked = this.asked();
    this.lines = [];
    const width = of.columns.labels.length;
    of.rows.labels.forEach((_, i) => {
      if (asked?.side === "query" && asked.index !== i) return;
      for (let j = 0; j < width; j++) {
        if (asked?.side === "key" && asked.index !== j) continue;
        const at = i * width + j, strength = (of.values[at] * of.factor) / of.high;
        if ((of.mask && !of.mask[at]) || Math.abs(strength) < (asked ? 1e-9 : FAINTEST_LINE)) continue;
        this.lines.push([i, j, strength]);
      }
    });
    this.opacity = asked ? Math.sqrt : (weight) => weight; // few lines can be plainer than many
    this.writeNumbers(asked);
    this.draw();
  }

  writeNumbers(asked) {
    const { of } = this.spec, width = of.columns.labels.length;
    const write = (list, side, at) => list.rows.forEach((row, i) => {
      const shown = asked?.side === side, number = row.querySelector(".number");
      const masked = shown && of.mask && !of.mask[at(i)];
      setText(number, !shown ? "" : masked ? "masked" : this.number(of.values[at(i)] * of.factor));
      row.classList.toggle("apart", Boolean(masked));
    });
    write(this.keys, "query", (j) => asked.index * width + j);
    write(this.queries, "key", (i) => i * width + asked.index);
    const axis = asked?.side === "query" ? of.rows : of.columns;
    const pinned = this.host.pinned && !this.host.hovered ? ", pinned: Escape shows all" : "";
    setText(this.caption, asked ? `${axis.axis} ${axis.labels[asked.index]}${pinned}` : "all tokens");
    this.caption.className = `caption small ${asked?.side ?? ""}`;
  }

  draw() {
    const ratio = window.devicePixelRatio || 1, pen = this.canvas.getContext("2d");
    const width = this.canvas.width / ratio, height = this.canvas.height / ratio;
    const top = this.scroller.scrollTop, half = this.rowHeight / 2;
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

  alphaOf(step) {
    return Math.max(this.opacity(step / OPACITIES), 0.03);
  }

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

  highlight(selected, hovered) {
    this.queries.mark(selected.query, hovered?.query);
    this.keys.mark(selected.key, hovered?.key);
    if (hovered?.panel !== this.name) this.follow(hovered ?? selected);
    this.paint();
  }

  /** Bring what is meant elsewhere into view, once: after that the reader may scroll as they like. */
  follow({ query, key }) {
    const wanted = query != null ? this.queries.rows[query] : this.keys.rows[key];
    if (wanted && wanted !== this.followed) scrollToShow(wanted);
    this.followed = wanted;
  }

  focus(side, index) {
    const focus = { panel: this.name, row: null, column: null, query: null, key: null, other: {} };
    focus[side] = focus[side === "query" ? "row" : "column"] = index;
    return focus;
  }

  point(side, index) {
    this.host.hover(this.focus(side, index));
  }

  /** A click pins and selects; a second one on the same token lets go. */
  choose(side, index) {
    if (this.host.pinned === side && this.host.selected[side] === index) return this.host.unpin();
    this.host.pinned = side;
    this.host.pick(this.name, side === "query" ? index : null, side === "key" ? index : null);
  }

  /** A weight to three places, anything else to three digits. */
  number(value) {
    if (this.spec.of.role !== "weights") return formatNumber(value, 3);
    return value > 0 && value < 0.0005 ? "<0.001" : value.toFixed(3);
  }
}
