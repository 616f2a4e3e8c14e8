// Where the arrows of the diagram of shapes run: right angles between boxes, in the gaps that the grid leaves.

/** @typedef {{ left: number, right: number, top: number, bottom: number }} Box */

/** @param {Box} box */
const middle = ({ left, right }) => (left + right) / 2;

/** @param {Box} box */
const height = ({ top, bottom }) => (top + bottom) / 2;

/**
 * The points of the arrow from box `a` to box `b`.
 * @param {Box} a
 * @param {Box} b
 * @param {object} way
 * @param {number} way.gap between two boxes
 * @param {number} way.edge the right end of a line of boxes
 * @param {boolean} way.wrapped whether `b` stands in the next line
 * @param {boolean} [way.stream] whether it is the residual stream
 * @returns {import("../shared/arrows.js").Point[]}
 */
export function route(a, b, { gap, edge, wrapped, stream }) {
  if (wrapped) { // the stream goes on in the next line of the page
    const y = b.top - gap / 2;
    return [[a.right, height(a)], [edge, height(a)], [edge, y], [1, y], [1, height(b)], [b.left, height(b)]];
  }
  const level = Math.abs(height(a) - height(b)) < 1, upright = Math.abs(middle(a) - middle(b)) < 1;
  if (level) return [[a.right, height(a)], [b.left, height(b)]];
  const down = b.top > a.top;
  if (upright) return down ? [[middle(a), a.bottom], [middle(b), b.top]] : [[middle(a), a.top], [middle(b), b.bottom]];
  if (!down && stream) { // over the boxes beside it, back to the stream's own row
    const x = a.right + gap / 2;
    return [[a.right, height(a)], [x, height(a)], [x, height(b)], [b.left, height(b)]];
  }
  if (!down) return [[a.right, height(a)], [middle(b), height(a)], [middle(b), b.bottom]];
  const from = Math.sign(middle(a) - middle(b)); // enters beside the middle, which is a straight arrow's
  const x = middle(b) + from * Math.min(22, (b.right - b.left) / 4), y = b.top - gap / 2;
  return [[middle(a), a.bottom], [middle(a), y], [x, y], [x, b.top]];
}
