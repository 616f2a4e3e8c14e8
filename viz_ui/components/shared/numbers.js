// How numbers are written: the same rule as `viz_ui/look/text.py`. tests/support/numbers.json holds the cases of both.

/** @type {Record<string, string>} */
const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const BYTES = ["B", "kB", "MB", "GB", "TB", "PB"];

/**
 * A measured number with so many significant digits: 0.3312, −12.04, 35,330; 1.204×10⁻⁵ below 0.001 and from a million
 * on. A 0 is exactly 0: what is only rounded to it shows its power of ten.
 * @param {number} value
 * @param {number} [digits]
 * @returns {string}
 */
export function formatNumber(value, digits = 4) {
  if (Number.isNaN(value)) return "not a number";
  const sign = value < 0 ? "−" : "", size = Math.abs(value);
  if (size === 0) return "0";
  if (size === Infinity) return `${sign}∞`;
  const [mantissa, exponent] = size.toExponential(digits - 1).split("e"), power = Number(exponent);
  if (power >= -3 && power < 6) {
    const rounded = Number(size.toPrecision(digits)).toFixed(Math.max(0, digits - 1 - power));
    return sign + withCommas(rounded);
  }
  return `${sign}${mantissa}×10${raised(power)}`;
}

/**
 * A count, which is exact: 12,345.
 * @param {number} count
 * @returns {string}
 */
export const formatCount = (count) => withCommas(String(count));

/**
 * So many of something: "1 token", "12,345 tokens".
 * @param {number} count
 * @param {string} noun
 * @returns {string}
 */
export const counted = (count, noun) => `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;

/**
 * Bytes to three digits: 96 B, 12.3 kB, 498 MB. Thousands, not 1024s.
 * @param {number} count
 * @returns {string}
 */
export function formatBytes(count) {
  let value = Number(count.toPrecision(3)), unit = 0;
  while (value >= 1000 && unit < BYTES.length - 1) {
    value = Number((value / 1000).toPrecision(3));
    unit += 1;
  }
  return `${withCommas(String(value))} ${BYTES[unit]}`;
}

/**
 * Parameters: 65,792; from a million on to three digits, 12.3 M.
 * @param {number} count
 * @returns {string}
 */
export function formatParameters(count) {
  if (count < 1e6) return formatCount(count);
  return count < 1e9 ? `${formatNumber(count / 1e6, 3)} M` : `${formatNumber(count / 1e9, 3)} G`;
}

/**
 * At an end of a colour bar, without zeros that say nothing: 0, 0.5, 1, −3.25.
 * @param {number} value
 * @returns {string}
 */
export const formatEnd = (value) =>
  formatNumber(value, 3).replace(/(\.\d*?)0+(?=×|$)/, "$1").replace(/\.(?=×|$)/, "");

/**
 * Within a cell, as many digits as have room there: 0.33, −1.2, 48.
 * @param {number} value
 * @returns {string}
 */
export function formatInCell(value) {
  const size = Math.abs(value), text = size.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
  return (value < 0 && Number(text) ? "−" : "") + text;
}

/**
 * @param {string} digits
 * @returns {string}
 */
const withCommas = (digits) => digits.replace(/\B(?<!\.\d*)(?=(\d{3})+(?!\d))/g, ",");

/**
 * @param {number} power
 * @returns {string}
 */
const raised = (power) => [...String(power)].map((sign) => SUPERSCRIPT[sign]).join("");
