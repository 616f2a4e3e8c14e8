// One matrix: a canvas of cells, labels and axis names around it, frames above it, a colour bar below.

import { cellNumber, paintCells, valueAt, writeNumbers } from "../shared/cells.js";
import { element, iconButton, nameIt, place, setText } from "../shared/elements.js";
import { clamp, labelStep, paintRamp, sizeCanvas } from "../shared/look.js";
import { formatEnd } from "../shared/numbers.js";
import { whole } from "./view_part.js";

export const LARGEST_CELL = 44; // pixels; beyond that a small matrix looks like a wall
export const CELL_FOR_NUMBER = 36; // cells this large have their number written in them
export const AXIS_NAME = 18; // pixels for the name of an axis
const OPEN = "M6 3H3v10h10v-3M9 3h4v4M13 3 7.5 8.5"; // a window with an arrow that leaves it

/** @typedef {{ row: number | null, column: number | null }} Cell null: the one that is not meant */

export class MatrixPanel {
  /** @type {import("./panels.js").MatrixItem} */
  spec;
  cellWidth = 0;
  cellHeight = 0;
  left = 0; // of the cells, in the stage
  top = 0;
  columnLabel = 0; // pixels that labels of columns take
  /** @type {import("./view_part.js").Part} */
  seen = { row: 0, column: 0, size: 0 }; // of its rows and columns; all of them, except in a matrix of a long text
  canvas = element("canvas", "cells");
  picture = element("canvas"); // one pixel a cell; drawn enlarged onto the visible canvas
  rowAxis = element("div", "axis rows");
  columnAxis = element("div", "axis columns");
  rowLabels = element("div", "labels rows");
  columnLabels = element("div", "labels columns");
  /** @type {Record<string, HTMLElement>} */
  frames = {};
  bar = element("div", "bar");
  ramp = element("canvas", "ramp");
  ends = element("div", "ends small");
  law = element("div", "law small"); // where the colours do not grow evenly with the numbers
  masked = element("div", "masked small");
  zeros = element("div", "zeros small");

  /**
   * @param {import("./panels.js").Panels} host
   * @param {string} name
   */
  constructor(host, name) {
    this.host = host;
    this.name = name;
    this.node = element("section", "panel matrix");
    this.node.dataset.panel = name;
    this.title = element("span", "title");
    this.openButton = iconButton("", OPEN, () => this.host.open(this.name));
    this.openButton.classList.add("open");
    this.caption = element("div", "caption small");
    this.stage = this.makeStage();
    this.legend = this.makeLegend();
    const header = element("header");
    header.append(this.title, this.openButton);
    const scroller = element("div", "scroller");
    scroller.append(this.stage);
    this.node.append(header, this.caption, scroller, this.legend);
  }

  makeStage() {
    const stage = element("div", "stage");
    stage.tabIndex = 0;
    stage.setAttribute("role", "application");
    stage.setAttribute("aria-roledescription", "matrix");
    for (const state of ["selected", "hovered"]) {
      for (const axis of ["row", "column"]) {
        this.frames[`${state} ${axis}`] = element("div", `frame ${state} ${axis}`);
        this.frames[`${state} ${axis} label`] = element("div", `label token ${state} ${axis}`);
      }
    }
    stage.append(this.columnAxis, this.rowAxis, this.rowLabels, this.columnLabels, this.canvas);
    stage.append(...Object.values(this.frames));
    stage.onpointermove = (event) => this.pointAt(event);
    stage.onpointerleave = () => this.host.leave(this.name);
    stage.onclick = (event) => {
      const cell = this.cellAt(event);
      if (cell) this.pick(cell);
    };
    stage.onkeydown = (event) => this.onKey(event);
    stage.onfocus = () => {
      if (stage.matches(":focus-visible")) this.moveTo(this.cursor());
    };
    stage.onblur = () => this.host.leave(this.name);
    return stage;
  }

  makeLegend() {
    const legend = element("div", "legend");
    this.ends.append(element("span", "low"), element("span", "middle"), element("span", "high"));
    this.masked.append(element("span", "swatch hatched"), element("span", "", "masked"));
    this.zeros.append(element("span", "swatch dotted"), element("span", "", "exactly 0"));
    this.bar.append(this.ramp, this.ends, this.law);
    legend.append(this.bar, this.masked, this.zeros);
    return legend;
  }

  /**
   * Take new data: what panels.py described, its labels, values and mask already looked up.
   * @param {import("./panels.js").MatrixItem} spec
   */
  update(spec) {
    this.spec = spec;
    setText(this.title, spec.title);
    this.title.className = `title ${spec.role}`;
    setText(this.caption, spec.caption);
    nameIt(this.openButton, `Open ${spec.title} large, to zoom and save`);
    setText(this.rowAxis, spec.rows.axis);
    setText(this.columnAxis, spec.columns.axis);
    this.rowAxis.className = `axis rows ${spec.rows.index || "stream"}`;
    this.columnAxis.className = `axis columns ${spec.columns.index || "stream"}`;
    const size = `${spec.rows.labels.length} rows by ${spec.columns.labels.length} columns`;
    this.stage.setAttribute("aria-label", `${spec.title}, ${size}. ${this.keysInWords}`);
    this.updateLegend();
  }

