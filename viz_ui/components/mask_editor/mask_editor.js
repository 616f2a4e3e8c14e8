// The mask to draw on: tools, labels that toggle whole rows and columns, and cells. One canvas pixel a cell, enlarged
// by the style sheet; a closed cell is a clear pixel, through which the hatching behind it shows.

import { spreadBits, unpack } from "../shared/blob.js";
import { button, element, nameIt, penOf, place, setText } from "../shared/elements.js";
import { applyTheme, clamp, labelStep, sameList } from "../shared/look.js";
import { living } from "../shared/mounting.js";
import { MaskBits } from "./mask_bits.js";

const CELL_SIZES = [2, 3, 4, 6, 9, 12, 16, 22, 30, 38]; // pixels
const SMALLEST_HIT = 9; // smaller cells are hard to hit, so a long prompt starts at this and scrolls
/** @type {Record<string, (row: number, column: number) => boolean>} */
const STARTS = {
  causal: (row, column) => column <= row,
  bidirectional: () => true,
  none: () => false,
};

/** @typedef {import("./mask_bits.js").Cell} Cell */

class MaskEditor {
  /** @type {import("../shared/mounting.js").Send} */
  send;
  /** @type {MaskBits} */
  bits;
  /** @type {Cell} */
  cursor = { row: 0, column: 0 }; // the keyboard's; -1 is a label
  /** @type {[string, string]} */
  states = ["", ""]; // what an open and a closed cell are called
  /** @type {number | undefined} */
  size; // pixels of a cell
  /** @type {{ rows: string[], columns: string[] }} */
  names;
  /** @type {string[] | undefined} */
  labels; // of both sides
  /** @type {number | undefined} */
  stroke; // strokes that were told
  /** @type {number | null} */
  painted = null; // what the pointer paints; null where it is up
  /** @type {number[]} */
  open = []; // red, green, blue of an open cell
  /** @type {Record<string, HTMLButtonElement>} */
  buttons = {};

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
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
    /**
     * @param {string} text
     * @param {string} name
     * @param {() => void} act
     */
    const add = (text, name, act) => {
      const node = (this.buttons[text] = button("tool", text, act));
      nameIt(node, name);
      tools.append(node);
    };
    tools.append(element("span", "small", "Start from"));
    for (const [name, open] of Object.entries(STARTS)) {
      add(name, `Start from ${name}`, () => this.change(() => this.bits.fill(open)));
    }
    add("invert", "Invert every cell", () => this.change(() => this.bits.fill((row, column, now) => !now)));
    add("undo", "Undo (Ctrl+Z)", () => this.changed(this.bits.undo()));
    add("redo", "Redo (Ctrl+Y)", () => this.changed(this.bits.redo()));
    add("−", "Smaller cells", () => this.zoom(-1));
    add("+", "Larger cells", () => this.zoom(1));
    return tools;
  }

  /**
   * @param {string} cells
   * @param {number} stroke its number
   */
  tell(cells, stroke) {
    this.send("draw", [cells, stroke]);
  }

  end() {
    this.observer.disconnect();
  }

  /** @param {Uint8Array} data */
  receive(data) {
    const { head, bytes } = unpack(data);
    applyTheme(this.root);
    const rows = head.rows.length, columns = head.columns.length, count = rows * columns;
    const cells = spreadBits(bytes(Math.ceil(count / 8)), count);
    const stroke = this.stroke ?? head.answered;
    this.stroke = stroke;
    const other = rows !== this.bits?.rows || columns !== this.bits?.columns;
    if (other) {
      this.bits = new MaskBits(rows, columns, cells);
      this.size = undefined;
      this.stroke = Math.max(stroke, head.answered);
      this.cursor = { row: head.cursor[0], column: head.cursor[1] };
    } else if (head.answered >= stroke) { // an answer to an earlier stroke takes nothing back
      this.bits.cells = cells;
    }
    this.open = head.open.match(/\d+/g).map(Number);
    this.states = head.states;
    this.root.ariaLabel = `${head.name}, ${rows} queries by ${columns} keys`;
    this.cells.ariaLabel = `${head.name}. Arrow keys move, also onto the labels of rows and columns. `
      + "Space changes a cell, Shift with an arrow key paints, Ctrl+Z undoes.";
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
    const size = this.size ?? Math.max(SMALLEST_HIT, CELL_SIZES.findLast((one) => one <= Math.min(room, 30)) ?? 0);
    this.size = size;
    this.root.style.setProperty("--cell", `${size}px`);
    this.root.style.setProperty("--wide", `${size * columns}px`);
    this.root.style.setProperty("--high", `${size * rows}px`);
    this.root.classList.toggle("fine", size < 6);
    const step = labelStep(size, Math.max(rows, columns));
    /** @param {string[]} names */
    const labels = (names) => names.flatMap((text, i) => (i % step ? [] : [this.label(text, (i + 0.5) * size)]));
    this.rows.replaceChildren(...labels(this.names.rows));
    this.columns.replaceChildren(...labels(this.names.columns));
    this.place();
  }

  /**
   * @param {string} text
   * @param {number} at pixels
   */
  label(text, at) {
    const node = element("div", "label token", text);
    node.style.setProperty("--at", `${at}px`);
    return node;
  }

  paint() {
    const { rows, columns, cells } = this.bits, image = new ImageData(columns, rows);
    cells.forEach((open, i) => { if (open) image.data.set([...this.open, 255], 4 * i); });
    this.canvas.width = columns;
    this.canvas.height = rows;
    penOf(this.canvas).putImageData(image, 0, 0);
    this.canvas.dataset.open = String(this.bits.count());
    this.buttons.undo.disabled = !this.bits.past.length;
    this.buttons.redo.disabled = !this.bits.future.length;
    this.place();
  }

  /** Show the keyboard's cell; -1 is a label: of a whole row (column -1) or a whole column (row -1). */
  place() {
    const { row, column } = this.cursor, { rows, columns } = this.bits ?? {}, size = this.size;
    if (!size) return;
    const width = column < 0 ? columns * size : size, height = row < 0 ? rows * size : size;
    place(this.focus, Math.max(column, 0) * size, Math.max(row, 0) * size, width, height);
  }

  /** @param {Cell} cell */
  say({ row, column }) {
    const { rows, columns } = this.names, state = this.states[this.bits.get(row, column) ? 0 : 1];
    const text = row < 0 ? `all queries, key ${columns[column]}`
      : column < 0 ? `query ${rows[row]}, all keys`
      : `query ${rows[row]}, key ${columns[column]}: ${state}`;
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

  /**
   * The cell below the pointer.
   * @param {MouseEvent} event
   * @returns {Cell}
   */
  at(event) {
    const box = this.cells.getBoundingClientRect(), { rows, columns } = this.bits, size = this.size ?? SMALLEST_HIT;
    return {
      row: clamp(Math.floor((event.clientY - box.top) / size), 0, rows - 1),
      column: clamp(Math.floor((event.clientX - box.left) / size), 0, columns - 1),
    };
  }

  /** @param {PointerEvent} event */
  press(event) {
    if (event.button !== 0) return;
    this.cells.setPointerCapture(event.pointerId);
    this.cells.focus({ preventScroll: true });
    this.cursor = this.at(event);
    this.painted = 1 - this.bits.get(this.cursor.row, this.cursor.column);
    this.bits.remember();
    this.drag(event);
  }

  /** @param {PointerEvent} event */
  drag(event) {
    const cell = this.at(event);
    if (this.painted !== null) {
      this.bits.setLine(this.cursor, cell, this.painted);
      this.cursor = cell;
      this.paint();
    }
    this.say(cell);
  }

  release() {
    if (this.painted === null) return;
    this.painted = null;
    this.changed();
  }

  /** @param {() => void} act */
  change(act) {
    this.bits.remember();
    act();
    this.changed();
  }

  /** @param {boolean} [really] */
  changed(really = true) {
    if (!really) return;
    this.paint();
    this.stroke = (this.stroke ?? 0) + 1;
    this.tell(this.bits.packed(), this.stroke);
  }

  /** @param {KeyboardEvent} event */
  history(event) {
    const letter = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || !["z", "y"].includes(letter)) return;
    event.preventDefault();
    event.stopPropagation();
    this.changed(letter === "z" && !event.shiftKey ? this.bits.undo() : this.bits.redo());
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey && event.key.length === 1) return; // undo and redo are the root's
    const { row, column } = this.cursor, { rows, columns } = this.bits;
    /** @type {Record<string, [row: number, column: number]>} */
    const places = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? rows - 1 : row, columns - 1],
      PageUp: [row - 10, column], PageDown: [row + 10, column],
    };
    const moved = places[event.key];
    if (moved) this.moveTo(moved[0], moved[1], event.shiftKey);
    else if (event.key === " " || event.key === "Enter") this.toggle();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * @param {number} row
   * @param {number} column
   * @param {boolean} painting
   */
  moveTo(row, column, painting) {
    const { rows, columns } = this.bits, from = this.cursor;
    const lowest = (/** @type {number} */ other) => (painting || other < 0 ? 0 : -1); // there is no label of labels
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
    const view = this.scroller, size = this.size ?? SMALLEST_HIT, { row, column } = this.cursor;
    const room = { x: view.clientWidth - this.cells.offsetLeft, y: view.clientHeight - this.cells.offsetTop };
    view.scrollLeft = clamp(view.scrollLeft, (column + 2) * size - room.x, Math.max(0, (column - 1) * size));
    view.scrollTop = clamp(view.scrollTop, (row + 2) * size - room.y, Math.max(0, (row - 1) * size));
  }

  /** @param {number} by how many sizes */
  zoom(by) {
    const now = this.size ?? SMALLEST_HIT, at = CELL_SIZES.findLastIndex((size) => size <= now);
    this.size = CELL_SIZES[clamp(at + by, 0, CELL_SIZES.length - 1)];
    this.layout();
    this.keepInView();
  }
}

export default living(MaskEditor, ".mask-editor");
