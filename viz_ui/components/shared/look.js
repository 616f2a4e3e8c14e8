// How pictures look: light or dark, the hatching of masked cells, a colour bar, and the sizes that several share.

import { element, penOf } from "./elements.js";

export const TEXT_HEIGHT = 13; // pixels that a line of a label or a number takes at least
const LABEL_STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/**
 * @param {number} value
 * @param {number} low
 * @param {number} high
 */
export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/**
 * Whether two lists hold the same, item by item.
 * @param {readonly unknown[] | null | undefined} a
 * @param {readonly unknown[] | null | undefined} b
 * @returns {boolean}
 */
export const sameList = (a, b) =>
  a === b || Boolean(a && b && a.length === b.length && a.every((item, i) => item === b[i]));

/** Pixels of the screen for one of the style sheet. */
export const pixelRatio = () => window.devicePixelRatio || 1;

/**
 * Every how many rows or columns have room for a label: 1, 2, 5, 10, …; `all` where none has.
 * @param {number} cell pixels of a row or column
 * @param {number} all
 * @returns {number}
 */
export const labelStep = (cell, all) => LABEL_STEPS.find((step) => step * cell >= TEXT_HEIGHT) ?? all;

/**
 * Write data-theme on the root, from the page's own background; true when it changed.
 * @param {HTMLElement} root
 * @returns {boolean}
 */
export function applyTheme(root) {
  const [red, green, blue] = (getComputedStyle(root).backgroundColor.match(/[\d.]+/g) ?? []).map(Number);
  const theme = red + green + blue < 384 ? "dark" : "light";
  const changed = root.dataset.theme !== theme;
  root.dataset.theme = theme;
  return changed;
}

/**
 * Give a canvas its size, in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 */
export function sizeCanvas(canvas, width, height) {
  canvas.width = Math.round(width * pixelRatio());
  canvas.height = Math.round(height * pixelRatio());
}

/**
 * Fill a canvas with the hatching of masked cells, in the two greys that the style sheet has from colours.py.
 * @param {CanvasRenderingContext2D} pen
 * @param {HTMLElement} root
 * @param {number} width
 * @param {number} height
 */
export function fillHatched(pen, root, width, height) {
  const style = getComputedStyle(root), size = Math.round(6 * pixelRatio());
  const tile = element("canvas");
  tile.width = tile.height = size;
  const tilePen = penOf(tile);
  tilePen.fillStyle = style.getPropertyValue("--hatch-ground");
  tilePen.fillRect(0, 0, size, size);
  tilePen.strokeStyle = style.getPropertyValue("--hatch-line");
  tilePen.lineWidth = size / 4;
  tilePen.beginPath();
  for (const shift of [-size, 0, size]) {
    tilePen.moveTo(shift - size, size * 2);
    tilePen.lineTo(shift + size * 2, -size);
  }
  tilePen.stroke();
  pen.fillStyle = /** @type {CanvasPattern} */ (pen.createPattern(tile, "repeat"));
  pen.fillRect(0, 0, width, height);
}

/**
 * Paint the 256 colours of a scale side by side.
 * @param {HTMLCanvasElement} canvas
 * @param {Uint32Array} lut
 */
export function paintRamp(canvas, lut) {
  const image = new ImageData(256, 1);
  new Uint32Array(image.data.buffer).set(lut);
  canvas.width = 256;
  canvas.height = 1;
  penOf(canvas).putImageData(image, 0, 0);
}