  get keysInWords() {
    return "Arrow keys move, Enter selects.";
  }

  /** @returns {import("./view_part.js").Shape} */
  get shape() {
    return [this.spec.rows.labels.length, this.spec.columns.labels.length];
  }

  /**
   * What tells whether anything is masked.
   * @returns {import("../shared/cells.js").Matrix}
   */
  get main() {
    return this.spec;
  }

  /** How many rows and columns are seen. */
  get extent() {
    const [rows, columns] = this.shape;
    return { rows: Math.min(rows, this.seen.size), columns: Math.min(columns, this.seen.size) };
  }

  updateLegend() {
    const { lut, law, nonzero } = this.spec, { mask } = this.main, isBent = law !== undefined && law !== "linear";
    paintRamp(this.ramp, lut);
    const ends = [0, 0.5, 1].map((place) => formatEnd(valueAt(place, this.spec)));
    if (law === "logarithmic" && this.spec.low === 0) ends[0] = `≤ ${ends[0]}`;
    ends.forEach((end, i) => setText(this.ends.children[i], end));
    setText(this.law, isBent ? `${law} scale` : "");
    this.bar.hidden = !this.spec.ramp;
    this.masked.hidden = !mask || mask.every(Boolean);
    this.zeros.hidden = !nonzero || nonzero.every((is, i) => Boolean(is) || (mask !== null && !mask[i]));
  }

  /**
   * Give every part its place.
   * @param {import("./panels.js").Sizes} sizes
   * @param {number} [columnLabel]
   */
  layout(sizes, columnLabel = sizes.columnLabel(this.spec.columns.labels)) {
    const { rows, columns } = this.spec;
    this.sizeCells(sizes);
    this.left = AXIS_NAME + sizes.rowLabel(rows.labels);
    this.columnLabel = columnLabel;
    this.top = AXIS_NAME + columnLabel;
    this.placeParts(this.top - AXIS_NAME - sizes.columnLabel(columns.labels));
  }

  /** @param {import("./panels.js").Sizes} sizes */
  sizeCells(sizes) {
    const { rows, columns } = this.spec, longer = Math.max(...this.shape), tokens = rows.index || columns.index;
    this.seen = whole(this.shape);
    this.cellWidth = columns.index ? sizes.tokenCell : sizes.featureCell(tokens ? columns.labels.length : longer);
    this.cellHeight = rows.index ? sizes.tokenCell : sizes.featureCell(tokens ? rows.labels.length : longer);
  }

  /** @param {number} above pixels over the name of the columns */
  placeParts(above) {
    const { stage, canvas, extent } = this;
    const width = this.cellWidth * extent.columns, height = this.cellHeight * extent.rows;
    stage.style.width = `${this.left + width + 4}px`;
    stage.style.height = `${this.top + height + 4}px`;
    sizeCanvas(canvas, width, height);
    place(canvas, this.left, this.top, width, height);
    place(this.rowAxis, 0, this.top, height, AXIS_NAME); // rotated about its corner by the style sheet
    this.rowAxis.style.top = `${this.top + height}px`;
    place(this.columnAxis, this.left, above, width, AXIS_NAME);
    this.legend.style.marginLeft = `${this.left}px`;
    this.legend.style.maxWidth = `${Math.max(width, 150)}px`; // below its cells: it takes no room of the next panel
    Object.assign(canvas.dataset, { ...extent, cellWidth: this.cellWidth, cellHeight: this.cellHeight });
    this.placeLabels();
  }

  placeLabels() {
    this.rowLabels.replaceChildren(...this.thinned("row"));
    this.columnLabels.replaceChildren(...this.thinned("column"));
  }

  /**
   * Labels of one axis, every n-th where cells are small; a tick then says which row or column is meant.
   * @param {"row" | "column"} axis
   */
  thinned(axis) {
    const { labels } = axis === "row" ? this.spec.rows : this.spec.columns;
    const cell = axis === "row" ? this.cellHeight : this.cellWidth;
    const step = labelStep(cell, labels.length);
    const nodes = [], first = this.seen[axis], end = first + this.extent[`${axis}s`];
    for (let i = Math.ceil((first - 0.5) / step) * step; i + 0.5 <= end; i += step) {
      const node = element("div", "label token", labels[i]);
      node.dataset.index = String(i);
      this.placeLabel(node, axis, i);
      nodes.push(node);
      if (step > 1) nodes.push(this.tick(axis, i));
    }
    return nodes;
  }

