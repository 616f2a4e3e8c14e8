// Arrows of diagrams: thin ones, and the thick grey one of the residual stream (arrows.css).

import { drawn } from "./elements.js";

/** @typedef {[x: number, y: number]} Point */

/**
 * A line with an arrow's head at its end.
 * @param {Point[]} points
 * @param {boolean} isStream
 * @returns {SVGElement[]}
 */
export function arrow(points, isStream) {
  const line = drawn("polyline", { points: points.map((point) => point.join(",")).join(" ") });
  line.setAttribute("class", isStream ? "stream-line" : "flow");
  const [[fromX, fromY], [x, y]] = points.slice(-2), angle = Math.atan2(y - fromY, x - fromX) * (180 / Math.PI);
  const head = drawn("path", { d: isStream ? "M 0 0 L -9 -6 L -9 6 Z" : "M 0 0 L -7 -4 L -7 4 Z" });
  head.setAttribute("transform", `translate(${x} ${y}) rotate(${angle})`);
  head.setAttribute("class", isStream ? "stream-head" : "head");
  return [line, head];
}
