// The arithmetic of the current tile, a line for each query: scores and maximum, exponentials and sum, output.

import { cellNumber, paintCells, writeNumbers } from "../shared/cells.js";
import { element, penOf, setText } from "../shared/elements.js";
import { clamp, labelStep, sizeCanvas, TEXT_HEIGHT } from "../shared/look.js";
import { formatNumber } from "../shared/numbers.js";
import { withPower } from "./tile_map.js";

const ELSEWHERE = 520; // pixels of a window's height that the rows of the three lines leave to all else
const LINE_HEIGHT = [66, 130]; // pixels for the rows of one line, in low windows and in high ones
const THIN_LINE = 14; // pixels of a number beside a row that is less high
const NUMBER_WIDTH = 64;

/**
 * One quantity of the tile: a column of numbers, or a matrix where it has a canvas.
 * @typedef {object} Block
 * @property {string} name
 * @property {HTMLElement} node
 * @property {HTMLElement} title
 * @property {HTMLElement} body
 * @property {MatrixBlock | null} matrix
 */

/**
 * What a matrix has beside a column of numbers.
 * @typedef {object} MatrixBlock
 * @property {boolean} ofTile whether its columns are the tile's keys; otherwise features
 * @property {HTMLCanvasElement} canvas
 * @property {HTMLCanvasElement} picture one pixel a cell
 * @property {HTMLElement | null} labels of its columns
 * @property {number} cell pixels of a column
 * @property {import("../shared/cells.js").Matrix | null} spec
 */

/** @typedef {{ node: HTMLElement, labels: HTMLElement, band: HTMLElement, blocks: Block[] }} Line */

export class Ledger {
  /** @type {Block[]} */
  blocks = [];
  rowHeight = 0; // pixels

  /** @param {import("./tiles.js").Tiles} host */
  constructor(host) {
    this.host = host;
    this.node = element("section", "ledger");
    this.lines = [
      this.line(
        this.matrix("scores", ["S"], "scores", true), this.numbers("before.maximum", ["m"], "scores"),
        this.numbers("maximum", ["m′"], "scores"), this.numbers("rescaling", ["e", "m−m′"], ""),
      ),
      this.line(
        this.matrix("exponentials", ["e", "S−m′"], "weights"), this.numbers("before.total", ["l"], "weights"),
        this.numbers("total", ["l′"], "weights"),
      ),
      this.line(this.matrix("before.output", ["O"], "value"), this.matrix("output", ["O′"], "value"),
        this.matrix("mixed", ["O′ / l′"], "value")),
    ];
    this.worked = element("p", "worked");
    this.worked.setAttribute("aria-live", "polite");
    this.node.append(...this.lines.map(({ node }) => node), this.worked);
  }

  /**
   * @param {Block[]} blocks
   * @returns {Line}
   */
  line(...blocks) {
    const node = element("div", "line"), labels = element("div", "row-labels"), band = element("div", "band");
    node.append(labels, ...blocks.map((block) => block.node), band);
    node.onpointerleave = () => this.host.tooltip.hide();
    return { node, labels, band, blocks };
  }

  /**
   * @param {string} name
   * @param {string[]} title a text and the power behind it
   * @param {string} role
   * @param {boolean} [labelled]
   * @returns {Block}
   */
  matrix(name, title, role, labelled = false) {
    const block = this.block(name, title, role), canvas = block.body.appendChild(element("canvas", "cells"));
    const labels = labelled ? element("div", "key-labels") : null, picture = element("canvas");
    const ofTile = name === "scores" || name === "exponentials";
    const matrix = (block.matrix = { ofTile, canvas, picture, labels, cell: 1, spec: null });
    canvas.onpointermove = (event) => this.pointAt(block, matrix, event);
    canvas.onclick = (event) => {
      const cell = this.cellAt(matrix, event);
      if (cell) this.host.choose(this.host.now.top + cell.row);
    };
    if (labels) block.node.insertBefore(labels, block.body);
    return block;
  }

  /**
   * @param {string} name
   * @param {string[]} title a text and the power behind it
   * @param {string} role
   * @returns {Block}
   */
  numbers(name, title, role) {
    const block = this.block(name, title, role);
    block.body.classList.add("numbers");
    block.body.style.width = `${NUMBER_WIDTH}px`;
    return block;
  }