  /**
   * @param {HTMLElement} node
   * @param {"row" | "column"} axis
   * @param {number} i
   */
  placeLabel(node, axis, i) {
    const height = 15;
    if (axis === "row") {
      const middle = this.top + (i + 0.5 - this.seen.row) * this.cellHeight;
      place(node, AXIS_NAME, middle - height / 2, this.left - AXIS_NAME - 6, height);
    } else { // written upwards: turned about its lower left corner, which is the left end of the text
      const middle = this.left + (i + 0.5 - this.seen.column) * this.cellWidth;
      place(node, middle + height / 2, this.top - 6 - height, this.top - AXIS_NAME - 6, height);
    }
  }

  /**
   * @param {"row" | "column"} axis
   * @param {number} i
   */
  tick(axis, i) {
    const node = element("div", "tick");
    const middle = i + 0.5 - this.seen[axis];
    if (axis === "row") place(node, this.left - 5, this.top + middle * this.cellHeight - 0.5, 4, 1);
    else place(node, this.left + middle * this.cellWidth - 0.5, this.top - 5, 1, 4);
    return node;
  }

  paint() {
    paintCells(this.canvas, this.picture, this.spec, this.host.root);
    const size = { width: this.cellWidth, height: this.cellHeight };
    if (Math.min(size.width, size.height) < CELL_FOR_NUMBER) return;
    writeNumbers(this.canvas, this.spec, size, this.host.root);
  }

  /**
   * Show what is selected and what is pointed at.
   * @param {import("./panels.js").Selection} selected
   * @param {import("./panels.js").Focus | null} hovered
   */
  highlight(selected, hovered) {
    const own = hovered?.panel === this.name ? hovered : null;
    this.mark("selected", "row", this.meant(selected, this.spec.rows));
    this.mark("selected", "column", this.meant(selected, this.spec.columns));
    this.mark("hovered", "row", own ? own.row : this.meant(hovered, this.spec.rows));
    this.mark("hovered", "column", own ? own.column : this.meant(hovered, this.spec.columns));
    this.makeWay("row", this.rowLabels, this.cellHeight);
    this.makeWay("column", this.columnLabels, this.cellWidth);
  }

  /**
   * Hide the labels that the highlighted ones would cover in part.
   * @param {"row" | "column"} axis
   * @param {HTMLElement} labels
   * @param {number} cell
   */
  makeWay(axis, labels, cell) {
    const shown = ["selected", "hovered"].map((state) => this.frames[`${state} ${axis} label`])
      .filter(({ hidden }) => !hidden).map(({ dataset }) => Number(dataset.index));
    for (const node of /** @type {NodeListOf<HTMLElement>} */ (labels.querySelectorAll(".label"))) {
      const covered = shown.some((index) => Math.abs(index - Number(node.dataset.index)) * cell < 14);
      node.style.visibility = covered ? "hidden" : "";
    }
  }

  /**
   * Which row or column of this axis a focus means, or null.
   * @param {import("./panels.js").Selection | null} focus
   * @param {import("../shared/cells.js").Axis} axis
   * @returns {number | null}
   */
  meant(focus, axis) {
    const index = axis.index ? focus?.[axis.index] : focus?.other?.[axis.axis];
    return index != null && index < axis.labels.length ? index : null;
  }

  /**
   * @param {"selected" | "hovered"} state
   * @param {"row" | "column"} axis
   * @param {number | null} index
   */
  mark(state, axis, index) {
    const frame = this.frames[`${state} ${axis}`], label = this.frames[`${state} ${axis} label`];
    const end = this.seen[axis] + this.extent[`${axis}s`], span = this.span(state);
    const isSeen = index !== null && index + span > this.seen[axis] && index < end;
    frame.hidden = label.hidden = !isSeen;
    if (!isSeen) return;
    const { rows, columns } = this.spec, role = (axis === "row" ? rows : columns).index || "stream";
    const width = this.cellWidth * this.extent.columns, height = this.cellHeight * this.extent.rows;
    frame.dataset.index = label.dataset.index = String(index);
    const cell = axis === "row" ? this.cellHeight : this.cellWidth, first = Math.max(index, this.seen[axis]);
    const from = (first - this.seen[axis]) * cell, size = (Math.min(index + span, end) - first) * cell;
    frame.classList.toggle("thin", size < 10);
    frame.style.setProperty("--hue", `var(--${role})`);
    if (axis === "row") place(frame, this.left, this.top + from, width, size);
    else place(frame, this.left + from, this.top, size, height);
    setText(label, this.labelOf(axis, index, state));
    label.className = `label token ${state} ${axis} ${role}`;
    this.placeLabel(label, axis, index);
  }

