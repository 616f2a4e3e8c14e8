// A matrix of words, each on the colour of a number, as a table of buttons: Tab reaches the chosen one, the arrow keys
// walk from there, Enter picks. Labels of rows and columns stay in view while the table scrolls.

import { pixelTable, unpack } from "../shared/blob.js";
import { button, buttonOf, element, focusedIn, iconButton, nameIt, setText, Tooltip } from "../shared/elements.js";
import { applyTheme, clamp, paintRamp } from "../shared/look.js";
import { living } from "../shared/mounting.js";
import { counted, formatEnd, formatNumber } from "../shared/numbers.js";

const OPEN = "M6 3H3v10h10v-3M9 3h4v4M13 3 7.5 8.5"; // a window with an arrow that leaves it
const BRIGHT = 0.179; // luminance above which black is read better than white (WCAG 2.2)
/** @type {Record<string, [down: number, right: number]>} */
const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
  Home: [0, -Infinity], End: [0, Infinity], PageUp: [-10, 0], PageDown: [10, 0] };

/**
 * What word_matrix.py tells.
 * @typedef {object} Header
 * @property {string} title
 * @property {string[][]} words
 * @property {{ axis: string, labels: string[] }} rows
 * @property {{ axis: string, labels: string[] }} columns
 * @property {string[]} kinds what the numbers are; the first ones are the colours
 * @property {number} high
 * @property {number} before columns that are not here
 * @property {number} after
 * @property {[row: number, column: number]} chosen
 * @property {number} highest
 */

