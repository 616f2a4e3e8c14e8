// The matrix of a long text: pooled to what a picture can show, and zoomed by wheel, fingers, keys and buttons down to
// single tokens. What it has of the part that is looked at may be coarser than it could be: then it asks Python.

import { cellNumber, paintPicture, writeNumbers } from "../shared/cells.js";
import { element, iconButton, nameIt, penOf, setText } from "../shared/elements.js";
import { fillHatched, labelStep, pixelRatio, sameList } from "../shared/look.js";
import { counted, formatCount } from "../shared/numbers.js";
import { CELL_FOR_NUMBER, MatrixPanel } from "./matrix_panel.js";
import { asked, fitted, middleOf, moved, showing, whole, zoomed } from "./view_part.js";

const STEP = 2; // a key or button halves or doubles what is seen
const WHEEL = 0.0015; // of a doubling, a pixel that a wheel turns
const QUIET_MS = 200; // after the last move, until Python is asked
const DRAG = 4; // pixels; a click shakes less
const PLUS = "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 1 0 0-9M10.3 10.3 14 14M4.8 7h4.4M7 4.8v4.4";
const MINUS = "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 1 0 0-9M10.3 10.3 14 14M4.8 7h4.4";
const ALL = "M2.5 6V2.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10";

/**
 * A part of the matrix in blocks of `block` × `block` cells, itself a matrix that can be drawn: a label names a block.
 * @typedef {import("../shared/cells.js").Matrix & { row: number, column: number, block: number }} Layer
 */

/** @typedef {import("./panels.js").MatrixItem & { overview: Layer }} LongItem */

export class LongMatrixPanel extends MatrixPanel {
  /** @type {Layer | null} */
  part = null; // finer than the overview, of what was looked at when Python was asked
  /** @type {Map<Layer, HTMLCanvasElement>} */
  pictures = new Map();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;
  /** @type {readonly number[] | null} */
  told = null; // what Python was asked for last
  /** @type {string[] | undefined} */
  labels; // of the text that `seen` is of
  room = 0; // pixels of the longer side
  /** @type {Map<number, { x: number, y: number }>} */
  fingers = new Map();
  dragged = false;
  pooling = element("div", "note small");

  /**
   * @param {import("./panels.js").Panels} host
   * @param {string} name
   */
  constructor(host, name) {
    super(host, name);
    const tools = element("span", "zooming");
    this.closer = iconButton("Zoom in", PLUS, () => this.zoom(1 / STEP));
    this.further = iconButton("Zoom out", MINUS, () => this.zoom(STEP));
    this.all = iconButton("Show the whole text", ALL, () => this.see(whole(this.shape)));
    tools.append(this.closer, this.further, this.all, this.openButton);
    this.node.querySelector("header")?.append(tools);
    this.node.append(this.pooling);
    const { stage } = this;
    stage.classList.add("zoomable");
    stage.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    stage.onclick = (event) => {
      const cell = this.cellAt(event);
      if (cell && !this.dragged) this.pick(cell);
    };
    stage.onpointerdown = (event) => this.onDown(event);
    stage.onpointermove = (event) => this.onMove(event);
    stage.onpointerup = stage.onpointercancel = (event) => this.fingers.delete(event.pointerId);
  }

  get keysInWords() {
    return "Arrow keys move, Enter selects, plus and minus zoom, 0 shows the whole text.";
  }

  get main() {
    return this.overview;
  }

  get overview() {
    return /** @type {LongItem} */ (this.spec).overview;
  }

  /** @param {LongItem} spec */
  update(spec) {
    const isOther = !sameList(spec.rows.labels, this.labels);
    super.update(spec);
    this.part = null;
    this.pictures.clear();
    if (isOther) {
      this.labels = spec.rows.labels;
      this.seen = whole(this.shape);
      this.told = null;
    }
  }

  /**
   * What Python sends of the part that was looked at when it was asked; null: the whole text.
   * @param {Layer | null} part
   * @param {import("./view_part.js").Part} view
   */
  take(part, view) {
    this.part = part;
    const isFirst = this.told === null;
    this.told ??= [view.row, view.column, view.size];
    for (const layer of this.pictures.keys()) if (layer !== this.overview) this.pictures.delete(layer);
    if (isFirst) this.seen = fitted(view, this.shape); // the elements were made anew: the reader zoomed before
    if (this.room) this.redraw();
  }

