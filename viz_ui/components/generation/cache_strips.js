// K and V of the cache as strips, one column a token, under the weights with which the new query reads them;
// and the square picture that the rows of all passes add up to. Both are painted once for a run, and show of it
// as many columns as the step has read.

import { paintCells } from "../shared/cells.js";
import { element, place, setText } from "../shared/elements.js";
import { clamp, labelStep, paintRamp, sizeCanvas } from "../shared/look.js";
import { formatEnd, formatNumber } from "../shared/numbers.js";

const NARROWEST = 4, WIDEST = 22; // pixels of a column; narrower ones scroll
const STRIP_HEIGHT = 92, ROW_HEIGHT = 34, ORIGIN_HEIGHT = 20, LABEL_HEIGHT = 66, BAND_GAP = 7; // pixels
const NARROWEST_WORDS = 52; // pixels that "prompt, 3" needs
const SQUARE = 176; // pixels of the square picture, more only where a cell would fall under one

/** @typedef {import("./generation.js").Generation} Generation */

/**
 * K, V or the new row A: its part of the stage, and the canvas in it (bars for A).
 * @typedef {object} Band
 * @property {HTMLElement} clip
 * @property {HTMLElement} picture
 * @property {HTMLElement} label
 * @property {string} role
 * @property {number} top
 * @property {number} height
 */

export class CacheStrips {
  cell = NARROWEST; // pixels of a column
  feature = 1; // pixels of a number of K or V
  planned = 0; // columns that there will be
  /** @type {HTMLElement[]} */
  names = [];
  newest = element("div");

  /** @param {Generation} host */
  constructor(host) {
    this.host = host;
    this.node = element("section", "strips");
    this.title = element("div", "title");
    this.gutter = element("div", "gutter");
    this.scroller = element("div", "scroller");
    this.stage = element("div", "stage");
    this.origin = ["of-prompt", "generated"].map((name) => element("div", `origin ${name} small`));
    for (const node of this.origin) node.append(element("span"));
    /** @type {Record<string, Band>} */
    this.bands = {};
    for (const [name, role] of [["A", "weights"], ["K", "key"], ["V", "value"]]) {
      const clip = element("div", `clip of-${name}`);
      const picture = clip.appendChild(element(name === "A" ? "div" : "canvas", "cells"));
      picture.setAttribute("role", "img");
      const label = this.gutter.appendChild(element("div", `band ${role}`, name));
      this.bands[name] = { clip, picture, label, role, top: 0, height: 0 };
    }
    this.most = this.gutter.appendChild(element("div", "most small"));
    this.labels = element("div", "labels");
    this.ahead = element("div", "ahead"); // the columns that are still to come
    this.fresh = element("div", "frame fresh");
    this.pointed = element("div", "frame pointed");
    this.stage.append(...this.origin, ...Object.values(this.bands).map(({ clip }) => clip));
    this.stage.append(this.labels, this.ahead, this.fresh, this.pointed);
    this.scroller.append(this.stage);
    const body = element("div", "body");
    body.append(this.gutter, this.scroller);
    this.legend = element("div", "legend small");
    this.readMost = element("span");
    this.node.append(this.title, body, this.legend);
    this.picture = element("canvas"); // one pixel a cell, drawn enlarged
    this.stage.onpointermove = (event) => this.point(event);
    this.stage.onpointerleave = () => this.leave();
    this.leave();
  }

  update() {
    const { head, columns, keys, values, luts, root } = this.host, { width, ends } = head;
    this.node.hidden = false;
    const planned = head.running && !head.of_source ? head.prompt_length + head.asked - 1 : columns;
    this.cell = clamp(Math.floor((this.scroller.clientWidth - 2) / planned), NARROWEST, WIDEST);
    this.feature = Math.max(1, Math.round(STRIP_HEIGHT / width));
    /** @type {Record<string, number>} */
    const heights = { A: ROW_HEIGHT, K: this.feature * width, V: this.feature * width };
    let top = ORIGIN_HEIGHT;
    for (const [name, band] of Object.entries(this.bands)) {
      Object.assign(band, { top, height: heights[name] });
      for (const node of [band.clip, band.label]) {
        node.style.top = `${top}px`;
        node.style.height = `${band.height}px`;
      }
      top += band.height + BAND_GAP;
    }
    this.labels.style.top = `${top}px`;
    this.stage.style.height = this.gutter.style.height = `${top + LABEL_HEIGHT}px`;
    this.stage.style.width = `${planned * this.cell + 2}px`;
    this.planned = planned;
    const [highestKey, highestValue] = ends;
    for (const { name, cells, high } of [
      { name: "K", cells: keys, high: highestKey }, { name: "V", cells: values, high: highestValue },
    ]) {
      const spec = { values: cells, mask: null, rows: width, columns, low: -high, high, lut: luts.diverging };
      const canvas = /** @type {HTMLCanvasElement} */ (this.bands[name].picture);
      drawCells(canvas, this.picture, spec, columns * this.cell, heights[name], root);
    }
    setText(this.title, `The cache of ${head.head_name}`);
    this.nameTokens();
    this.showLegend();
  }

