// The table of models. A row is made anew only where it changed, so that the keyboard keeps its place on another one.

import { unpack } from "../shared/blob.js";
import { button, element } from "../shared/elements.js";
import { applyTheme } from "../shared/look.js";
import { living } from "../shared/mounting.js";

/** @typedef {{ name: string, words: string, primary: boolean, done: boolean, sure: string }} Act what can be done */
/** @typedef {{ name: string, state: string, about: string, chosen: boolean, cells: string[], acts: Act[] }} Row */
/** @typedef {[head: string, meaning: string]} Column */

class ModelTable {
  /** @type {import("../shared/mounting.js").Send} */
  send;
  /** @type {Map<string, { node: HTMLTableSectionElement, made: string }>} */
  rows = new Map(); // by the model's name, and of what they were made

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.table = element("table");
    this.head = element("thead");
    this.table.append(this.head);
    root.append(this.table);
    this.observer = new ResizeObserver(() => root.style.setProperty("--seen", `${root.clientWidth - 16}px`));
    this.observer.observe(root);
  }

  /**
   * @param {string} act
   * @param {string} name
   */
  tell(act, name) {
    this.send("act", [act, name]);
  }

  end() {
    this.observer.disconnect();
  }

  /** @param {Uint8Array} data */
  receive(data) {
    applyTheme(this.root);
    /** @type {{ columns: Column[], rows: Row[] }} */
    const { columns, rows } = unpack(data).head;
    if (!this.head.childElementCount) this.head.append(this.makeHead(columns));
    /** @type {typeof this.rows} */
    const left = new Map();
    rows.forEach((row, place) => {
      const made = JSON.stringify(row);
      let kept = this.rows.get(row.name);
      if (!kept || kept.made !== made) {
        kept?.node.remove();
        kept = { node: this.makeRow(row, columns), made };
      }
      const there = this.table.tBodies[place] ?? null;
      if (there !== kept.node) this.table.insertBefore(kept.node, there);
      left.set(row.name, kept);
    });
    for (const [name, { node }] of this.rows) if (!left.has(name)) node.remove();
    this.rows = left;
  }

  /** @param {Column[]} columns */
  makeHead(columns) {
    const row = element("tr");
    for (const [head, meaning] of [["Model", ""], ["State", ""], ...columns]) {
      const cell = element("th", "", head);
      cell.scope = "col";
      cell.title = meaning;
      row.append(cell);
    }
    return row;
  }

  /**
   * The cells of a model, and below them, over the whole width, what is said of it.
   * @param {Row} row
   * @param {Column[]} columns
   */
  makeRow(row, columns) {
    const node = element("tbody", row.chosen ? "chosen" : ""), line = element("tr"), below = element("tr");
    if (row.chosen) node.ariaCurrent = "true";
    const name = element("th", "name", row.name);
    name.scope = "row";
    name.title = row.name;
    const about = element("td", "about");
    about.colSpan = columns.length + 2;
    about.append(element("div", "", row.about));
    below.append(about);
    const acts = element("div", "acts");
    acts.append(element("span", "state", row.state));
    acts.append(...row.acts.map((act) => this.makeButton(act, row.name)));
    const state = element("td");
    state.append(acts);
    line.append(name, state);
    row.cells.forEach((text, place) => {
      const cell = element("td", "", text);
      cell.title = columns[place][1];
      line.append(cell);
    });
    node.append(line, below);
    return node;
  }

  /**
   * @param {Act} act
   * @param {string} name
   */
  makeButton(act, name) {
    const node = button(act.primary ? "tool primary" : "tool", act.words, () => {
      if (act.sure && !node.classList.contains("sure")) {
        node.classList.add("sure");
        node.textContent = act.sure;
        node.ariaLabel = `${act.sure} ${name}`;
        return;
      }
      this.tell(act.name, name);
    });
    node.ariaLabel = `${act.words}: ${name}`;
    node.disabled = act.done;
    node.onblur = () => {
      node.classList.remove("sure");
      node.textContent = act.words;
      node.ariaLabel = `${act.words}: ${name}`;
    };
    return node;
  }
}

export default living(ModelTable, ".model-table");