  /** @param {import("./panels.js").Sizes} sizes */
  sizeCells(sizes) {
    this.room = Math.max(sizes.room, 60);
    this.seen = this.seen.size ? fitted(this.seen, this.shape) : whole(this.shape);
    this.cellWidth = this.cellHeight = this.room / this.seen.size;
  }

  /**
   * Look at another part, and ask Python for its cells when the reader has come to rest.
   * @param {import("./view_part.js").Part} part
   */
  see(part) {
    this.seen = part;
    this.redraw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), QUIET_MS);
  }

  ask() {
    const wanted = asked(this.seen);
    if (sameList(wanted, this.told)) return;
    this.told = wanted;
    this.host.send("look", wanted);
  }

  redraw() {
    this.cellWidth = this.cellHeight = this.room / this.seen.size;
    this.placeParts(parseFloat(this.columnAxis.style.top) || 0);
    this.paint();
    this.host.tooltip.hide();
    this.highlight(this.host.selected, this.host.hovered);
  }

  /**
   * @param {number} factor
   * @param {{ row: number, column: number }} [at] the place that stays where it is
   */
  zoom(factor, at = middleOf(this.seen, this.cursorIfAny())) {
    this.see(zoomed(this.seen, factor, at, this.shape));
  }

  /** The cell pointed at by the keyboard, else the selected one. */
  cursorIfAny() {
    const { hovered, selected } = this.host, { rows, columns } = this.spec;
    if (hovered?.panel === this.name) return { row: hovered.row, column: hovered.column };
    return { row: this.meant(selected, rows), column: this.meant(selected, columns) };
  }

  paint() {
    const { canvas, seen, extent, overview } = this, pen = penOf(canvas);
    pen.imageSmoothingEnabled = false;
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const layers = this.part ? [overview, this.part] : [overview];
    for (const layer of layers) {
      const cell = { x: canvas.width / extent.columns, y: canvas.height / extent.rows };
      const left = (layer.column - seen.column) * cell.x, top = (layer.row - seen.row) * cell.y;
      const width = layer.columns.labels.length * layer.block * cell.x;
      const height = layer.rows.labels.length * layer.block * cell.y;
      pen.save();
      pen.beginPath();
      pen.rect(left, top, width, height);
      pen.clip();
      pen.clearRect(0, 0, canvas.width, canvas.height);
      if (layer.mask) fillHatched(pen, this.host.root, canvas.width, canvas.height);
      pen.drawImage(this.pictureOf(layer), left, top, width, height);
      pen.restore();
    }
    this.writeNumbers(pen);
    this.say();
  }

  /** @param {Layer} layer */
  pictureOf(layer) {
    const known = this.pictures.get(layer);
    if (known) return known;
    const picture = element("canvas");
    paintPicture(picture, layer);
    this.pictures.set(layer, picture);
    return picture;
  }

  /** @param {CanvasRenderingContext2D} pen */
  writeNumbers(pen) {
    const { part, seen, cellWidth, cellHeight } = this, ratio = pixelRatio();
    if (!part || part.block > 1 || Math.min(cellWidth, cellHeight) < CELL_FOR_NUMBER) return;
    if (part.values.length > 4096) return; // the part that is asked for has fewer
    pen.save();
    pen.translate((part.column - seen.column) * cellWidth * ratio, (part.row - seen.row) * cellHeight * ratio);
    writeNumbers(this.canvas, part, { width: cellWidth, height: cellHeight }, this.host.root);
    pen.restore();
  }

  /** What a square stands for, and how to see more. */
  say() {
    const { block } = this.layerAt(this.middle()), [rows, columns] = this.shape, { spec } = this;
    const isWhole = this.seen.size >= Math.max(rows, columns);
    const which = spec.low < 0 ? "the number furthest from 0" : "the largest number";
    const squares = block > 1
      ? `Each square stands for ${block} × ${block} cells and shows ${which} of them. Click it to choose that cell.`
      : `Each square is one ${spec.rows.axis} and one ${spec.columns.axis}.`;
    setText(this.pooling, `${squares} To zoom, press + or −, turn the wheel with Ctrl held, or use two fingers. `
      + (isWhole ? "" : "To move, drag. To see the whole text, press 0."));
    nameIt(this.all, `Show all ${formatCount(rows)} × ${formatCount(columns)} cells`);
    this.all.disabled = this.further.disabled = isWhole;
    this.closer.disabled = this.seen.size <= Math.min(12, Math.max(rows, columns));
    this.stage.classList.toggle("zoomed", !isWhole);
    this.canvas.dataset.block = String(block);
    Object.assign(this.canvas.dataset, { row: this.seen.row, column: this.seen.column });
  }

  middle() {
    const { seen, extent } = this;
    return { row: Math.floor(seen.row + extent.rows / 2), column: Math.floor(seen.column + extent.columns / 2) };
  }

  /**
   * The finest layer that has the cell.
   * @param {{ row: number, column: number }} cell
   */
  layerAt({ row, column }) {
    const { part, overview } = this;
    if (!part || part.block >= overview.block) return overview;
    const [down, right] = [(row - part.row) / part.block, (column - part.column) / part.block];
    const has = down >= 0 && right >= 0 && down < part.rows.labels.length && right < part.columns.labels.length;
    return has ? part : overview;
  }

  /**
   * The first cell of the block below the pointer; beside the cells, the row or column of the label that is nearest.
   * @param {MouseEvent} event
   * @returns {import("./matrix_panel.js").Cell | null}
   */
  cellAt(event) {
    const cell = super.cellAt(event);
    if (cell === null) return null;
    const { row, column } = cell;
    if (row !== null && column !== null) return this.firstOfBlock({ row, column });
    const [rows, columns] = this.shape;
    /**
     * @param {number | null} at
     * @param {number} size
     * @param {number} count
     */
    const labelled = (at, size, count) => {
      const step = labelStep(size, count);
      return at === null ? null : Math.min(Math.round(at / step) * step, count - 1);
    };
    return { row: labelled(row, this.cellHeight, rows), column: labelled(column, this.cellWidth, columns) };
  }

  /** @param {{ row: number, column: number }} cell */
  firstOfBlock(cell) {
    const { row, column, block } = this.layerAt(cell);
    return {
      row: row + Math.floor((cell.row - row) / block) * block,
      column: column + Math.floor((cell.column - column) / block) * block,
    };
  }

  /**
   * A block means no single query and key.
   * @param {import("./matrix_panel.js").Cell} cell
   */
  focus(cell) {
    const focus = super.focus(cell), isBlock = this.blockOf(cell) > 1;
    return isBlock ? { ...focus, query: null, key: null } : focus;
  }

  /**
   * How many rows and columns the square has in which the cell lies; 1 for a label.
   * @param {import("./matrix_panel.js").Cell} cell
   */
  blockOf({ row, column }) {
    return row === null || column === null ? 1 : this.layerAt({ row, column }).block;
  }

  /** @param {"selected" | "hovered"} state */
  span(state) {
    const { hovered } = this.host;
    return state === "hovered" && hovered?.panel === this.name ? this.blockOf(hovered) : 1;
  }

  /**
   * @param {"row" | "column"} axis
   * @param {number} index
   * @param {"selected" | "hovered"} state
   */
  labelOf(axis, index, state) {
    return super.labelOf(axis, index, state) + (this.span(state) > 1 ? " …" : "");
  }

  step() {
    return this.blockOf(this.cursor());
  }

  cursor() {
    const { row, column } = super.cursor();
    return this.firstOfBlock({ row, column });
  }

  /** @param {import("./matrix_panel.js").Cell} cell */
  pick(cell) {
    const block = this.blockOf(cell);
    if (block === 1) super.pick(cell);
    else this.host.send("pick", { panel: this.name, ...cell, block }); // Python knows which of its cells it shows
  }

  /**
   * @param {import("./matrix_panel.js").Cell} cell
   * @returns {string[][]}
   */
  describe({ row, column }) {
    if (row === null || column === null) return super.describe({ row, column });
    const layer = this.layerAt({ row, column }), { rows, columns, block } = layer;
    const [down, right] = [Math.floor((row - layer.row) / block), Math.floor((column - layer.column) / block)];
    const at = down * columns.labels.length + right;
    /** @param {import("../shared/cells.js").Axis} axis */
    const named = (axis) => (block > 1 ? plural(axis.axis) : axis.axis);
    return [
      [`${named(rows)} ${rows.labels[down]}`, rows.index],
      [`${named(columns)} ${columns.labels[right]}`, columns.index],
      [this.numberIn(layer, at, this.cellsOf(layer, row, column)), "number"],
    ];
  }

  /**
   * How many cells of the matrix a block has: those at the end may have fewer.
   * @param {Layer} layer
   * @param {number} row
   * @param {number} column
   */
  cellsOf({ block }, row, column) {
    const [rows, columns] = this.shape;
    return Math.min(block, rows - row) * Math.min(block, columns - column);
  }

  /**
   * @param {Layer} layer
   * @param {number} at
   * @param {number} cells
   */
  numberIn(layer, at, cells) {
    if (layer.mask && !layer.mask[at]) {
      return cells > 1 ? "masked (−∞), all of them" : layer.role === "weights" ? "masked (−∞), so weight 0"
        : "masked (−∞)";
    }
    const which = layer.low < 0 ? "furthest from 0" : "the largest";
    return cells > 1 ? `${cellNumber(layer, at)}, ${which} of ${counted(cells, "cell")}` : cellNumber(layer, at);
  }

  /** @param {{ row: number, column: number }} cell */
  moveTo(cell) {
    const part = showing(this.seen, cell, this.layerAt(cell).block, this.shape);
    if (part.row !== this.seen.row || part.column !== this.seen.column) this.see(part);
    super.moveTo(this.firstOfBlock(cell));
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return super.onKey(event);
    if (event.key === "+" || event.key === "=") this.zoomAtCursor(1 / STEP);
    else if (event.key === "-" || event.key === "−") this.zoomAtCursor(STEP);
    else if (event.key === "0") this.see(whole(this.shape));
    else return super.onKey(event);
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * By the keyboard the cell that is reached comes into view, and stays the one that is reached.
   * @param {number} factor
   */
  zoomAtCursor(factor) {
    const { row, column } = this.cursorIfAny(), cell = { row: row ?? 0, column: column ?? 0 };
    this.seen = showing(this.seen, cell, 1, this.shape);
    this.zoom(factor, { row: cell.row + 0.5, column: cell.column + 0.5 });
    this.see(showing(this.seen, cell, 1, this.shape));
  }

  /** @param {WheelEvent} event */
  onWheel(event) {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    const pixels = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
    this.zoom(2 ** (pixels * WHEEL * 2), this.placeAt(event.clientX, event.clientY));
  }

  /**
   * The row and column at a point of the window, in between of two too.
   * @param {number} x
   * @param {number} y
   */
  placeAt(x, y) {
    const box = this.canvas.getBoundingClientRect();
    return {
      row: this.seen.row + (y - box.top) / this.cellHeight, column: this.seen.column + (x - box.left) / this.cellWidth,
    };
  }

  /** @param {PointerEvent} event */
  onDown(event) {
    if (event.button !== 0) return;
    this.dragged = this.fingers.size > 0; // a second finger makes no click
    this.fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  }

  /** @param {PointerEvent} event */
  onMove(event) {
    if (event.buttons === 0) this.fingers.delete(event.pointerId); // it was let go outside
    const finger = this.fingers.get(event.pointerId), now = { x: event.clientX, y: event.clientY };
    if (!finger) return this.pointAt(event);
    const others = [...this.fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
    const moves = Math.hypot(now.x - finger.x, now.y - finger.y);
    if (!this.dragged && (moves < DRAG || this.seen.size >= Math.max(...this.shape))) return this.pointAt(event);
    this.dragged = true;
    this.fingers.set(event.pointerId, now);
    this.stage.setPointerCapture(event.pointerId);
    if (others.length) this.pinch(others[0], finger, now);
    else {
      const [down, right] = [(finger.y - now.y) / this.cellHeight, (finger.x - now.x) / this.cellWidth];
      this.see(moved(this.seen, down, right, this.shape));
    }
  }

  /**
   * Two fingers: what lies between them stays between them.
   * @param {{ x: number, y: number }} other
   * @param {{ x: number, y: number }} before
   * @param {{ x: number, y: number }} now
   */
  pinch(other, before, now) {
    const apart = Math.hypot(before.x - other.x, before.y - other.y);
    const nowApart = Math.hypot(now.x - other.x, now.y - other.y);
    const middle = this.placeAt((before.x + other.x) / 2, (before.y + other.y) / 2);
    this.seen = moved(this.seen, (before.y - now.y) / 2 / this.cellHeight, (before.x - now.x) / 2 / this.cellWidth,
      this.shape);
    this.zoom(apart / Math.max(nowApart, 1), middle);
  }
}

/** @param {string} noun */
const plural = (noun) => (/[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}s`);