  /**
   * @param {string} name
   * @param {string[]} words a text and the power behind it
   * @param {string} role
   * @returns {Block}
   */
  block(name, words, role) {
    const node = element("div", "block"), body = element("div", "body");
    const title = withPower("div", `title ${role}`, words);
    node.dataset.block = name;
    node.append(title, body);
    /** @type {Block} */
    const block = { name, node, title, body, matrix: null };
    this.blocks.push(block);
    return block;
  }

  /**
   * The numbers of a block in the current tile.
   * @param {string} name
   * @returns {Float32Array}
   */
  values(name) {
    return name.split(".").reduce((/** @type {any} */ part, key) => part[key], this.host.now);
  }

  /** Sizes for the current tile, which the last ones of a side may have smaller. */
  layout() {
    const { now, head, width } = this.host, pen = penOf(element("canvas"));
    pen.font = `700 12px ${getComputedStyle(this.host.root).fontFamily}`;
    const labels = head.queries.slice(now.top, now.top + now.rows);
    const labelWidth = Math.min(110, Math.ceil(Math.max(...labels.map((text) => pen.measureText(text).width))) + 16);
    const room = Math.min(width ?? Infinity, this.node.clientWidth) - labelWidth;
    const lineHeight = clamp((window.innerHeight - ELSEWHERE) / 3, LINE_HEIGHT[0], LINE_HEIGHT[1]);
    this.rowHeight = clamp(Math.floor(lineHeight / now.rows), 3, 24);
    const tile = clamp((room - 3 * (NUMBER_WIDTH + 8) - 24) / now.columns, 0.5, 44);
    const feature = clamp((room - 3 * 14) / 3 / head.width, 0.5, 6);
    for (const { node, labels: side, blocks } of this.lines) {
      side.style.width = `${labelWidth}px`;
      node.style.setProperty("--row", `${this.rowHeight}px`);
      for (const { matrix } of blocks) if (matrix) this.size(matrix, matrix.ofTile ? tile : feature);
    }
  }

  /**
   * Labels of the rows: the chosen one, and every n-th where rows are thin, as far as that leaves them room.
   * @param {HTMLElement} side
   * @param {string[]} labels
   */
  label(side, labels) {
    const { row } = this.host, step = labelStep(this.rowHeight, labels.length);
    side.style.height = `${this.rowHeight * labels.length}px`;
    side.replaceChildren(...labels.flatMap((text, i) => {
      if (i !== row && (i % step || Math.abs(i - row) * this.rowHeight < TEXT_HEIGHT)) return [];
      const node = element("div", `token query ${i === row ? "chosen" : ""}`, text);
      node.style.top = `${(i + 0.5) * this.rowHeight - 8}px`;
      return [node];
    }));
  }

  /**
   * @param {MatrixBlock} matrix
   * @param {number} cell pixels of a column
   */
  size(matrix, cell) {
    const { now, head } = this.host, columns = matrix.ofTile ? now.columns : head.width;
    const width = cell * columns, height = this.rowHeight * now.rows;
    matrix.cell = cell;
    Object.assign(matrix.canvas.style, { width: `${width}px`, height: `${height}px` });
    sizeCanvas(matrix.canvas, width, height);
    if (!matrix.labels) return;
    const step = labelStep(cell, columns);
    matrix.labels.replaceChildren(...head.keys.slice(now.left, now.left + columns).flatMap((text, i) => {
      if (i % step) return [];
      const node = element("div", "token key", text);
      node.style.left = `${(i + 0.5) * cell + 8}px`;
      return [node];
    }));
  }

  show() {
    const { now, head } = this.host, rows = head.queries.slice(now.top, now.top + now.rows);
    const keys = head.keys.slice(now.left, now.left + now.columns);
    const features = Array.from({ length: head.width }, (_, d) => `${d}`);
    for (const block of this.blocks) {
      const { name, matrix } = block;
      if (!matrix) {
        this.write(block);
        continue;
      }
      const scale = name === "before.output" ? "output" : name, mask = matrix.ofTile ? now.mask : null;
      const spec = this.host.spec(scale, this.values(name), mask, rows, matrix.ofTile ? keys : features);
      matrix.spec = spec;
      paintCells(matrix.canvas, matrix.picture, spec, this.host.root);
      const size = { width: matrix.cell, height: this.rowHeight };
      if (size.width >= 32 && size.height >= TEXT_HEIGHT) writeNumbers(matrix.canvas, spec, size, this.host.root);
    }
    this.showRow();
  }

