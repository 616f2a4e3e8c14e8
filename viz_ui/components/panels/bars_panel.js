// One query's row of a matrix as bars, one a key, each with its number.

import { cellNumber } from "../shared/cells.js";
import { button, element, setText } from "../shared/elements.js";
import { formatNumber } from "../shared/numbers.js";
import { scrollToShow, TokenList } from "./token_list.js";

export class BarsPanel {
  /** @type {import("./panels.js").List} */
  spec;
  full = 1; // the value at the end of a track
  signed = false;
  byValue = false;
  /** @type {HTMLButtonElement[]} */
  buttons = [];
  /** @type {number | undefined} */
  followed;

  /**
   * @param {import("./panels.js").Panels} host
   * @param {string} name
   */
  constructor(host, name) {
    this.host = host;
    this.name = name;
    this.node = element("section", "panel bars");
    this.node.dataset.panel = name;
    this.title = element("span", "title");
    this.caption = element("div", "caption");
    this.keys = new TokenList(this, "key", (row) => row.append(makeTrack(), element("span", "number")));
    this.scroller = element("div", "scroller");
    this.scroller.append(this.keys.node);
    this.empty = element("div", "empty", "This query may read no token: all weights are 0.");
    this.note = element("div", "note small");
    const header = element("header");
    header.append(this.title, this.makeSorting());
    this.node.append(header, this.caption, this.empty, this.scroller, this.note);
  }

  makeSorting() {
    const group = element("span", "sorting small");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "Order of the bars");
    group.append("by ");
    const buttons = ["position", "value"].map((word) => {
      const node = button("tool", word, () => {
        this.byValue = word === "value";
        this.paint();
        this.scroller.scrollTop = 0;
      });
      node.ariaLabel = `by ${word}`;
      return node;
    });
    group.append(...buttons);
    this.buttons = buttons;
    return group;
  }

  /** @param {import("./panels.js").List} spec */
  update(spec) {
    this.spec = spec;
    const { of } = spec;
    setText(this.title, spec.title);
    this.title.className = `title ${of.role}`;
    this.keys.setLabels(of.columns.labels, of.columns.axis, `${spec.title}: ${of.columns.axis} tokens`);
    let largest = 0;
    for (let at = 0; at < of.values.length; at++) {
      if (!of.mask || of.mask[at]) largest = Math.max(largest, Math.abs(of.values[at]));
    }
    this.full = roundUp(largest * Math.abs(of.factor));
    this.signed = of.low < 0;
    this.node.style.setProperty("--hue", `var(--${of.role})`);
    const range = this.signed ? `−${this.full} to ${this.full}` : `0 to ${this.full}`;
    setText(this.note, `Bars run from ${range}, the same for every ${of.rows.axis}.`);
  }

  /** @param {import("./panels.js").Sizes} sizes */
  layout(sizes) {
    this.scroller.style.maxHeight = `${sizes.listHeight}px`;
  }

  query() {
    const { hovered, selected } = this.host, last = this.spec.of.rows.labels.length - 1;
    return Math.min(hovered?.query ?? selected.query ?? last, last);
  }

  paint() {
    const { of } = this.spec, query = this.query(), width = of.columns.labels.length;
    const cells = Array.from({ length: width }, (_, j) => query * width + j);
    const row = cells.map((at) => (of.mask && !of.mask[at] ? null : of.values[at] * of.factor));
    this.buttons.forEach((node, i) => { node.ariaPressed = String(this.byValue === (i === 1)); });
    const order = row.map((_, j) => j);
    if (this.byValue) order.sort((a, b) => (row[b] ?? -Infinity) - (row[a] ?? -Infinity) || a - b);
    this.keys.setOrder(order);
    row.forEach((value, j) => this.paintBar(this.keys.rows[j], value, cells[j]));
    this.empty.hidden = row.some((value) => value !== null);
    const sum = row.reduce((/** @type {number} */ total, value) => total + (value ?? 0), 0);
    const adds = of.role === "weights" ? ` · sum ${formatNumber(sum, of.digits)}` : "";
    setText(this.caption, `${of.rows.axis} ${of.rows.labels[query]}${adds}`);
    this.caption.className = `caption token ${of.rows.index}`;
    return { query, row };
  }

  /**
   * @param {HTMLElement} node
   * @param {number | null} value null: masked
   * @param {number} at
   */
  paintBar(node, value, at) {
    const [, track, number] = node.children, bar = /** @type {HTMLElement} */ (track.firstChild);
    const masked = value === null, size = masked ? 0 : Math.abs(value);
    node.classList.toggle("apart", masked);
    track.classList.toggle("hatched", masked);
    setText(number, masked ? "masked" : cellNumber(this.spec.of, at));
    const share = (100 * size) / this.full;
    bar.style.width = `${this.signed ? share / 2 : share}%`;
    bar.style.left = this.signed ? `${!masked && value < 0 ? 50 - share / 2 : 50}%` : "0";
  }

  /**
   * @param {import("./panels.js").Selection} selected
   * @param {import("./panels.js").Focus | null} hovered
   */
  highlight(selected, hovered) {
    const { row } = this.paint();
    this.keys.mark(selected.key, hovered?.key);
    if (hovered?.panel === this.name) return; // the list must not move below the pointer
    const key = hovered ? hovered.key : selected.key;
    const shown = key != null && row[key] != null ? key : row.findLastIndex((value) => value !== null);
    if (shown !== this.followed && (!this.byValue || key != null)) scrollToShow(this.keys.rows[shown]);
    this.followed = shown; // only once: after that the reader may scroll
  }

  /**
   * @param {number} index
   * @returns {import("./panels.js").Focus}
   */
  focus(index) {
    const query = this.query();
    return { panel: this.name, row: query, column: index, query, key: index, other: {} };
  }

  /**
   * @param {import("./token_list.js").Meaning} _
   * @param {number} index
   */
  point(_, index) {
    this.host.hover(this.focus(index));
  }

  /**
   * @param {import("./token_list.js").Meaning} _
   * @param {number} index
   */
  choose(_, index) {
    this.host.pick(this.name, this.query(), index);
  }
}

function makeTrack() {
  const track = element("span", "track");
  track.append(element("span", "fill"));
  return track;
}

/**
 * The next of 1, 2, 5 times a power of ten, so that a track has a number that can be said.
 * @param {number} value
 * @returns {number}
 */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return Number((power * ([1, 2, 5].find((step) => step * power >= value * (1 - 1e-6)) ?? 10)).toPrecision(1));
}
