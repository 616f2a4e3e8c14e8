// The blob of packing.py: a header of JSON, and the bytes of arrays behind it.

/** @typedef {{ new (buffer: ArrayBuffer, at: number, count: number): any }} ArrayType */

/**
 * What a blob holds: its header, and readers that walk through the arrays behind it.
 * @typedef {object} Unpacked
 * @property {any} head
 * @property {(count: number) => Float32Array} floats
 * @property {(count: number) => Float32Array} halves float16 that travelled
 * @property {(count: number) => Uint8Array} bytes
 */

/**
 * @param {Uint8Array} data
 * @returns {Unpacked}
 */
export function unpack(data) {
  const own = data.slice(); // a buffer of its own: the message's buffer may start at any byte
  const length = new DataView(own.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(own.subarray(4, 4 + length)));
  let at = 4 + length;
  /**
   * @template {Float32Array | Uint16Array | Uint8Array} Taken
   * @param {{ new (buffer: ArrayBuffer, at: number, count: number): Taken }} type
   * @param {number} count
   */
  const take = (type, count) => {
    const array = new type(/** @type {ArrayBuffer} */ (own.buffer), at, count);
    at += array.byteLength;
    return array;
  };
  return {
    head,
    floats: (count) => take(Float32Array, count),
    halves: (count) => floatsOfHalves(take(Uint16Array, count)),
    bytes: (count) => take(Uint8Array, count),
  };
}

/** @type {Float32Array | undefined} */
let halfTable; // every float16 there is, filled when the first large matrix arrives

/**
 * @param {Uint16Array} raw
 * @returns {Float32Array}
 */
function floatsOfHalves(raw) {
  halfTable ??= Float32Array.from({ length: 65536 }, (_, bits) => {
    const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -14 * (fraction / 1024));
  });
  const floats = new Float32Array(raw.length);
  for (let i = 0; i < raw.length; i++) floats[i] = halfTable[raw[i]];
  return floats;
}

/**
 * Bits of numpy.packbits, one byte a cell.
 * @param {Uint8Array} bits
 * @param {number} cells
 * @returns {Uint8Array}
 */
export function spreadBits(bits, cells) {
  const bytes = new Uint8Array(cells);
  for (let i = 0; i < cells; i++) bytes[i] = (bits[i >> 3] >> (7 - (i & 7))) & 1;
  return bytes;
}

/**
 * 256 rows of red, green, blue as one 32-bit pixel each, as ImageData holds them.
 * @param {Uint8Array} rgb
 * @returns {Uint32Array}
 */
export function pixelTable(rgb) {
  const table = new Uint32Array(256);
  const bytes = new Uint8ClampedArray(table.buffer);
  for (let i = 0; i < 256; i++) bytes.set([rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2], 255], 4 * i);
  return table;
}
