// The cells of a matrix as pixels, and their numbers as text.

import { element, penOf } from "./elements.js";
import { clamp, fillHatched, pixelRatio } from "./look.js";
import { formatInCell, formatNumber } from "./numbers.js";

/**
 * One side of a matrix.
 * @typedef {object} Axis
 * @property {string} axis what it counts: "query", "feature"
 * @property {string[]} labels one a row or column
 * @property {"query" | "key" | ""} index which index of a token it has; "" for none
 */

/**
 * A matrix to draw: `values` (R,C) in row order, each times `factor`.
 * @typedef {object} Matrix
 * @property {string} role whose hue it has: "scores", "weights", "value", …
 * @property {Axis} rows
 * @property {Axis} columns
 * @property {ArrayLike<number>} values
 * @property {number} factor
 * @property {Uint8Array | null} mask 1 where a cell is permitted; null: all are
 * @property {Uint8Array | null} [nonzero] 0 where a cell is exactly 0; null: not told apart
 * @property {number} low value of the first colour
 * @property {number} high value of the last colour
 * @property {Uint32Array} lut 256 colours
 * @property {Law} [law] linear where it is left out
 * @property {number} [digits] that travelled
 * @property {number} [floor] smaller values lost their digits on the way
 */

/**
 * Paint all cells: permitted ones in their colour, masked ones hatched, marked zeros dotted.
 * @param {HTMLCanvasElement} canvas
 * @param {HTMLCanvasElement} picture a canvas to work on
 * @param {Matrix} matrix
 * @param {HTMLElement} root
 */
export function paintCells(canvas, picture, matrix, root) {
  const { mask, nonzero } = matrix, pen = penOf(canvas);
  paintPicture(picture, matrix);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  if (mask) fillHatched(pen, root, canvas.width, canvas.height);
  if (nonzero) dotZeros(pen, canvas, matrix, root);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
}

/**
 * One pixel a cell, to be drawn enlarged. What is masked, or a marked zero, stays clear: the pattern below shows.
 * @param {HTMLCanvasElement} picture
 * @param {Matrix} matrix
 */
export function paintPicture(picture, matrix) {
  const image = new ImageData(matrix.columns.labels.length, matrix.rows.labels.length);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i++) if (isShown(matrix, i)) pixels[i] = colourOf(matrix, i);
  picture.width = image.width;
  picture.height = image.height;
  penOf(picture).putImageData(image, 0, 0);
}

/**
 * Whether a cell shows its number: it is permitted, and not one of the marked zeros.
 * @param {Matrix} matrix
 * @param {number} at
 * @returns {boolean}
 */
const isShown = ({ mask, nonzero }, at) => !(mask && !mask[at]) && !(nonzero && !nonzero[at]);

/** @typedef {"linear" | "square root" | "logarithmic"} Law how the colour grows with the number */
/** @typedef {{ low: number, high: number, law?: Law }} Scale */

const LEAST = 1e-4; // of the high end: where a logarithmic scale begins

/**
 * Where a number stands on a table of colours: 0 at `low`, 1 at `high`. The same as `colour_places` in colours.py.
 * @param {number} value
 * @param {Scale} scale
 * @returns {number}
 */
export function colourPlace(value, { low, high, law = "linear" }) {
  if (law === "linear") return (value - low) / (high - low);
  const share = Math.abs(value) / high;
  const grown = law === "square root" ? Math.sqrt(share) : 1 - Math.log(Math.max(share, LEAST)) / Math.log(LEAST);
  return low === 0 ? grown : (1 + Math.sign(value) * grown) / 2;
}

/**
 * The number whose place that is; at the first colour of a logarithmic scale the largest of them.
 * @param {number} place
 * @param {Scale} scale
 * @returns {number}
 */
export function valueAt(place, { low, high, law = "linear" }) {
  if (law === "linear") return low + place * (high - low);
  const grown = low === 0 ? place : Math.abs(2 * place - 1), sign = low === 0 || place >= 0.5 ? 1 : -1;
  if (low !== 0 && grown === 0) return 0;
  return sign * high * (law === "square root" ? grown ** 2 : LEAST ** (1 - grown));
}

/**
 * @param {Matrix} matrix
 * @param {number} at
 * @returns {number} a pixel
 */
function colourOf(matrix, at) {
  const place = colourPlace(matrix.values[at] * matrix.factor, matrix);
  return matrix.lut[clamp(Math.floor(place * 255 + 0.5), 0, 255)];
}

/**
 * Permitted cells that are exactly 0: the page's own colour with dots, which no scale has.
 * @param {CanvasRenderingContext2D} pen
 * @param {HTMLCanvasElement} canvas
 * @param {Matrix} matrix
 * @param {HTMLElement} root
 */
function dotZeros(pen, canvas, { rows, columns, mask, nonzero }, root) {
  const width = canvas.width / columns.labels.length, height = canvas.height / rows.labels.length;
  pen.fillStyle = /** @type {CanvasPattern} */ (pen.createPattern(dottedTile(root), "repeat"));
  nonzero?.forEach((is, i) => {
    if (is || (mask && !mask[i])) return;
    const x = (i % columns.labels.length) * width, y = Math.floor(i / columns.labels.length) * height;
    pen.fillRect(Math.round(x), Math.round(y), Math.ceil(width), Math.ceil(height));
  });
}

/**
 * @param {HTMLElement} root
 * @returns {HTMLCanvasElement}
 */
function dottedTile(root) {
  const style = getComputedStyle(root), size = Math.round(7 * pixelRatio());
  const tile = element("canvas"), dot = Math.max(1, Math.round(size / 4));
  tile.width = tile.height = size;
  const pen = penOf(tile);
  pen.fillStyle = style.backgroundColor;
  pen.fillRect(0, 0, size, size);
  pen.fillStyle = style.getPropertyValue("--stream");
  pen.fillRect(Math.floor((size - dot) / 2), Math.floor((size - dot) / 2), dot, dot);
  return tile;
}

/**
 * Write into each permitted cell its number, black or white, whichever can be read on its colour.
 * @param {HTMLCanvasElement} canvas
 * @param {Matrix} matrix
 * @param {{ width: number, height: number }} size of a cell
 * @param {HTMLElement} root
 */
export function writeNumbers(canvas, matrix, size, root) {
  const { columns, values, factor } = matrix, ratio = pixelRatio(), pen = penOf(canvas);
  pen.font = `${12 * ratio}px ${getComputedStyle(root).fontFamily}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (let i = 0; i < values.length; i++) {
    if (!isShown(matrix, i)) continue;
    const colour = colourOf(matrix, i);
    const light = 0.3 * (colour & 255) + 0.59 * ((colour >> 8) & 255) + 0.11 * ((colour >> 16) & 255);
    pen.fillStyle = light > 128 ? "#000" : "#fff";
    const x = ((i % columns.labels.length) + 0.5) * size.width;
    const y = (Math.floor(i / columns.labels.length) + 0.5) * size.height;
    pen.fillText(formatInCell(values[i] * factor), x * ratio, y * ratio, (size.width - 4) * ratio);
  }
}

/**
 * The number of a permitted cell, with the digits that travelled.
 * @param {Matrix} matrix
 * @param {number} at
 * @returns {string}
 */
export function cellNumber({ values, factor, digits, floor = 0, nonzero }, at) {
  if (nonzero && !nonzero[at]) return "exactly 0";
  const value = values[at] * factor;
  return Math.abs(value) < floor ? `below ${formatNumber(floor, 2)}` : formatNumber(value, digits);
}
