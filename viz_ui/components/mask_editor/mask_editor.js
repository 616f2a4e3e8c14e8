// The mask to draw on: tools, labels that toggle whole rows and columns, and cells. One canvas pixel a cell, enlarged
// by the style sheet; a closed cell is a clear pixel, through which the hatching behind it shows.

import { applyTheme, clamp, element, living, sameList, setText, spreadBits, unpack } from "../shared/shared.js";
import { MaskBits } from "./mask_bits.js";

const CELL_SIZES = [2, 3, 4, 6, 9, 12, 16, 22, 30, 38]; // pixels
const SMALLEST_HIT = 9; // smaller cells are hard to hit, so a long prompt starts at this and scrolls
const LABEL_STEPS = [1, 2, 5, 10, 20, 50, 100];
const STARTS = {
  causal: (row, column) => column <= row,
  bidirectional: () => true,
  none: () => false,
};

class MaskEditor {
  constructor(root) {
    this.root = root;
    this.cursor = { row: 0, column: 0 };
    this.buttons = {};
    this.canvas = element("canvas");
    this.focus = element("div", "cursor");
    this.cells = element("div", "cells hatched");
    this.cells.append(this.canvas, element("div", "lines"), this.focus);
    this.cells.tabIndex = 0;
    this.cells.setAttribute("role", "application");
    this.cells.setAttribute("aria-roledescription", "mask");
    this.rows = element("div", "row-labels");
    this.columns = element("div", "column-labels");
    const sheet = element("div", "sheet");
    sheet.append(this.makeCorner(), this.columns, this.rows, this.cells);
    this.scroller = element("div", "scroller");
    this.scroller.append(sheet);
    this.said = element("div", "said token small");
    this.said.setAttribute("aria-live", "polite");
    root.append(this.makeTools(), this.scroller, this.said);
    this.listen();
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(root);
  }

  makeCorner() {
    const corner = element("div", "corner small");
    corner.append(element("span", "key", "key →"), element("span", "query", "query ↓"));
    return corner;
  }

  makeTools() {
    const tools = element("div", "tools");
    const add = (text, name, act) => {
      const button = element("button", "tool", text);
      button.type = "button";
      button.ariaLabel = button.title = name;
      button.onclick = act;
      this.buttons[text] = button;
      tools.append(button);
    };
    tools.append(element("span", "small", "Start from"));
    for (const [name, open] of Object.entries(STARTS)) {
      add(name, `Start from ${name}`, () => this.change(() => this.bits.fill(open)));
    }
    add("invert", "Invert every cell", () => this.change(() => this.bits.fill((row, column, now) => !now)));
    add("undo", "Undo (Ctrl+Z)", () => this.bits.undo() && this.changed());
    add("redo", "Redo (Ctrl+Y)", () => this.bits.redo() && this.changed());
    add("−", "Smaller cells", () => this.zoom(-1));
    add("+", "Larger cells", () => this.zoom(1));
    return tools;
  }

  tell(cells, stroke) {
    this.send("draw", [cells, stroke]);
  }

  end() {
    this.observer.disconnect();
  }

  receive(data) {
    const { head, bytes } = unpack(data);
    applyTheme(this.root);
    const rows = head.rows.length, columns = head.columns.length, count = rows * columns;
    const cells = spreadBits(bytes(Math.ceil(count / 8)), count);
    this.stroke ??= head.answered;
    const other = rows !== this.bits?.rows || columns !== this.bits?.columns;
    if (other) {
      this.bits = new MaskBits(rows, columns, cells);
      this.size = undefined;
      this.stroke = Math.max(this.stroke, head.answered);
      this.cursor = { row: head.cursor[0], column: head.cursor[1] };
    } else if (head.answered >= this.stroke) { // an answer to an earlier stroke takes nothing back
      this.bits.cells = cells;
    }
    this.open = head.open.match(/\d+/g).map(Number);
    this.root.ariaLabel = `${head.name}, ${rows} queries by ${columns} keys`;
    this.cells.ariaLabel = `${head.name}. Arrow keys move, also onto the labels of rows and columns. `
      + "Space opens or closes a cell, Shift with an arrow key paints, Ctrl+Z undoes.";
    if (other || !sameList([...head.rows, ...head.columns], this.labels)) {
      this.names = { rows: head.rows, columns: head.columns };
      this.labels = [...head.rows, ...head.columns];
      this.layout();
    }
    this.paint();
  }

  /** Cell size by the room there is, once; then as the reader zooms. Labels anew. */
  layout() {
    const width = this.root.clientWidth, { rows, columns } = this.bits ?? {};
    if (!width || !rows) return;
    const room = (width - 104) / columns;
    this.size ??= Math.max(SMALLEST_HIT, CELL_SIZES.findLast((size) => size <= Math.min(room, 30)) ?? 0);
    this.root.style.setProperty("--cell", `${this.size}px`);
    this.root.style.setProperty("--wide", `${this.size * columns}px`);
    this.root.style.setProperty("--high", `${this.size * rows}px`);
    this.root.classList.toggle("fine", this.size < 6);
    const step = LABEL_STEPS.find((n) => n * this.size >= 13) ?? Math.max(rows, columns);
    for (const axis of ["rows", "columns"]) {
      this[axis].replaceChildren(...this.names[axis].flatMap((text, i) => (i % step ? [] : [this.label(text, i)])));
    }
    this.place();
  }

  label(text, i) {
    const node = element("div", "label token", text);
    node.style.setProperty("--at", `${(i + 0.5) * this.size}px`);
    return node;
  }

