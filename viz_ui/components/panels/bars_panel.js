// One query's row of a matrix as bars, one a key, each with its number.

import { cellNumber } from "../shared/cells.js";
import { button, element, setText } from "../shared/elements.js";
import { formatNumber } from "../shared/numbers.js";
import { restInWords } from "./strongest.js";
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
    const name = `${spec.title}: ${of.columns.axis} tokens`, { values, mask, factor } = overviewOf(of);
    this.keys.setLabels(of.columns.labels, of.columns.axis, name, spec.strongest?.[0].keys);
    let largest = 0;
    for (let at = 0; at < values.length; at++) {
      if (!mask || mask[at]) largest = Math.max(largest, Math.abs(values[at]));
    }
    this.full = roundUp(largest * Math.abs(factor));
    this.signed = of.low < 0;
    this.node.style.setProperty("--hue", `var(--${of.role})`);
    const range = this.signed ? `−${this.full} to ${this.full}` : `0 to ${this.full}`;
    const rest = spec.strongest ? ` ${restInWords(spec.strongest[0].rest, of)}` : "";
    setText(this.note, `Bars run from ${range}, the same for every ${of.rows.axis}.${rest.trimEnd()}`);
  }

  /** @param {import("./panels.js").Sizes} sizes */
  layout(sizes) {
    this.scroller.style.maxHeight = `${sizes.listHeight}px`;
  }

  query() {
    if (this.spec.strongest) return this.spec.strongest[0].query; // its row alone was sent
    const { hovered, selected } = this.host, last = this.spec.of.rows.labels.length - 1;
    return Math.min(hovered?.query ?? selected.query ?? last, last);
  }

  paint() {
    const { of, strongest } = this.spec, query = this.query(), entries = strongest ? keptRow(strongest[0], of)
      : wholeRow(of, query);
    const row = entries.map(({ value }) => value);
    this.buttons.forEach((node, i) => { node.ariaPressed = String(this.byValue === (i === 1)); });
    const order = row.map((_, j) => j);
    if (this.byValue) order.sort((a, b) => (row[b] ?? -Infinity) - (row[a] ?? -Infinity) || a - b);
    this.keys.setOrder(order);
    entries.forEach(({ value, text }, j) => this.paintBar(this.keys.rows[j], value, text));
    this.empty.hidden = row.some((value) => value !== null);
    const rest = strongest ? strongest[0].rest.total * of.factor : 0;
    const sum = row.reduce((/** @type {number} */ total, value) => total + (value ?? 0), rest);
    const adds = of.role === "weights" ? ` · sum ${formatNumber(sum, of.digits ?? 4)}` : "";
    const left = strongest?.[0].rest.count ? ` · its ${row.length} strongest ${of.columns.axis}s` : "";
    setText(this.caption, `${of.rows.axis} ${of.rows.labels[query]}${left}${adds}`);
    this.caption.className = `caption token ${of.rows.index}`;
    return { query, row };
  }

  /**
   * @param {HTMLElement} node
   * @param {number | null} value null: masked
   * @param {string} text
   */
  paintBar(node, value, text) {
    const [, track, number] = node.children, bar = /** @type {HTMLElement} */ (track.firstChild);
    const masked = value === null, size = masked ? 0 : Math.abs(value);
    node.classList.toggle("apart", masked);
    track.classList.toggle("hatched", masked);
    setText(number, text);
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
    const key = hovered ? hovered.key : selected.key, wanted = this.keys.places.get(key ?? -1);
    const shown = wanted !== undefined && row[wanted] !== null ? wanted
      : row.findLastIndex((value) => value !== null);
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

/**
 * What has the largest numbers of a matrix: of a long one its overview.
 * @param {any} of
 * @returns {import("../shared/cells.js").Matrix}
 */
const overviewOf = (of) => of.overview ?? of;

/** @typedef {{ value: number | null, text: string }} Entry null: masked */

/**
 * @param {import("./panels.js").MatrixItem} of
 * @param {number} query
 * @returns {Entry[]}
 */
function wholeRow(of, query) {
  const width = of.columns.labels.length;
  return Array.from({ length: width }, (_, key) => {
    const at = query * width + key, masked = of.mask !== null && !of.mask[at];
    return masked ? { value: null, text: "masked" } : { value: of.values[at] * of.factor, text: cellNumber(of, at) };
  });
}

/**
 * @param {import("./panels.js").StrongestRow} row
 * @param {import("./panels.js").MatrixItem} of
 * @returns {Entry[]}
 */
const keptRow = ({ values }, { factor }) =>
  Array.from(values, (value) => ({ value: value * factor, text: formatNumber(value * factor) }));

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