  /** Labels under the columns, every n-th where columns are narrow. */
  nameTokens() {
    const { keyLabels, columns } = this.host, step = labelStep(this.cell, columns);
    this.names = [];
    for (let place = 0; place < columns; place += step) this.names.push(this.name(keyLabels[place], place));
    this.newest = this.name("", 0);
    this.newest.classList.add("newest");
    this.labels.replaceChildren(...this.names, this.newest);
  }

  /**
   * @param {string} text
   * @param {number} place
   */
  name(text, place) {
    const node = element("div", "token name", text);
    node.dataset.place = String(place);
    node.style.left = `${(place + 0.5) * this.cell - 8}px`;
    const { of_source: ofSource, prompt_length: prompt } = this.host.head;
    node.classList.toggle("of-prompt", ofSource || place < prompt);
    return node;
  }

  showLegend() {
    const { head: { ends, width }, luts } = this.host;
    const [keys, values] = ends;
    this.legend.replaceChildren(scale("K", "key", -keys, keys, luts.diverging));
    this.legend.append(scale("V", "value", -values, values, luts.diverging));
    this.legend.append(element("span", "", `${width} rows each (D)`), this.readMost);
  }

  show() {
    const { now, head, step, width } = this.host, { cell } = this, seen = this.host.keysOf(now.read - 1);
    this.showRow();
    for (const { clip } of Object.values(this.bands)) clip.style.width = `${seen * cell}px`;
    this.bands.A.picture.ariaLabel = `Weights of query ${head.labels[now.read - 1]} over ${seen} keys`;
    this.bands.K.picture.ariaLabel = `Keys, ${head.width} numbers for each of ${seen} tokens`;
    this.bands.V.picture.ariaLabel = `Values, ${head.width} numbers for each of ${seen} tokens`;
    if (head.of_source) this.showSource(seen, step);
    else this.showGrown(now, head, step);
    if (width && !head.of_source) this.scrollTo(now.read - 1);
    this.leave();
  }

  /**
   * The columns of a source: all there from the first pass on.
   * @param {number} seen
   * @param {number} step
   */
  showSource(seen, step) {
    const { K, V } = this.bands;
    setText(this.origin[0].children[0], `source, ${seen}, read once`);
    this.origin[0].style.width = `${seen * this.cell - 1}px`;
    this.origin[1].hidden = this.ahead.hidden = this.newest.hidden = true;
    this.fresh.hidden = step > 0;
    place(this.fresh, 0, K.top, seen * this.cell, V.top + V.height - K.top);
  }

  /**
   * @param {import("./generation.js").Step} now
   * @param {import("./generation.js").Header} head
   * @param {number} step
   */
  showGrown(now, head, step) {
    const { cell } = this, prompt = head.prompt_length;
    this.fresh.hidden = false;
    const words = head.source.length ? `given, ${prompt}` : `prompt, ${prompt}`;
    this.origin[0].title = words;
    setText(this.origin[0].children[0], prompt * cell < NARROWEST_WORDS ? "" : words);
    setText(this.origin[1].children[0], `generated, ${step}`);
    this.origin[0].style.width = `${prompt * cell - 1}px`;
    this.origin[1].style.left = `${prompt * cell + 1}px`;
    this.origin[1].style.width = `${step * cell - 1}px`;
    this.origin[1].hidden = step === 0;
    const word = /** @type {HTMLElement} */ (this.origin[1].children[0]);
    const end = Math.max(this.planned * cell, this.scroller.clientWidth);
    word.style.marginLeft = `${Math.min(0, end - prompt * cell - 1 - word.offsetWidth)}px`; // or its end is cut off
    for (const node of this.names) {
      const place = Number(node.dataset.place), near = Math.abs(place - now.read + 1) * cell < 14;
      node.hidden = place >= now.read || near; // the newest token has its own label
    }
    const last = now.read - 1, newest = this.name(head.labels[last], last);
    newest.classList.add("newest");
    this.newest.replaceWith(newest);
    this.newest = newest;
    const { K, V } = this.bands, from = now.read - now.queries;
    const height = V.top + V.height - K.top;
    place(this.fresh, from * cell, K.top, now.queries * cell, height);
    place(this.ahead, now.read * cell, K.top, (this.planned - now.read) * cell, height);
    this.ahead.hidden = now.read === this.planned;
  }

