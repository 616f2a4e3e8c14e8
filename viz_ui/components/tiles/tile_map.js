// The map of all tiles: which queries × keys are worked through, in fast memory now, to come, or skipped.

import { cellNumber, endNumber, paintCells } from "../shared/cells.js";
import { element } from "../shared/shared.js";

const MAP_SIDE = 206; // pixels that the longer side of the map may take
const MAP_CELL = 24; // the most that one cell may take
const STRIP = 13; // of Q, K, V and O along the sides

export class TileMap {
  constructor(host) {
    this.host = host;
    this.node = element("section", "map");
    this.title = element("div", "title scores");
    this.stage = element("div", "stage");
    this.canvas = element("canvas", "cells");
    this.frame = element("div", "frame");
    this.strips = {};
    for (const [name, role, axis] of [["Q", "query", "rows"], ["K", "key", "columns"], ["V", "value", "columns"],
      ["O", "stream", "rows"]]) {
      const strip = element("div", `strip ${axis} of-${name}`), block = element("i");
      strip.style.setProperty("--hue", `var(--${role})`);
      strip.append(element("span", role, name), block);
      this.strips[name] = strip;
    }
    this.stage.append(...Object.values(this.strips), this.canvas, this.frame);
    this.stage.onpointermove = (event) => this.pointAt(event);
    this.stage.onpointerleave = () => host.tooltip.hide();
    this.stage.onclick = (event) => this.click(event);
    this.legend = element("div", "legend small");
    for (const [state, words] of [["now", "in fast memory"], ["done", "done"], ["ahead", "still to come"],
      ["hatched", "masked or skipped"]]) {
      const entry = element("span", "entry");
      entry.append(element("i", `swatch ${state}`), element("span", "", words));
      this.legend.append(entry);
    }
    this.scales = element("div", "legend small");
    this.node.append(this.title, this.stage, this.legend, this.scales);
    this.whole = element("canvas"); // every cell in its colour; what is not in fast memory is covered below
    this.picture = element("canvas");
  }

  /** Take new data. */
  update() {
    const { tiles, skipped, head } = this.host, keys = head.keys.length;
    const values = new Float32Array(head.queries.length * keys), mask = new Uint8Array(values.length);
    this.tileAt = new Map(skipped.map(([top, , left]) => [`${top},${left}`, -1]));
    tiles.forEach((tile, number) => {
      this.tileAt.set(`${tile.top},${tile.left}`, number);
      tile.scores.forEach((value, i) => {
        const at = (tile.top + Math.floor(i / tile.columns)) * keys + tile.left + (i % tile.columns);
        values[at] = value;
        mask[at] = tile.mask[i];
      });
    });
    const [corner] = [...tiles.map(({ corners }) => corners), ...skipped].filter(([top, , left]) => !top && !left);
    this.size = { rows: corner[1], columns: corner[3] };
    this.spec = this.host.spec("scores", values, mask, head.queries, head.keys);
    const words = element("span", "small", ` ${head.queries.length} × ${keys}, one tile at a time`);
    this.title.replaceChildren(`S = ${head.score_formula}`, words);
    this.legend.lastChild.hidden = mask.every(Boolean);
    this.showScales();
  }

  /** The colour scales of everything that is drawn. */
  showScales() {
    const kinds = { scores: ["S"], exponentials: ["e", "S−m′"], output: ["O"], mixed: ["O / l"] };
    this.scales.replaceChildren(...Object.entries(kinds).map(([name, title]) => {
      const { low, high, lut } = this.host.spec(name, [], null, [], []);
      const entry = element("span", "entry"), ramp = element("canvas", "ramp"), image = new ImageData(256, 1);
      ramp.width = 256;
      ramp.height = 1;
      new Uint32Array(image.data.buffer).set(lut);
      ramp.getContext("2d").putImageData(image, 0, 0);
      entry.append(withPower("b", "", title), element("span", "", endNumber(low)), ramp);
      entry.append(element("span", "", endNumber(high)));
      return entry;
    }));
  }

