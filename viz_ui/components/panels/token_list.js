// A column of tokens that the pointer and the keyboard reach: the two sides of the lines, the rows of the bars.

import { closest, element } from "../shared/elements.js";
import { clamp, sameList } from "../shared/look.js";

/** @typedef {"query" | "key"} Meaning which index of a matrix the tokens are */

/**
 * The panel that a list stands in.
 * @typedef {object} Owner
 * @property {string} name
 * @property {{ hovered: import("./panels.js").Focus | null, selected: import("./panels.js").Selection,
 *   leave: (panel?: string) => void }} host
 * @property {(meaning: Meaning, index: number) => void} point
 * @property {(meaning: Meaning, index: number) => void} choose
 */

export class TokenList {
  /** @type {HTMLElement[]} */
  rows = [];
  /** @type {number[]} */
  indices = []; // of the tokens of the rows
  /** @type {Map<number, number>} */
  places = new Map(); // of the rows, by the indices of their tokens
  /** @type {number[]} */
  order = []; // of the rows
  /** @type {string[] | undefined} */
  labels;

  /**
   * @param {Owner} panel
   * @param {Meaning} meaning
   * @param {(node: HTMLElement, index: number) => void} fill may add to the node of a token
   */
  constructor(panel, meaning, fill) {
    this.panel = panel;
    this.meaning = meaning;
    this.fill = fill;
    this.node = element("div", `tokens ${meaning}-side`);
    this.node.tabIndex = 0;
    this.node.setAttribute("role", "listbox");
    /** @param {Event} event */
    const indexOf = (event) => closest(event, "[data-index]")?.dataset.index;
    this.node.onpointermove = (event) => {
      const index = indexOf(event);
      if (index != null) panel.point(meaning, Number(index));
    };
    this.node.onpointerleave = () => panel.host.leave(panel.name);
    this.node.onclick = (event) => {
      const index = indexOf(event);
      if (index != null) panel.choose(meaning, Number(index));
    };
    this.node.onkeydown = (event) => this.onKey(event);
    this.node.onblur = () => panel.host.leave(panel.name);
  }

  /**
   * Rows are built again only when the labels are others.
   * @param {string[]} labels
   * @param {string} axis
   * @param {string} name
   * @param {number[]} [indices] of the tokens that are listed; all where it is left out
   */
  setLabels(labels, axis, name, indices = labels.map((_, i) => i)) {
    this.node.setAttribute("aria-label", name);
    if (sameList(labels, this.labels) && sameList(indices, this.indices)) return;
    this.labels = labels;
    this.indices = indices;
    this.places = new Map(indices.map((index, i) => [index, i]));
    this.order = indices.map((_, i) => i);
    this.rows = indices.map((index, i) => {
      const row = element("div", "row"), label = labels[index];
      row.dataset.index = String(index);
      row.id = `${this.panel.name}-${this.meaning}-${index}`;
      row.setAttribute("role", "option");
      const text = element("span", "token", label);
      text.title = `${axis} ${label}`;
      row.append(text);
      this.fill(row, i);
      return row;
    });
    this.node.replaceChildren(...this.rows);
  }

  /**
   * The row of a token; undefined where it is not listed.
   * @param {number | null | undefined} index
   */
  rowOf(index) {
    return index == null ? undefined : this.rows[this.places.get(index) ?? -1];
  }

  /** @param {number[]} order */
  setOrder(order) {
    if (sameList(order, this.order)) return;
    this.order = order;
    this.node.replaceChildren(...order.map((i) => this.rows[i]));
  }

  /**
   * @param {number | null | undefined} selected
   * @param {number | null | undefined} hovered
   */
  mark(selected, hovered) {
    this.rows.forEach((row, i) => {
      const index = this.indices[i];
      row.classList.toggle("selected", index === selected);
      row.classList.toggle("hovered", index === hovered);
      row.setAttribute("aria-selected", String(index === selected));
    });
    const active = this.rowOf(hovered ?? selected);
    if (!active) this.node.removeAttribute("aria-activedescendant");
    else this.node.setAttribute("aria-activedescendant", active.id);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const { hovered, selected } = this.panel.host, meant = hovered?.[this.meaning] ?? selected[this.meaning];
    const place = this.order.indexOf(this.places.get(meant ?? -1) ?? this.order[0]);
    const last = this.order.length - 1;
    /** @type {Record<string, number>} */
    const places = {
      ArrowUp: place - 1, ArrowDown: place + 1, PageUp: place - 10, PageDown: place + 10, Home: 0, End: last,
    };
    const moved = places[event.key];
    if (moved != null) {
      const row = this.order[clamp(moved, 0, last)];
      this.panel.point(this.meaning, this.indices[row]);
      scrollToShow(this.rows[row]);
    } else if (event.key === "Enter" || event.key === " ") {
      this.panel.choose(this.meaning, this.indices[this.order[place]]);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/**
 * Scroll the list, and never the page, until the row is in view.
 * @param {HTMLElement | undefined} row
 */
export function scrollToShow(row) {
  const scroller = row?.closest(".scroller");
  if (!row || !scroller || scroller.scrollHeight <= scroller.clientHeight) return;
  const box = row.getBoundingClientRect(), view = scroller.getBoundingClientRect();
  if (box.top < view.top) scroller.scrollTop -= view.top - box.top + box.height;
  else if (box.bottom > view.bottom) scroller.scrollTop += box.bottom - view.bottom + box.height;
}
