// The cells of a matrix as pixels, and their numbers as text.

import { clamp, element, fillHatched, formatNumber } from "./shared.js";

/** Paint all cells: permitted ones in their colour, masked ones hatched, marked zeros dotted.
 *  `picture` is a canvas to work on. */
export function paintCells(canvas, picture, spec, root) {
  const { rows, columns, values, factor, mask, nonzero, low, high, lut } = spec;
  const image = new ImageData(columns.labels.length, rows.labels.length); // one pixel a cell, enlarged below
  const pixels = new Uint32Array(image.data.buffer), scale = 255 / (high - low);
  for (let i = 0; i < pixels.length; i++) {
    if ((mask && !mask[i]) || (nonzero && !nonzero[i])) continue; // stays transparent: the pattern below shows
    pixels[i] = lut[clamp(Math.floor((values[i] * factor - low) * scale + 0.5), 0, 255)];
  }
  picture.width = image.width;
  picture.height = image.height;
  picture.getContext("2d").putImageData(image, 0, 0);
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  if (mask) fillHatched(pen, root, canvas.width, canvas.height);
  if (nonzero) dotZeros(pen, canvas, spec, root);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
}

/** Permitted cells that are exactly 0: the page's own colour with dots, which no scale has. */
function dotZeros(pen, canvas, { rows, columns, mask, nonzero }, root) {
  const width = canvas.width / columns.labels.length, height = canvas.height / rows.labels.length;
  pen.fillStyle = pen.createPattern(dottedTile(root), "repeat");
  for (let i = 0; i < nonzero.length; i++) {
    if (nonzero[i] || (mask && !mask[i])) continue;
    const x = (i % columns.labels.length) * width, y = Math.floor(i / columns.labels.length) * height;
    pen.fillRect(Math.round(x), Math.round(y), Math.ceil(width), Math.ceil(height));
  }
}

function dottedTile(root) {
  const style = getComputedStyle(root), size = Math.round(7 * (window.devicePixelRatio || 1));
  const tile = element("canvas"), dot = Math.max(1, Math.round(size / 4));
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.fillStyle = style.backgroundColor;
  pen.fillRect(0, 0, size, size);
  pen.fillStyle = style.getPropertyValue("--stream");
  pen.fillRect(Math.floor((size - dot) / 2), Math.floor((size - dot) / 2), dot, dot);
  return tile;
}

/** Write into each permitted cell its number, black or white, whichever can be read on its colour. */
export function writeNumbers(canvas, spec, size, root) {
  const { columns, values, factor, mask, nonzero, low, high, lut } = spec, ratio = window.devicePixelRatio || 1;
  const pen = canvas.getContext("2d"), scale = 255 / (high - low);
  pen.font = `${11 * ratio}px ${getComputedStyle(root).fontFamily}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (let i = 0; i < values.length; i++) {
    if ((mask && !mask[i]) || (nonzero && !nonzero[i])) continue;
    const value = values[i] * factor, colour = lut[clamp(Math.floor((value - low) * scale + 0.5), 0, 255)];
    const light = 0.3 * (colour & 255) + 0.59 * ((colour >> 8) & 255) + 0.11 * ((colour >> 16) & 255);
    pen.fillStyle = light > 128 ? "#000" : "#fff";
    const x = ((i % columns.labels.length) + 0.5) * size.width;
    const y = (Math.floor(i / columns.labels.length) + 0.5) * size.height;
    pen.fillText(shortNumber(value), x * ratio, y * ratio, (size.width - 4) * ratio);
  }
}

/** The number of a permitted cell, with the digits that travelled. */
export function cellNumber({ values, factor, digits, floor, nonzero }, at) {
  if (nonzero && !nonzero[at]) return "0 exactly";
  const value = values[at] * factor;
  return Math.abs(value) < floor ? `below ${formatNumber(floor, 2)}` : formatNumber(value, digits);
}

/** As many digits as fit into a cell: 0.33, −1.2, 48. */
function shortNumber(value) {
  const size = Math.abs(value);
  const text = size.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
  return (value < 0 && Number(text) ? "−" : "") + text;
}

/** The number at an end of a colour bar, without zeros that say nothing: 0, 0.5, 1, −3.25. */
export function endNumber(value) {
  return formatNumber(value, 3).replace(/(\.\d*?)0+(?=×|$)/, "$1").replace(/\.(?=×|$)/, "");
}
