// A column of tokens that the pointer and the keyboard reach: the two sides of the lines, the rows of the bars.

import { clamp, element, sameList } from "../shared/shared.js";

export class TokenList {
  /** `meaning` is "query" or "key"; `fill(node, i)` may add to the node of a token. */
  constructor(panel, meaning, fill = () => {}) {
    this.panel = panel;
    this.meaning = meaning;
    this.fill = fill;
    this.node = element("div", `tokens ${meaning}-side`);
    this.node.tabIndex = 0;
    this.node.setAttribute("role", "listbox");
    this.rows = [];
    this.order = [];
    const indexOf = (event) => event.target.closest("[data-index]")?.dataset.index;
    this.node.onpointermove = (event) => {
      const index = indexOf(event);
      if (index != null) panel.point(meaning, Number(index), event);
    };
    this.node.onpointerleave = () => panel.host.leave(panel.name);
    this.node.onclick = (event) => {
      const index = indexOf(event);
      if (index != null) panel.choose(meaning, Number(index));
    };
    this.node.onkeydown = (event) => this.onKey(event);
    this.node.onblur = () => panel.host.leave(panel.name);
  }

  /** Rows are built again only when the labels are others. */
  setLabels(labels, axis, name) {
    this.node.setAttribute("aria-label", name);
    if (sameList(labels, this.labels)) return;
    this.labels = labels;
    this.order = labels.map((_, i) => i);
    this.rows = labels.map((label, i) => {
      const row = element("div", "row");
      row.dataset.index = i;
      row.id = `${this.panel.name}-${this.meaning}-${i}`;
      row.setAttribute("role", "option");
      const text = element("span", "token", label);
      text.title = `${axis} ${label}`;
      row.append(text);
      this.fill(row, i);
      return row;
    });
    this.node.replaceChildren(...this.rows);
  }

  setOrder(order) {
    if (sameList(order, this.order)) return;
    this.order = order;
    this.node.replaceChildren(...order.map((i) => this.rows[i]));
  }

  mark(selected, hovered) {
    this.rows.forEach((row, i) => {
      row.classList.toggle("selected", i === selected);
      row.classList.toggle("hovered", i === hovered);
      row.setAttribute("aria-selected", String(i === selected));
    });
    const active = hovered ?? selected;
    if (active == null) this.node.removeAttribute("aria-activedescendant");
    else this.node.setAttribute("aria-activedescendant", this.rows[active]?.id);
  }

  onKey(event) {
    const { hovered, selected } = this.panel.host;
    const place = this.order.indexOf(hovered?.[this.meaning] ?? selected[this.meaning] ?? this.order[0]);
    const last = this.order.length - 1;
    const moved = {
      ArrowUp: place - 1, ArrowDown: place + 1, PageUp: place - 10, PageDown: place + 10, Home: 0, End: last,
    }[event.key];
    if (moved != null) {
      const index = this.order[clamp(moved, 0, last)];
      this.panel.point(this.meaning, index);
      scrollToShow(this.rows[index]);
    } else if (event.key === "Enter" || event.key === " ") this.panel.choose(this.meaning, this.order[place]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/** Scroll the list, and never the page, until the row is in view. */
export function scrollToShow(row) {
  const scroller = row?.closest(".scroller");
  if (!scroller || scroller.scrollHeight <= scroller.clientHeight) return;
  const box = row.getBoundingClientRect(), view = scroller.getBoundingClientRect();
  if (box.top < view.top) scroller.scrollTop -= view.top - box.top + box.height;
  else if (box.bottom > view.bottom) scroller.scrollTop += box.bottom - view.bottom + box.height;
}
