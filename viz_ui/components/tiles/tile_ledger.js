// The arithmetic of the current tile, a line for each query: scores and maximum, exponentials and sum, output.

import { cellNumber, paintCells, writeNumbers } from "../shared/cells.js";
import { clamp, element, setText } from "../shared/shared.js";
import { withPower } from "./tile_map.js";

const ELSEWHERE = 520; // pixels of a window's height that the rows of the three lines leave to all else
const LINE_HEIGHT = [66, 130]; // pixels for the rows of one line, in low windows and in high ones
const TEXT_ROW = 13; // rows at least this high have their numbers written
const THIN_LINE = 14; // pixels of a number beside a row that is less high
const NUMBER_WIDTH = 64;
const LABEL_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

export class Ledger {
  constructor(host) {
    this.host = host;
    this.node = element("section", "ledger");
    this.blocks = [];
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

  line(...blocks) {
    const node = element("div", "line"), labels = element("div", "row-labels"), band = element("div", "band");
    node.append(labels, ...blocks.map((block) => block.node), band);
    node.onpointerleave = () => this.host.tooltip.hide();
    return { node, labels, band, blocks };
  }

  matrix(name, title, role, labelled = false) {
    const block = this.block(name, title, role), canvas = block.body.appendChild(element("canvas", "cells"));
    block.picture = element("canvas");
    canvas.onpointermove = (event) => this.pointAt(block, event);
    canvas.onclick = (event) => this.host.choose(this.host.now.top + this.cellAt(block, event).row);
    if (labelled) block.node.insertBefore((block.labels = element("div", "key-labels")), block.body);
    return Object.assign(block, { canvas });
  }

  numbers(name, title, role) {
    const block = this.block(name, title, role);
    block.body.classList.add("numbers");
    block.body.style.width = `${NUMBER_WIDTH}px`;
    return block;
  }

  block(name, words, role) {
    const node = element("div", "block"), body = element("div", "body");
    const title = withPower("div", `title ${role}`, words);
    node.dataset.block = name;
    node.append(title, body);
    const block = { name, node, title, body };
    this.blocks.push(block);
    return block;
  }

  /** The numbers of a block in the current tile. */
  values(name) {
    return name.split(".").reduce((part, key) => part[key], this.host.now);
  }

  /** Sizes for the current tile, which the last ones of a side may have smaller. */
  layout() {
    const { now, head, width } = this.host, pen = element("canvas").getContext("2d");
    pen.font = `700 12px ${getComputedStyle(this.host.root).fontFamily}`;
    const labels = head.queries.slice(now.top, now.top + now.rows);
    const labelWidth = Math.min(110, Math.ceil(Math.max(...labels.map((text) => pen.measureText(text).width))) + 16);
    const room = Math.min(width, this.node.clientWidth) - labelWidth;
    const lineHeight = clamp((window.innerHeight - ELSEWHERE) / 3, ...LINE_HEIGHT);
    this.rowHeight = clamp(Math.floor(lineHeight / now.rows), 3, 24);
    const tile = clamp((room - 3 * (NUMBER_WIDTH + 8) - 24) / now.columns, 0.5, 44);
    const feature = clamp((room - 3 * 14) / 3 / head.width, 0.5, 6);
    for (const { node, labels: side, blocks } of this.lines) {
      side.style.width = `${labelWidth}px`;
      node.style.setProperty("--row", `${this.rowHeight}px`);
      for (const block of blocks) if (block.canvas) this.size(block, block.name === "scores" ||
        block.name === "exponentials" ? tile : feature);
    }
  }

  /** Labels of the rows: the chosen one, and every n-th where rows are thin, as far as that leaves them room. */
  label(side, labels) {
    const { row } = this.host, step = LABEL_STEPS.find((n) => n * this.rowHeight >= TEXT_ROW);
    side.style.height = `${this.rowHeight * labels.length}px`;
    side.replaceChildren(...labels.flatMap((text, i) => {
      if (i !== row && (i % step || Math.abs(i - row) * this.rowHeight < TEXT_ROW)) return [];
      const node = element("div", `token query ${i === row ? "chosen" : ""}`, text);
      node.style.top = `${(i + 0.5) * this.rowHeight - 8}px`;
      return [node];
    }));
  }

  size(block, cell) {
    const { now, head } = this.host, ratio = window.devicePixelRatio || 1;
    const ofTile = block.name === "scores" || block.name === "exponentials";
    const columns = ofTile ? now.columns : head.width;
    block.cell = cell;
    Object.assign(block.canvas.style, { width: `${cell * columns}px`, height: `${this.rowHeight * now.rows}px` });
    block.canvas.width = Math.round(cell * columns * ratio);
    block.canvas.height = Math.round(this.rowHeight * now.rows * ratio);
    if (!block.labels) return;
    const step = LABEL_STEPS.find((n) => n * cell >= TEXT_ROW) ?? columns;
    block.labels.replaceChildren(...head.keys.slice(now.left, now.left + columns).flatMap((text, i) => {
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
      if (!block.canvas) {
        this.write(block);
        continue;
      }
      const ofTile = block.name === "scores" || block.name === "exponentials";
      const scale = block.name === "before.output" ? "output" : block.name;
      const mask = ofTile ? now.mask : null;
      block.spec = this.host.spec(scale, this.values(block.name), mask, rows, ofTile ? keys : features);
      paintCells(block.canvas, block.picture, block.spec, this.host.root);
      const size = { width: block.cell, height: this.rowHeight };
      if (size.width >= 32 && size.height >= TEXT_ROW) writeNumbers(block.canvas, block.spec, size, this.host.root);
    }
    this.showRow();
  }

  /** A number for each row, or of the chosen row alone where rows are thin. */
  write(block) {
    const { now, row } = this.host, values = this.values(block.name), thin = this.rowHeight < TEXT_ROW;
    block.body.style.height = `${this.rowHeight * now.rows}px`;
    block.body.replaceChildren(...Array.from(values, (value, i) => {
      if (thin && i !== row) return null;
      const node = element("div", "", this.host.number(value, 4));
      const high = thin ? THIN_LINE : this.rowHeight; // in the middle of its row, also where it is higher than that
      node.style.top = `${(i + 0.5) * this.rowHeight - high / 2}px`;
      node.style.lineHeight = `${high}px`;
      return node;
    }).filter(Boolean));
  }

  /** The band over the chosen query in every line, and its arithmetic in one sentence. */
  showRow() {
    const { now, row, head, number } = this.host, n = (value) => number(value, 4);
    this.node.classList.toggle("thin", this.rowHeight < TEXT_ROW);
    for (const { band, blocks, labels } of this.lines) {
      this.label(labels, head.queries.slice(now.top, now.top + now.rows));
      const { node, body } = blocks[0];
      band.style.top = `${node.offsetTop + body.offsetTop + row * this.rowHeight}px`;
      band.style.height = `${this.rowHeight}px`;
    }
    for (const block of this.blocks) if (!block.canvas && this.rowHeight < TEXT_ROW) this.write(block);
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

  cellAt(block, event) {
    const box = block.canvas.getBoundingClientRect(), { rows, columns } = block.spec;
    return {
      row: clamp(Math.floor((event.clientY - box.top) / this.rowHeight), 0, rows.labels.length - 1),
      column: clamp(Math.floor((event.clientX - box.left) / block.cell), 0, columns.labels.length - 1),
    };
  }

  pointAt(block, event) {
    const { row, column } = this.cellAt(block, event), { rows, columns, mask, role } = block.spec;
    const at = row * columns.labels.length + column, ofTile = role !== "value";
    this.host.tooltip.show([
      [`query ${rows.labels[row]}`, "query"],
      [ofTile ? `key ${columns.labels[column]}` : `feature ${columns.labels[column]}`, ofTile ? "key" : "stream"],
      [mask && !mask[at] ? "masked" : `${block.title.textContent}: ${cellNumber(block.spec, at)}`, "number"],
    ], event.clientX, event.clientY);
  }
}