  layout() {
    const { queries, keys } = this.host.head, ratio = window.devicePixelRatio || 1;
    this.cell = Math.min(MAP_SIDE / queries.length, MAP_SIDE / keys.length, MAP_CELL);
    const width = this.cell * keys.length, height = this.cell * queries.length;
    this.left = STRIP + 8;
    this.top = 2 * STRIP + 8;
    for (const canvas of [this.canvas, this.whole]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    place(this.canvas, this.left, this.top, width, height);
    place(this.strips.Q, 0, this.top, STRIP, height);
    place(this.strips.O, this.left + width + 8, this.top, STRIP, height);
    place(this.strips.K, this.left, 0, width, STRIP);
    place(this.strips.V, this.left, STRIP + 3, width, STRIP);
    this.stage.style.width = `${this.left + width + 8 + STRIP}px`;
    this.stage.style.height = `${this.top + height + 15}px`; // Q and O are written below their strips
    paintCells(this.whole, this.picture, this.spec, this.host.root);
  }

  show() {
    const { now, step, tiles, root } = this.host, pen = this.canvas.getContext("2d");
    const style = getComputedStyle(root), scale = this.canvas.width / this.host.head.keys.length;
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.whole, 0, 0);
    pen.fillStyle = style.backgroundColor;
    pen.strokeStyle = style.getPropertyValue("--stream");
    pen.lineWidth = 0.5;
    for (const [number, { top, left, rows, columns }] of tiles.entries()) {
      const box = [left, top, columns, rows].map((edge) => edge * scale);
      pen.globalAlpha = number > step ? 1 : number < step ? 0.68 : 0;
      pen.fillRect(...box);
      pen.globalAlpha = 1;
      if (Math.min(box[2], box[3]) > 5) pen.strokeRect(...box);
    }
    place(this.frame, this.left + now.left * this.cell, this.top + now.top * this.cell,
      now.columns * this.cell, now.rows * this.cell);
    for (const [name, strip] of Object.entries(this.strips)) {
      const along = name === "Q" || name === "O", block = strip.lastChild;
      const [start, length] = along ? [now.top, now.rows] : [now.left, now.columns];
      block.style[along ? "top" : "left"] = `${start * this.cell}px`;
      block.style[along ? "height" : "width"] = `${length * this.cell}px`;
    }
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect(), { queries, keys } = this.host.head;
    const row = Math.floor((event.clientY - box.top) / this.cell);
    const column = Math.floor((event.clientX - box.left) / this.cell);
    return row >= 0 && column >= 0 && row < queries.length && column < keys.length ? { row, column } : null;
  }

  tileOf({ row, column }) {
    const { rows, columns } = this.size;
    return this.tileAt.get(`${row - (row % rows)},${column - (column % columns)}`);
  }

  pointAt(event) {
    const cell = this.cellAt(event), { head, step, last } = this.host;
    if (!cell) return this.host.tooltip.hide();
    const number = this.tileOf(cell), at = cell.row * head.keys.length + cell.column;
    const state = number > step ? "still to come" : number < step ? "done, no longer in fast memory" : "in fast memory";
    const value = this.spec.mask[at] ? cellNumber(this.spec, at) : "masked (−∞)";
    this.host.tooltip.show([
      [`query ${head.queries[cell.row]}`, "query"],
      [`key ${head.keys[cell.column]}`, "key"],
      [number > step ? "not worked out yet" : value, "number"],
      [number < 0 ? "skipped: every cell of this tile is masked" : `tile ${number + 1} of ${last + 1}, ${state}`, ""],
    ], event.clientX, event.clientY);
  }

  click(event) {
    const cell = this.cellAt(event), number = cell && this.tileOf(cell);
    if (!cell || number < 0) return;
    this.host.pause(false);
    this.host.choose(cell.row);
    this.host.go(number);
  }
}

/** An element with a text, and a power raised behind it. */
export function withPower(tag, className, [text, power]) {
  const node = element(tag, className, text);
  if (power) node.append(element("sup", "", power));
  return node;
}

function place(node, left, top, width, height) {
  Object.assign(node.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
}
