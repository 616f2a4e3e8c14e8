// The cells of a matrix as pixels, and their numbers as text.

/** Paint all cells: permitted ones in their colour, masked ones hatched. `picture` is a canvas to work on. */
function paintCells(canvas, picture, spec, root) {
  const { rows, columns, values, factor, mask, low, high, lut } = spec;
  const image = new ImageData(columns.labels.length, rows.labels.length); // one pixel a cell, enlarged below
  const pixels = new Uint32Array(image.data.buffer), scale = 255 / (high - low);
  for (let i = 0; i < pixels.length; i++) {
    if (mask && !mask[i]) continue; // stays transparent: the hatching below shows
    pixels[i] = lut[clamp(Math.floor((values[i] * factor - low) * scale + 0.5), 0, 255)];
  }
  picture.width = image.width;
  picture.height = image.height;
  picture.getContext("2d").putImageData(image, 0, 0);
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  if (mask) fillHatched(pen, root, canvas.width, canvas.height);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
}

/** Write into each permitted cell its number, black or white, whichever can be read on its colour. */
function writeNumbers(canvas, spec, size, root) {
  const { columns, values, factor, mask, low, high, lut } = spec, ratio = window.devicePixelRatio || 1;
  const pen = canvas.getContext("2d"), scale = 255 / (high - low);
  pen.font = `${11 * ratio}px ${getComputedStyle(root).fontFamily}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (let i = 0; i < values.length; i++) {
    if (mask && !mask[i]) continue;
    const value = values[i] * factor, colour = lut[clamp(Math.floor((value - low) * scale + 0.5), 0, 255)];
    const light = 0.3 * (colour & 255) + 0.59 * ((colour >> 8) & 255) + 0.11 * ((colour >> 16) & 255);
    pen.fillStyle = light > 128 ? "#000" : "#fff";
    const x = ((i % columns.labels.length) + 0.5) * size.width;
    const y = (Math.floor(i / columns.labels.length) + 0.5) * size.height;
    pen.fillText(shortNumber(value), x * ratio, y * ratio, (size.width - 4) * ratio);
  }
}

/** The number of a permitted cell, with the digits that travelled. */
function cellNumber({ values, factor, digits, floor }, at) {
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
function endNumber(value) {
  return formatNumber(value, 3).replace(/(\.\d*?)0+(?=×|$)/, "$1").replace(/\.(?=×|$)/, "");
}