  /**
   * What the label beside a frame says.
   * @param {"row" | "column"} axis
   * @param {number} index
   * @param {"selected" | "hovered"} _state
   */
  labelOf(axis, index, _state) {
    return (axis === "row" ? this.spec.rows : this.spec.columns).labels[index];
  }

  /**
   * How many rows and columns a frame is about.
   * @param {"selected" | "hovered"} _state
   */
  span(_state) {
    return 1;
  }

  /**
   * The row and column below the pointer; null for the one that is not meant (on the labels), or nothing.
   * @param {MouseEvent} event
   * @returns {Cell | null}
   */
  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const { rows, columns } = this.extent, right = x / this.cellWidth, down = y / this.cellHeight;
    const cell = {
      row: down >= 0 && down < rows ? Math.floor(down + this.seen.row) : null,
      column: right >= 0 && right < columns ? Math.floor(right + this.seen.column) : null,
    };
    const beside = (cell.row == null && y >= 0) || (cell.column == null && x >= 0);
    return beside || (cell.row == null && cell.column == null) ? null : cell;
  }

  /** @param {Cell} cell */
  pick({ row, column }) {
    this.host.pick(this.name, row, column);
  }

  /** @param {PointerEvent} event */
  pointAt(event) {
    const cell = this.cellAt(event);
    if (!cell) return this.host.leave(this.name);
    this.host.hover(this.focus(cell));
    this.host.tooltip.show(this.describe(cell), event.clientX, event.clientY);
  }

  /**
   * @param {Cell} cell
   * @returns {import("./panels.js").Focus}
   */
  focus({ row, column }) {
    const { rows, columns } = this.spec;
    /** @type {Record<string, number | null>} */
    const other = {};
    /** @type {{ query: number | null, key: number | null }} */
    const meant = { query: null, key: null };
    for (const { axis, index } of [{ axis: rows, index: row }, { axis: columns, index: column }]) {
      if (axis.index) meant[axis.index] = index;
      else other[axis.axis] = index;
    }
    return { panel: this.name, row, column, query: meant.query, key: meant.key, other };
  }

  /**
   * Lines of the tooltip: which row, which column, and the number.
   * @param {Cell} cell
   * @returns {string[][]}
   */
  describe({ row, column }) {
    const { rows, columns } = this.spec, lines = [];
    if (row !== null) lines.push([`${rows.axis} ${rows.labels[row]}`, rows.index || "stream"]);
    if (column !== null) lines.push([`${columns.axis} ${columns.labels[column]}`, columns.index || "stream"]);
    if (row !== null && column !== null) lines.push([this.number(row, column), "number"]);
    return lines;
  }

  /**
   * @param {number} row
   * @param {number} column
   * @returns {string}
   */
  number(row, column) {
    const { columns, mask, role } = this.spec, at = row * columns.labels.length + column;
    if (mask && !mask[at]) return role === "weights" ? "masked (−∞), so weight 0" : "masked (−∞)";
    return cellNumber(this.spec, at);
  }

  /** Where the keyboard is: the cell pointed at, else the selected one, else the first. */
  cursor() {
    const { hovered, selected } = this.host, { rows, columns } = this.spec;
    if (hovered?.panel === this.name) return { row: hovered.row ?? 0, column: hovered.column ?? 0 };
    return { row: this.meant(selected, rows) ?? 0, column: this.meant(selected, columns) ?? 0 };
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const { row, column } = this.cursor();
    const lastRow = this.spec.rows.labels.length - 1, lastColumn = this.spec.columns.labels.length - 1;
    const step = this.step();
    /** @type {Record<string, [row: number, column: number]>} */
    const places = {
      ArrowUp: [row - step, column], ArrowDown: [row + step, column],
      ArrowLeft: [row, column - step], ArrowRight: [row, column + step],
      Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? lastRow : row, lastColumn],
      PageUp: [row - 10 * step, column], PageDown: [row + 10 * step, column],
    };
    const moved = places[event.key];
    if (moved) this.moveTo({ row: clamp(moved[0], 0, lastRow), column: clamp(moved[1], 0, lastColumn) });
    else if (event.key === "Enter" || event.key === " ") this.pick({ row, column });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** How many rows or columns an arrow key goes. */
  step() {
    return 1;
  }

  /** @param {{ row: number, column: number }} cell */
  moveTo(cell) {
    const lines = this.describe(cell), box = this.canvas.getBoundingClientRect();
    this.host.hover(this.focus(cell));
    this.host.announce(`${this.spec.title}: ${lines.map(([text]) => text).join(", ")}`);
    const x = box.left + (cell.column + 1 - this.seen.column) * this.cellWidth;
    const y = box.top + (cell.row + 1 - this.seen.row) * this.cellHeight;
    this.host.tooltip.show(lines, x - 10, y - 10);
  }
}
