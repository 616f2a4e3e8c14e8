// Where the arrows of the diagram of shapes run: right angles between boxes, in the gaps that the grid leaves.

/** The points of the arrow from box `a` to box `b`, each { left, right, top, bottom }; `gap` between rows. */
function route(a, b, { gap, edge, wrapped }) {
  const middle = ({ left, right }) => (left + right) / 2, height = ({ top, bottom }) => (top + bottom) / 2;
  if (wrapped) { // the stream goes on in the next line of the page
    const y = b.top - gap / 2;
    return [[a.right, height(a)], [edge, height(a)], [edge, y], [1, y], [1, height(b)], [b.left, height(b)]];
  }
  const level = Math.abs(height(a) - height(b)) < 1, upright = Math.abs(middle(a) - middle(b)) < 1;
  if (level) return [[a.right, height(a)], [b.left, height(b)]];
  const down = b.top > a.top;
  if (upright) return down ? [[middle(a), a.bottom], [middle(b), b.top]] : [[middle(a), a.top], [middle(b), b.bottom]];
  if (!down) return [[a.right, height(a)], [middle(b), height(a)], [middle(b), b.bottom]];
  const from = Math.sign(middle(a) - middle(b)); // enters beside the middle, which is a straight arrow's
  const x = middle(b) + from * Math.min(22, (b.right - b.left) / 4), y = b.top - gap / 2;
  return [[middle(a), a.bottom], [middle(a), y], [x, y], [x, b.top]];
}

/** An SVG element with attributes. */
function drawn(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** A line with an arrow's head at its end; the stream's is thick and grey. */
function arrow(points, isStream) {
  const line = drawn("polyline", { points: points.map((point) => point.join(",")).join(" ") });
  line.setAttribute("class", isStream ? "stream-line" : "flow");
  const [[fromX, fromY], [x, y]] = points.slice(-2), angle = Math.atan2(y - fromY, x - fromX) * (180 / Math.PI);
  const head = drawn("path", { d: isStream ? "M 0 0 L -9 -6 L -9 6 Z" : "M 0 0 L -7 -4 L -7 4 Z" });
  head.setAttribute("transform", `translate(${x} ${y}) rotate(${angle})`);
  head.setAttribute("class", isStream ? "stream-head" : "head");
  return [line, head];
}