class WordMatrix {
  /** @type {import("../shared/mounting.js").Send} */
  send;
  /** @type {Header} */
  header;
  /** @type {Float32Array[]} */
  numbers = [];
  /** @type {Uint8Array | undefined} */
  packed;
  /** @type {HTMLButtonElement[][]} */
  cells = [];
  /** @type {HTMLElement[][]} */
  labels = [[], []]; // of rows and of columns
  wantsFocus = false; // after the arrow keys asked for the columns that come next

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.title = element("span", "title");
    this.turns = [-1, 1].map((step) => button("tool turn", "", () => this.turn(step)));
    this.openButton = iconButton("", OPEN, () => this.send("open", true));
    this.openButton.classList.add("open");
    const header = element("header"), legend = element("div", "legend");
    header.append(this.title, ...this.turns, this.openButton);
    this.scroller = element("div", "scroller");
    this.table = element("table");
    this.table.setAttribute("role", "grid");
    this.scroller.append(this.table);
    this.kind = element("span");
    this.ramp = element("canvas", "ramp");
    this.high = element("span");
    legend.append(this.kind, element("span", "", "0"), this.ramp, this.high);
    root.append(header, this.scroller, legend);
    this.tooltip = new Tooltip(root);
    this.table.onclick = (event) => this.pick(buttonOf(event));
    this.table.onkeydown = (event) => this.move(event);
    this.table.onpointermove = (event) => this.point(buttonOf(event), event.clientX, event.clientY);
    this.table.onpointerleave = () => this.tooltip.hide();
    this.table.addEventListener("focusin", (event) => this.pointByKeyboard(buttonOf(event)));
    this.table.addEventListener("focusout", () => this.tooltip.hide());
  }

  /** @param {Uint8Array} data */
  receive(data) {
    applyTheme(this.root);
    if (data === this.packed) return;
    this.packed = data;
    const { head, floats, bytes } = unpack(data), hadFocus = this.wantsFocus || this.place(focusedIn(this.root));
    this.header = head;
    const count = this.header.rows.labels.length * this.header.columns.labels.length;
    this.numbers = this.header.kinds.map(() => floats(count));
    const lut = pixelTable(bytes(768));
    this.wantsFocus = false;
    this.describe(lut);
    this.build(lut);
    this.choose(...this.header.chosen);
    const [row, column] = this.header.chosen, chosen = this.cells[row][column];
    if (hadFocus) chosen.focus({ preventScroll: true });
    this.bringIntoView(chosen);
  }

  /** @param {Uint32Array} lut */
  describe(lut) {
    const { title, before, after, kinds, high, highest, rows, columns } = this.header;
    setText(this.title, title);
    nameIt(this.openButton, `Open ${title} large, to zoom and save`);
    this.table.ariaLabel = `${title}, ${rows.labels.length} rows by ${columns.labels.length} columns. `
      + "Arrow keys move, Enter selects.";
    const [earlier, later] = [before, after].map((count) => counted(count, columns.axis));
    [[before, `← ${earlier}`], [after, `${later} →`]].forEach(([count, text], i) => {
      setText(this.turns[i], String(text));
      this.turns[i].disabled = !count;
      this.turns[i].hidden = !before && !after;
    });
    this.root.style.setProperty("--highest", `${highest}px`);
    setText(this.kind, `${kinds[0]}:`);
    paintRamp(this.ramp, lut);
    setText(this.high, formatEnd(high));
  }

  /** @param {Uint32Array} lut */
  build(lut) {
    const { words, rows, columns, kinds, high } = this.header, width = columns.labels.length;
    const head = element("thead"), names = element("tr"), body = element("tbody");
    names.append(label("corner", rows.axis, "col"), ...columns.labels.map((text) => label("token", text, "col")));
    head.append(names);
    this.labels = [[], [.../** @type {HTMLCollectionOf<HTMLElement>} */ (names.children)].slice(1)];
    this.cells = words.map((own, row) => {
      const line = element("tr"), name = label("", rows.labels[row], "row");
      this.labels[0].push(name);
      line.append(name);
      const buttons = own.map((word, column) => {
        const cell = element("td"), value = this.numbers[0][row * width + column], node = button("token", word);
        paint(node, value / high, lut);
        node.dataset.row = String(row);
        node.dataset.column = String(column);
        node.ariaLabel = `${rows.labels[row]}, ${columns.axis} ${columns.labels[column]}: ${word}, ${kinds[0]} `
          + formatNumber(value);
        cell.append(node);
        line.append(cell);
        return node;
      });
      body.append(line);
      return buttons;
    });
    this.table.replaceChildren(head, body);
  }

  /**
   * Frame a cell, and let Tab lead to it.
   * @param {number} chosenRow
   * @param {number} chosenColumn
   */
  choose(chosenRow, chosenColumn) {
    this.header.chosen = [chosenRow, chosenColumn];
    this.labels.forEach((names, axis) => names.forEach((name, at) =>
      name.classList.toggle("chosen", at === this.header.chosen[axis])));
    this.cells.forEach((buttons, row) => buttons.forEach((node, column) => {
      const isChosen = row === chosenRow && column === chosenColumn;
      node.parentElement?.setAttribute("aria-selected", String(isChosen));
      node.tabIndex = isChosen ? 0 : -1;
    }));
  }

  /**
   * @param {HTMLElement | null} node
   * @returns {[row: number, column: number] | null}
   */
  place(node) {
    return node?.dataset.row === undefined ? null : [Number(node.dataset.row), Number(node.dataset.column)];
  }

  /** @param {HTMLButtonElement | null} pressed */
  pick(pressed) {
    const place = this.place(pressed);
    if (!place) return;
    this.choose(...place);
    this.send("pick", place);
  }

  /** @param {number} step −1 or 1 */
  turn(step) {
    this.send("turn", step);
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    const place = this.place(buttonOf(event)), step = MOVES[event.key];
    if (!place || !step || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const { rows, columns, before, after } = this.header, [row, column] = place;
    const wanted = column + step[1], last = columns.labels.length - 1;
    if ((wanted === -1 && before) || (wanted === last + 1 && after)) {
      this.wantsFocus = true;
      return this.turn(step[1]);
    }
    const next = this.cells[clamp(row + step[0], 0, rows.labels.length - 1)][clamp(wanted, 0, last)];
    next.focus({ preventScroll: true });
    this.bringIntoView(next);
    this.pointByKeyboard(next);
  }

  /** @param {HTMLElement} node */
  bringIntoView(node) {
    const box = node.getBoundingClientRect(), view = this.scroller.getBoundingClientRect();
    const left = view.left + this.labels[0][0].offsetWidth, top = view.top + this.labels[1][0].offsetHeight;
    if (box.left < left) this.scroller.scrollLeft -= left - box.left + 8;
    if (box.right > view.right) this.scroller.scrollLeft += box.right - view.right + 8;
    if (box.top < top) this.scroller.scrollTop -= top - box.top + 4;
    if (box.bottom > view.bottom) this.scroller.scrollTop += box.bottom - view.bottom + 4;
  }

  /**
   * @param {HTMLElement | null} node
   * @param {number} x
   * @param {number} y
   */
  point(node, x, y) {
    const place = this.place(node);
    if (!place) return this.tooltip.hide();
    const { words, rows, columns, kinds } = this.header, [row, column] = place;
    const at = row * columns.labels.length + column;
    this.tooltip.show([
      [rows.labels[row], "stream"],
      [`${columns.axis} ${columns.labels[column]}`, "query"],
      [words[row][column], "number"],
      ...kinds.map((kind, i) => [`${kind}: ${formatNumber(this.numbers[i][at])}`, ""]),
    ], x, y);
  }

  /** @param {HTMLElement | null} node */
  pointByKeyboard(node) {
    if (!node?.matches(":focus-visible")) return;
    const box = node.getBoundingClientRect();
    this.point(node, box.right - 10, box.bottom - 10);
  }
}

/**
 * @param {string} className
 * @param {string} text
 * @param {"row" | "col"} scope
 */
function label(className, text, scope) {
  const node = element("th", className, text);
  node.scope = scope;
  node.title = text;
  return node;
}

/**
 * Give a cell the colour of its number, and black or white letters, whichever can be read on it.
 * @param {HTMLElement} node
 * @param {number} share of the colour scale
 * @param {Uint32Array} lut
 */
export function paint(node, share, lut) {
  if (!Number.isFinite(share)) {
    node.classList.add("hatched", "nothing");
    return;
  }
  const colour = lut[clamp(Math.floor(share * 255 + 0.5), 0, 255)];
  const parts = [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
  const [red, green, blue] = parts.map((part) => {
    const linear = part / 255;
    return linear <= 0.04045 ? linear / 12.92 : ((linear + 0.055) / 1.055) ** 2.4;
  });
  node.style.background = `rgb(${parts.join(" ")})`;
  node.style.color = 0.2126 * red + 0.7152 * green + 0.0722 * blue > BRIGHT ? "#000" : "#fff";
}

export default living(WordMatrix, ".word-matrix");