  /** The 1 × S row of the new query as bars, from 0 to its largest weight. */
  showRow() {
    const weights = this.weights(), most = Math.max(...weights), key = this.host.keyLabels[weights.indexOf(most)];
    this.bands.A.picture.replaceChildren(...Array.from(weights, (weight, at) => {
      const bar = element("i");
      place(bar, at * this.cell, ROW_HEIGHT * (1 - weight / most), Math.max(1, this.cell - 1), ROW_HEIGHT);
      return bar;
    }));
    setText(this.most, formatNumber(most, 2));
    setText(this.readMost, `A is largest, ${formatNumber(most, 3)}, at “${key}”`);
  }

  /** The weights of the last query that this step has read. */
  weights() {
    return this.host.rowOf(this.host.now.read - 1);
  }

  /** @param {number} place */
  scrollTo(place) {
    const { scroller, cell } = this, x = (place + 1) * cell;
    if (x > scroller.scrollLeft + scroller.clientWidth || x < scroller.scrollLeft + 40) {
      scroller.scrollLeft = x - scroller.clientWidth + 30;
    }
  }

  /** @param {PointerEvent} event */
  point(event) {
    const box = this.stage.getBoundingClientRect(), { now, head, columns, keyLabels } = this.host;
    const column = Math.floor((event.clientX - box.left) / this.cell), y = event.clientY - box.top;
    const found = Object.entries(this.bands).find(([, band]) => y >= band.top && y < band.top + band.height);
    if (column < 0 || column >= this.host.keysOf(now.read - 1) || y < ORIGIN_HEIGHT) return this.leave();
    const { A, V } = this.bands;
    this.pointed.hidden = false;
    place(this.pointed, column * this.cell, A.top, this.cell, V.top + V.height - A.top);
    const lines = [[`key ${keyLabels[column]}`, "key"]];
    if (found?.[0] === "A") {
      lines.unshift([`query ${head.labels[now.read - 1]}`, "query"]);
      lines.push([`weight ${formatNumber(this.weights()[column])}`, "number"]);
    } else if (found) {
      const [name, band] = found, feature = Math.floor((y - band.top) / this.feature);
      lines[0] = [`${name === "K" ? "key" : "value"} of ${keyLabels[column]}`, band.role];
      lines.push([`feature ${feature} of ${head.width}`, "small"]);
      const cells = name === "K" ? this.host.keys : this.host.values;
      lines.push([formatNumber(cells[feature * columns + column]), "number"]);
    }
    this.host.tooltip.show(lines, event.clientX, event.clientY);
  }

  leave() {
    this.pointed.hidden = true;
    this.host.tooltip?.hide();
  }
}

/** The picture of all weights: rows of earlier passes dim, the rows of this pass framed. */
export class SavedPicture {
  cell = 1; // pixels

  /** @param {Generation} host */
  constructor(host) {
    this.host = host;
    this.node = element("section", "square");
    this.title = element("div", "title weights");
    this.scroller = element("div", "scroller");
    this.stage = element("div", "stage");
    this.clip = element("div", "clip");
    this.canvas = this.clip.appendChild(element("canvas"));
    this.canvas.setAttribute("role", "img");
    this.earlier = element("div", "earlier");
    this.fresh = element("div", "frame fresh");
    this.note = element("p", "note small");
    this.legend = element("div", "legend small");
    this.stage.append(this.clip, this.earlier, this.fresh);
    this.scroller.append(this.stage);
    this.node.append(this.title, this.scroller, this.legend, this.note);
    this.picture = element("canvas");
    this.stage.onpointermove = (event) => this.point(event);
    this.stage.onpointerleave = () => host.tooltip.hide();
  }

