// What bars and lines of a long text leave out.

import { counted, formatNumber } from "../shared/numbers.js";

/**
 * What is said of the keys that bars or lines leave out of a query's row.
 * @param {{ count: number, total: number, largest: number }} rest
 * @param {import("./panels.js").MatrixItem} of
 */
export function restInWords({ count, total, largest }, of) {
  if (!count) return "";
  const others = `The other ${counted(count, of.columns.axis)}`;
  if (of.role === "weights") return `${others} have ${formatNumber(total * of.factor, 3)} of the weight together.`;
  return `${others} ${count === 1 ? "is" : "are"} at most ${formatNumber(Math.abs(largest * of.factor), 3)} from 0.`;
}
