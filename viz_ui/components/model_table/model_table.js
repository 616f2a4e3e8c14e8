// The table of models. A row is made anew only where it changed, so that the keyboard's place on another one is not lost.

import { applyTheme, element, living, unpack } from "../shared/shared.js";

class ModelTable {
  constructor(root) {
    this.root = root;
    this.rows = new Map(); // name -> {node, made}
    this.table = element("table");
    this.head = element("thead");
    this.table.append(this.head);
    root.append(this.table);
    this.observer = new ResizeObserver(() => root.style.setProperty("--seen", `${root.clientWidth - 16}px`));
    this.observer.observe(root);
  }

  tell(act, name) {
    this.send("act", [act, name]);
  }

  end() {
    this.observer.disconnect();
  }

  receive(data) {
    applyTheme(this.root);
    const { columns, rows } = unpack(data).head;
    if (!this.head.childElementCount) this.head.append(this.makeHead(columns));
    const left = new Map();
    rows.forEach((row, place) => {
      const made = JSON.stringify(row);
      let kept = this.rows.get(row.name);
      if (kept?.made !== made) {
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

  /** The cells of a model, and below them, over the whole width, what is said of it. */
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

  makeButton(act, name) {
    const button = element("button", act.primary ? "tool primary" : "tool", act.words);
    button.type = "button";
    button.ariaLabel = `${act.words}: ${name}`;
    button.disabled = act.done;
    button.onclick = () => {
      if (act.sure && !button.classList.contains("sure")) {
        button.classList.add("sure");
        button.textContent = act.sure;
        button.ariaLabel = `${act.sure} ${name}`;
        return;
      }
      this.tell(act.name, name);
    };
    button.onblur = () => {
      button.classList.remove("sure");
      button.textContent = act.words;
      button.ariaLabel = `${act.words}: ${name}`;
    };
    return button;
  }
}

export default living(ModelTable, ".model-table");
