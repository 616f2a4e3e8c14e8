// The map of all tiles: which queries × keys are worked through, in fast memory now, to come, or skipped.

import { cellNumber, paintCells } from "../shared/cells.js";
import { element, penOf, place } from "../shared/elements.js";
import { paintRamp, sizeCanvas } from "../shared/look.js";
import { formatEnd } from "../shared/numbers.js";

const MAP_SIDE = 206; // pixels that the longer side of the map may take
const MAP_CELL = 24; // the most that one cell may take
const STRIP = 13; // of Q, K, V and O along the sides

export class TileMap {
  cell = 1; // pixels
  left = STRIP + 8; // of the cells, in the stage
  top = 2 * STRIP + 8;
  /** @type {Record<string, HTMLElement>} */
  strips = {};
  /** @type {Map<string, number>} */
  tileAt; // the number of a tile by its first row and column; -1 of one that is skipped
  /** @type {{ rows: number, columns: number }} */
  size; // of the first tile, which no other exceeds
  /** @type {import("../shared/cells.js").Matrix} */
  spec;

  /** @param {import("./tiles.js").Tiles} host */
  constructor(host) {
    this.host = host;
    this.node = element("section", "map");
    this.title = element("div", "title scores");
    this.stage = element("div", "stage");
    this.canvas = element("canvas", "cells");
    this.frame = element("div", "frame");
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
    const note = element("span", "small", ` ${head.queries.length} × ${keys}, one tile at a time`);
    this.title.replaceChildren(`S = ${head.score_formula}`, note);
    /** @type {HTMLElement} */ (this.legend.lastElementChild).hidden = mask.every(Boolean);
    this.showScales();
  }

  /** The colour scales of everything that is drawn. */
  showScales() {
    const kinds = { scores: ["S"], exponentials: ["e", "S−m′"], output: ["O"], mixed: ["O / l"] };
    this.scales.replaceChildren(...Object.entries(kinds).map(([name, title]) => {
      const { low, high, lut } = this.host.spec(name, [], null, [], []);
      const entry = element("span", "entry"), ramp = element("canvas", "ramp");
      paintRamp(ramp, lut);
      entry.append(withPower("b", "", title), element("span", "", formatEnd(low)), ramp);
      entry.append(element("span", "", formatEnd(high)));
      return entry;
    }));
  }

  layout() {
    const { queries, keys } = this.host.head;
    this.cell = Math.min(MAP_SIDE / queries.length, MAP_SIDE / keys.length, MAP_CELL);
    const width = this.cell * keys.length, height = this.cell * queries.length;
    for (const canvas of [this.canvas, this.whole]) sizeCanvas(canvas, width, height);
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
    const { now, step, tiles, root } = this.host, pen = penOf(this.canvas);
    const style = getComputedStyle(root), scale = this.canvas.width / this.host.head.keys.length;
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.whole, 0, 0);
    pen.fillStyle = style.backgroundColor;
    pen.strokeStyle = style.getPropertyValue("--stream");
    pen.lineWidth = 0.5;
    for (const [number, { top, left, rows, columns }] of tiles.entries()) {
      const [x, y, width, height] = [left, top, columns, rows].map((edge) => edge * scale);
      pen.globalAlpha = number > step ? 1 : number < step ? 0.68 : 0;
      pen.fillRect(x, y, width, height);
      pen.globalAlpha = 1;
      if (Math.min(width, height) > 5) pen.strokeRect(x, y, width, height);
    }
    place(this.frame, this.left + now.left * this.cell, this.top + now.top * this.cell,
      now.columns * this.cell, now.rows * this.cell);
    for (const [name, strip] of Object.entries(this.strips)) {
      const along = name === "Q" || name === "O", block = /** @type {HTMLElement} */ (strip.lastChild);
      const [start, length] = along ? [now.top, now.rows] : [now.left, now.columns];
      block.style[along ? "top" : "left"] = `${start * this.cell}px`;
      block.style[along ? "height" : "width"] = `${length * this.cell}px`;
    }
  }

  /** @param {MouseEvent} event */
  cellAt(event) {
    const box = this.canvas.getBoundingClientRect(), { queries, keys } = this.host.head;
    const row = Math.floor((event.clientY - box.top) / this.cell);
    const column = Math.floor((event.clientX - box.left) / this.cell);
    return row >= 0 && column >= 0 && row < queries.length && column < keys.length ? { row, column } : null;
  }

  /**
   * The number of the tile that a cell lies in; -1 for one that is skipped.
   * @param {{ row: number, column: number }} cell
   */
  tileOf({ row, column }) {
    const { rows, columns } = this.size;
    return this.tileAt.get(`${row - (row % rows)},${column - (column % columns)}`) ?? -1;
  }

  /** @param {PointerEvent} event */
  pointAt(event) {
    const cell = this.cellAt(event), { head, step, last } = this.host;
    if (!cell) return this.host.tooltip.hide();
    const number = this.tileOf(cell), at = cell.row * head.keys.length + cell.column;
    const state = number > step ? "still to come" : number < step ? "done, no longer in fast memory" : "in fast memory";
    const value = this.spec.mask?.[at] ? cellNumber(this.spec, at) : "masked (−∞)";
    this.host.tooltip.show([
      [`query ${head.queries[cell.row]}`, "query"],
      [`key ${head.keys[cell.column]}`, "key"],
      [number > step ? "not worked out yet" : value, "number"],
      [number < 0 ? "skipped: every cell of this tile is masked" : `tile ${number + 1} of ${last + 1}, ${state}`, ""],
    ], event.clientX, event.clientY);
  }

  /** @param {MouseEvent} event */
  click(event) {
    const cell = this.cellAt(event), number = cell ? this.tileOf(cell) : -1;
    if (!cell || number < 0) return;
    this.host.pause(false);
    this.host.choose(cell.row);
    this.host.go(number);
  }
}

/**
 * An element with a text, and a power raised behind it.
 * @param {"b" | "div"} tag
 * @param {string} className
 * @param {string[]} words the text and the power
 * @returns {HTMLElement}
 */
export function withPower(tag, className, [text, power]) {
  const node = element(tag, className, text);
  if (power) node.append(element("sup", "", power));
  return node;
}