  update() {
    const { length, columns, luts, root, head } = this.host;
    const rows = head.running ? head.prompt_length + head.asked - 1 : length;
    const across = head.of_source ? columns : rows;
    this.cell = clamp(SQUARE / Math.max(rows, across), 1, WIDEST);
    const values = new Float32Array(length * columns), mask = new Uint8Array(length * columns);
    for (let i = 0; i < length; i++) {
      const row = this.host.rowOf(i);
      values.set(row, i * columns);
      mask.fill(1, i * columns, i * columns + row.length);
    }
    const spec = { values, mask, rows: length, columns, low: 0, high: 1, lut: luts.sequential };
    const masked = element("span", "scale");
    masked.append(element("span", "swatch hatched"), "masked");
    this.legend.replaceChildren(scale("A", "weights", 0, 1, luts.sequential));
    if (!head.of_source) this.legend.append(masked);
    drawCells(this.canvas, this.picture, spec, columns * this.cell, length * this.cell, root);
    this.stage.style.width = `${across * this.cell}px`;
    this.stage.style.height = `${rows * this.cell}px`;
  }

  show() {
    const { now, step, head } = this.host, { cell } = this, keys = this.host.keysOf(now.read - 1);
    const wide = keys * cell, high = now.read * cell, before = (now.read - now.queries) * cell;
    place(this.clip, 0, 0, wide, high);
    place(this.earlier, 0, 0, wide, before);
    place(this.fresh, 0, before, wide, high - before);
    setText(this.title, head.of_source ? `A, (T, S) = (${now.read}, ${keys})` : `A, (S, S) = (${keys}, ${keys})`);
    const first = now.queries > 1 ? `Prefill computes all ${now.queries} rows at once.` : "This is the first row.";
    const words = step
      ? `Only the framed row is computed. Without the cache, all ${now.read} rows would be computed`
        + `${head.of_source ? ", and K and V of the source too." : "."}`
      : first;
    setText(this.note, words);
    this.canvas.ariaLabel = `Weights of ${head.head_name}, ${now.read} queries by ${keys} keys. ${words}`;
  }

  /** @param {PointerEvent} event */
  point(event) {
    const box = this.stage.getBoundingClientRect(), { now, head, keyLabels, tooltip } = this.host;
    const [i, j] = [event.clientY - box.top, event.clientX - box.left].map((at) => Math.floor(at / this.cell));
    if (Math.min(i, j) < 0 || i >= now.read || j >= this.host.keysOf(now.read - 1)) return tooltip.hide();
    const made = Math.max(0, i + 1 - head.prompt_length), weight = this.host.rowOf(i)[j];
    tooltip.show([
      [`query ${head.labels[i]}`, "query"],
      [`key ${keyLabels[j]}`, "key"],
      [weight === undefined ? "masked (−∞), so weight 0" : `weight ${formatNumber(weight)}`, "number"],
      [made ? `computed in step ${made}` : "computed in the prefill", "small"],
    ], event.clientX, event.clientY);
  }
}

/**
 * A colour bar with its name and its ends.
 * @param {string} name
 * @param {string} role
 * @param {number} low
 * @param {number} high
 * @param {Uint32Array} lut
 */
function scale(name, role, low, high, lut) {
  const node = element("span", "scale"), ramp = element("canvas", "ramp");
  paintRamp(ramp, lut);
  node.append(element("b", role, name), formatEnd(low), ramp, formatEnd(high));
  return node;
}

/**
 * Give a canvas its size in CSS pixels and paint its cells: `values` as `rows` × `columns`.
 * @param {HTMLCanvasElement} canvas
 * @param {HTMLCanvasElement} picture
 * @param {{ rows: number, columns: number, values: Float32Array, mask: Uint8Array | null, low: number, high: number,
 *   lut: Uint32Array }} cells
 * @param {number} width
 * @param {number} height
 * @param {HTMLElement} root
 */
function drawCells(canvas, picture, { rows, columns, ...cells }, width, height, root) {
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  sizeCanvas(canvas, width, height);
  Object.assign(canvas.dataset, { rows, columns });
  const matrix = { ...cells, factor: 1, role: "", rows: nameless(rows), columns: nameless(columns) };
  paintCells(canvas, picture, matrix, root);
}

/**
 * An axis whose cells nobody names.
 * @param {number} length
 * @returns {import("../shared/cells.js").Axis}
 */
const nameless = (length) => ({ axis: "", labels: Array(length).fill(""), index: "" });
