// One query's row of a matrix as bars, one a key, each with its number.

import { cellNumber } from "../shared/cells.js";
import { element, formatNumber, setText } from "../shared/shared.js";
import { scrollToShow, TokenList } from "./token_list.js";

export class BarsPanel {
  constructor(host, name) {
    this.host = host;
    this.name = name;
    this.byValue = false;
    this.node = element("section", "panel bars");
    this.node.dataset.panel = name;
    this.title = element("span", "title");
    this.caption = element("div", "caption");
    this.keys = new TokenList(this, "key", (row) => row.append(makeTrack(), element("span", "number")));
    this.scroller = element("div", "scroller");
    this.scroller.append(this.keys.node);
    this.empty = element("div", "empty", "This query may attend to nothing: all weights are 0.");
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
    this.buttons = ["position", "value"].map((word) => {
      const button = element("button", "tool", word);
      button.type = "button";
      button.setAttribute("aria-label", `by ${word}`);
      button.onclick = () => {
        this.byValue = word === "value";
        this.paint();
        this.scroller.scrollTop = 0;
      };
      return button;
    });
    group.append(...this.buttons);
    return group;
  }

  update(spec) {
    this.spec = spec;
    const { of } = spec;
    setText(this.title, spec.title);
    this.title.className = `title ${of.role}`;
    this.keys.setLabels(of.columns.labels, of.columns.axis, `${spec.title}: ${of.columns.axis} tokens`);
    let largest = 0;
    of.values.forEach((value, at) => {
      if (!of.mask || of.mask[at]) largest = Math.max(largest, Math.abs(value));
    });
    this.full = roundUp(largest * Math.abs(of.factor));
    this.signed = of.low < 0;
    this.node.style.setProperty("--hue", `var(--${of.role})`);
    const range = this.signed ? `−${this.full} to ${this.full}` : `0 to ${this.full}`;
    setText(this.note, `Bars run from ${range}, the same for every ${of.rows.axis}.`);
  }

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
    this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", this.byValue === (i === 1)));
    const order = row.map((_, j) => j);
    if (this.byValue) order.sort((a, b) => (row[b] ?? -Infinity) - (row[a] ?? -Infinity) || a - b);
    this.keys.setOrder(order);
    row.forEach((value, j) => this.paintBar(this.keys.rows[j], value, cells[j]));
    const permitted = row.filter((value) => value != null);
    this.empty.hidden = permitted.length > 0;
    const sum = permitted.reduce((total, value) => total + value, 0);
    const adds = of.role === "weights" ? ` · sum ${formatNumber(sum, of.digits)}` : "";
    setText(this.caption, `${of.rows.axis} ${of.rows.labels[query]}${adds}`);
    this.caption.className = `caption token ${of.rows.index}`;
    return { query, row };
  }

  paintBar(node, value, at) {
    const [, track, number] = node.children, bar = track.firstChild;
    const masked = value == null;
    node.classList.toggle("apart", masked);
    track.classList.toggle("hatched", masked);
    setText(number, masked ? "masked" : cellNumber(this.spec.of, at));
    const share = masked ? 0 : (100 * Math.abs(value)) / this.full;
    bar.style.width = `${this.signed ? share / 2 : share}%`;
    bar.style.left = this.signed ? `${value < 0 ? 50 - share / 2 : 50}%` : "0";
  }

  highlight(selected, hovered) {
    const { row } = this.paint();
    this.keys.mark(selected.key, hovered?.key);
    if (hovered?.panel === this.name) return; // the list must not move below the pointer
    const key = hovered ? hovered.key : selected.key;
    const shown = key != null && row[key] != null ? key : row.findLastIndex((value) => value != null);
    if (shown !== this.followed && (!this.byValue || key != null)) scrollToShow(this.keys.rows[shown]);
    this.followed = shown; // only once: after that the reader may scroll
  }

  focus(_, index) {
    const query = this.query();
    return { panel: this.name, row: query, column: index, query, key: index, other: {} };
  }

  point(meaning, index) {
    this.host.hover(this.focus(meaning, index));
  }

  choose(_, index) {
    this.host.pick(this.name, this.query(), index);
  }
}

function makeTrack() {
  const track = element("span", "track");
  track.append(element("span", "fill"));
  return track;
}

/** The next of 1, 2, 5 times a power of ten, so that a track has a number that can be said. */
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return Number((power * [1, 2, 5, 10].find((step) => step * power >= value * (1 - 1e-6))).toPrecision(1));
}