  paint() {
    const { rows, columns, cells } = this.bits, image = new ImageData(columns, rows);
    cells.forEach((open, i) => { if (open) image.data.set([...this.open, 255], 4 * i); });
    this.canvas.width = columns;
    this.canvas.height = rows;
    this.canvas.getContext("2d").putImageData(image, 0, 0);
    this.canvas.dataset.open = this.bits.count();
    this.buttons.undo.disabled = !this.bits.past.length;
    this.buttons.redo.disabled = !this.bits.future.length;
    this.place();
  }

  /** Show the keyboard's cell; -1 is a label: of a whole row (column -1) or a whole column (row -1). */
  place() {
    const { row, column } = this.cursor, { rows, columns } = this.bits ?? {}, size = this.size;
    if (!size) return;
    Object.assign(this.focus.style, {
      left: `${Math.max(column, 0) * size}px`, width: `${column < 0 ? columns * size : size}px`,
      top: `${Math.max(row, 0) * size}px`, height: `${row < 0 ? rows * size : size}px`,
    });
  }

  say({ row, column }) {
    const { rows, columns } = this.names, open = this.bits.get(row, column) ? "open" : "closed (−∞)";
    const text = row < 0 ? `all queries, key ${columns[column]}`
      : column < 0 ? `query ${rows[row]}, all keys`
      : `query ${rows[row]}, key ${columns[column]}: ${open}`;
    setText(this.said, text);
  }

  listen() {
    const { cells, rows, columns } = this;
    cells.onpointerdown = (event) => this.press(event);
    cells.onpointermove = (event) => this.drag(event);
    cells.onpointerup = cells.onpointercancel = () => this.release();
    cells.onkeydown = (event) => this.key(event);
    cells.onfocus = () => this.say(this.cursor);
    rows.onclick = (event) => this.change(() => this.bits.toggleRow(this.at(event).row));
    columns.onclick = (event) => this.change(() => this.bits.toggleColumn(this.at(event).column));
    this.root.onkeydown = (event) => this.history(event);
  }

  at(event) {
    const box = this.cells.getBoundingClientRect(), { rows, columns } = this.bits;
    return {
      row: clamp(Math.floor((event.clientY - box.top) / this.size), 0, rows - 1),
      column: clamp(Math.floor((event.clientX - box.left) / this.size), 0, columns - 1),
    };
  }

  press(event) {
    if (event.button !== 0) return;
    this.cells.setPointerCapture(event.pointerId);
    this.cells.focus({ preventScroll: true });
    this.cursor = this.at(event);
    this.painted = 1 - this.bits.get(this.cursor.row, this.cursor.column);
    this.bits.remember();
    this.drag(event);
  }

  drag(event) {
    const cell = this.at(event);
    if (this.painted != null) {
      this.bits.setLine(this.cursor, cell, this.painted);
      this.cursor = cell;
      this.paint();
    }
    this.say(cell);
  }

  release() {
    if (this.painted == null) return;
    this.painted = null;
    this.changed();
  }

  change(act) {
    this.bits.remember();
    act();
    this.changed();
  }

  changed() {
    this.paint();
    this.stroke += 1;
    this.tell(this.bits.packed(), this.stroke);
  }

  history(event) {
    const letter = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || !["z", "y"].includes(letter)) return;
    event.preventDefault();
    event.stopPropagation();
    if (letter === "z" && !event.shiftKey ? this.bits.undo() : this.bits.redo()) this.changed();
  }

  key(event) {
    if (event.ctrlKey && event.key.length === 1) return; // undo and redo are the root's
    const { row, column } = this.cursor, { rows, columns } = this.bits;
    const moved = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? rows - 1 : row, columns - 1],
      PageUp: [row - 10, column], PageDown: [row + 10, column],
    }[event.key];
    if (moved) this.moveTo(moved[0], moved[1], event.shiftKey);
    else if (event.key === " " || event.key === "Enter") this.toggle();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  moveTo(row, column, painting) {
    const { rows, columns } = this.bits, from = this.cursor;
    const lowest = (other) => (painting || other < 0 ? 0 : -1); // there is no label of labels
    this.cursor = { row: clamp(row, lowest(column), rows - 1), column: clamp(column, lowest(row), columns - 1) };
    if (painting && from.row >= 0 && from.column >= 0) {
      this.change(() => this.bits.setLine(from, this.cursor, this.bits.get(from.row, from.column)));
    }
    this.place();
    this.keepInView();
    this.say(this.cursor);
  }

  toggle() {
    const { row, column } = this.cursor;
    this.change(() => {
      if (column < 0) this.bits.toggleRow(row);
      else if (row < 0) this.bits.toggleColumn(column);
      else this.bits.set(row, column, 1 - this.bits.get(row, column));
    });
    this.say(this.cursor);
  }

  /** Scrolls the sheet only, never the page. */
  keepInView() {
    const view = this.scroller, { size } = this, { row, column } = this.cursor;
    const room = { x: view.clientWidth - this.cells.offsetLeft, y: view.clientHeight - this.cells.offsetTop };
    view.scrollLeft = clamp(view.scrollLeft, (column + 2) * size - room.x, Math.max(0, (column - 1) * size));
    view.scrollTop = clamp(view.scrollTop, (row + 2) * size - room.y, Math.max(0, (row - 1) * size));
  }

  zoom(by) {
    const at = CELL_SIZES.findLastIndex((size) => size <= this.size);
    this.size = CELL_SIZES[clamp(at + by, 0, CELL_SIZES.length - 1)];
    this.layout();
    this.keepInView();
  }
}

export default living(MaskEditor, ".mask-editor");
