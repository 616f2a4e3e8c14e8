// Arrow keys between buttons that stand anywhere on a plane.

/** @type {Record<string, [x: number, y: number]>} */
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/**
 * The nearest of the buttons in the direction of an arrow key, or undefined for another key or nothing there.
 * @template {HTMLElement} Button
 * @param {KeyboardEvent} event
 * @param {HTMLElement | null | undefined} from
 * @param {Iterable<Button>} buttons
 * @returns {Button | undefined}
 */
export function nearestAhead(event, from, buttons) {
  const step = DIRECTIONS[event.key];
  if (!from || !step || event.ctrlKey || event.altKey || event.metaKey) return undefined;
  event.preventDefault();
  const here = centre(from);
  const ahead = [...buttons].map((button) => {
    const there = centre(button), x = there.x - here.x, y = there.y - here.y;
    const along = x * step[0] + y * step[1], aside = Math.abs(x * step[1]) + Math.abs(y * step[0]);
    return { button, along, far: along + 2.5 * aside };
  });
  return ahead.filter(({ along }) => along > 4).sort((a, b) => a.far - b.far)[0]?.button;
}

/** @param {HTMLElement} node */
function centre(node) {
  const { left, right, top, bottom } = node.getBoundingClientRect();
  return { x: (left + right) / 2, y: (top + bottom) / 2 };
}