  /**
   * A number for each row, or of the chosen row alone where rows are thin.
   * @param {Block} block
   */
  write(block) {
    const { now, row } = this.host, values = this.values(block.name), thin = this.rowHeight < TEXT_HEIGHT;
    block.body.style.height = `${this.rowHeight * now.rows}px`;
    block.body.replaceChildren(...Array.from(values).flatMap((value, i) => {
      if (thin && i !== row) return [];
      const node = element("div", "", formatNumber(value));
      const high = thin ? THIN_LINE : this.rowHeight; // in the middle of its row, also where it is higher than that
      node.style.top = `${(i + 0.5) * this.rowHeight - high / 2}px`;
      node.style.lineHeight = `${high}px`;
      return [node];
    }));
  }

  /** The band over the chosen query in every line, and its arithmetic in one sentence. */
  showRow() {
    const { now, row, head } = this.host, n = (/** @type {number} */ value) => formatNumber(value);
    this.node.classList.toggle("thin", this.rowHeight < TEXT_HEIGHT);
    for (const { band, blocks, labels } of this.lines) {
      this.label(labels, head.queries.slice(now.top, now.top + now.rows));
      const { node, body } = blocks[0];
      band.style.top = `${node.offsetTop + body.offsetTop + row * this.rowHeight}px`;
      band.style.height = `${this.rowHeight}px`;
    }
    for (const block of this.blocks) if (!block.matrix && this.rowHeight < TEXT_HEIGHT) this.write(block);
    const cells = [...now.scores.slice(row * now.columns, (row + 1) * now.columns)]
      .filter((_, j) => now.mask[row * now.columns + j]);
    const sum = now.exponentials.slice(row * now.columns, (row + 1) * now.columns).reduce((a, b) => a + b, 0);
    const label = head.queries[now.top + row];
    const before = { m: n(now.before.maximum[row]), l: n(now.before.total[row]) };
    setText(this.worked, cells.length
      ? `Query ${label}: m′ = max(${before.m}, ${n(Math.max(...cells))}) = ${n(now.maximum[row])}; ` +
        `l′ = ${n(now.rescaling[row])} · ${before.l} + ${n(sum)} = ${n(now.total[row])}; ` +
        `O is multiplied by ${n(now.rescaling[row])} before eˢ⁻ᵐ′·V is added.`
      : `Query ${label}: every cell of its row in this tile is masked, so m, l and O stay as they are.`);
  }

  /**
   * @param {MatrixBlock} matrix
   * @param {MouseEvent} event
   */
  cellAt(matrix, event) {
    if (!matrix.spec) return null;
    const box = matrix.canvas.getBoundingClientRect(), { rows, columns } = matrix.spec;
    return {
      row: clamp(Math.floor((event.clientY - box.top) / this.rowHeight), 0, rows.labels.length - 1),
      column: clamp(Math.floor((event.clientX - box.left) / matrix.cell), 0, columns.labels.length - 1),
    };
  }

  /**
   * @param {Block} block
   * @param {MatrixBlock} matrix
   * @param {PointerEvent} event
   */
  pointAt(block, matrix, event) {
    const cell = this.cellAt(matrix, event), { spec, ofTile } = matrix;
    if (!cell || !spec) return;
    const { row, column } = cell, { rows, columns, mask } = spec, at = row * columns.labels.length + column;
    this.host.tooltip.show([
      [`query ${rows.labels[row]}`, "query"],
      [ofTile ? `key ${columns.labels[column]}` : `feature ${columns.labels[column]}`, ofTile ? "key" : "stream"],
      [mask && !mask[at] ? "masked" : `${block.title.textContent}: ${cellNumber(spec, at)}`, "number"],
    ], event.clientX, event.clientY);
  }
}
