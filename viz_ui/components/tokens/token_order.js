// Tokens as chips in a row: one is dragged to its new place, or moved with Shift and the arrow keys.

import { unpack } from "../shared/blob.js";
import { button, buttonOf, element, focusedIn } from "../shared/elements.js";
import { applyTheme, clamp, sameList } from "../shared/look.js";
import { living } from "../shared/mounting.js";

/** @type {Record<string, number>} */
const ALONG = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

class TokenOrder {
  /** @type {import("../shared/mounting.js").Send} */
  send;
  /** @type {Uint8Array | undefined} */
  data;
  moves = 0; // that were told
  /** @type {HTMLButtonElement[]} */
  chips = []; // by token
  /** @type {string[] | undefined} */
  labels; // by token
  /** @type {number[]} */
  order = []; // the token at each place
  /** @type {number[]} */
  before = []; // the order when a token was grabbed
  /** @type {number | null} */
  held = null;
  /** @type {number | null} */
  focus = null;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    root.onpointerdown = (event) => this.grab(event);
    root.onpointermove = (event) => this.drag(event);
    root.onpointerup = () => this.drop();
    root.onpointercancel = () => this.drop();
    root.onkeydown = (event) => this.key(event);
  }

  /** @param {unknown} event */
  tell(event) {
    this.send("move", event);
  }

  /** @param {Uint8Array} data */
  receive(data) {
    applyTheme(this.root);
    if (data === this.data) return;
    this.data = data;
    /** @type {{ labels: string[], order: number[], answered: number }} */
    const { labels, order, answered } = unpack(data).head;
    const other = !sameList(labels, this.labels);
    if (other) {
      this.labels = labels;
      this.focus = null;
      this.chips = labels.map((label, token) => this.chip(label, token));
    }
    if (other || answered >= this.moves) { // an answer to an earlier move takes nothing back
      this.moves = Math.max(this.moves, answered);
      this.order = order;
      this.held = null;
      this.show();
    }
  }

  /**
   * @param {string} label
   * @param {number} token
   */
  chip(label, token) {
    const chip = button("chip token", label);
    chip.value = String(token);
    return chip;
  }

  /**
   * Chips in their order; those that do not stand where they were typed are marked.
   * @param {number} [focus] the token that gets the focus
   */
  show(focus) {
    const focused = focus !== undefined || this.root.contains(focusedIn(this.root)), { labels = [] } = this;
    const stop = focus ?? this.focus ?? this.order[0];
    this.focus = stop;
    this.root.replaceChildren(...this.order.map((token, place) => {
      const chip = this.chips[token], item = element("div");
      item.setAttribute("role", "listitem");
      chip.classList.toggle("moved", token !== place);
      chip.classList.toggle("held", token === this.held);
      chip.tabIndex = token === stop ? 0 : -1;
      chip.ariaLabel = `${labels[token]}, at place ${place}. `
        + "Arrow keys go along the row; with Shift they move the token.";
      item.append(chip);
      return item;
    }));
    if (focused) this.chips[stop].focus({ preventScroll: true }); // it was lost with the old row
  }

  /** @param {PointerEvent} event */
  grab(event) {
    const chip = buttonOf(event);
    if (!chip || event.button !== 0) return;
    event.preventDefault();
    this.root.setPointerCapture(event.pointerId);
    this.held = Number(chip.value);
    this.before = [...this.order];
    this.show(this.held);
  }

  /**
   * The held token takes the place of the one whose middle the pointer has passed.
   * @param {PointerEvent} event
   */
  drag(event) {
    if (this.held === null) return;
    const tree = /** @type {ShadowRoot} */ (this.root.getRootNode());
    const under = tree.elementFromPoint(event.clientX, event.clientY)?.closest("button");
    if (!under || !this.chips.includes(under) || under === this.chips[this.held]) return;
    const place = this.order.indexOf(Number(under.value)), from = this.order.indexOf(this.held);
    const box = under.getBoundingClientRect(), sameLine = box.top === this.chips[this.held].getBoundingClientRect().top;
    const passed = event.clientX > (box.left + box.right) / 2 === place > from;
    if (passed || !sameLine) this.move(this.held, place);
  }

  drop() {
    if (this.held === null) return;
    const token = this.held;
    this.held = null;
    this.show(token);
    if (!sameList(this.order, this.before)) this.told();
  }

  /**
   * @param {number} token
   * @param {number} place
   */
  move(token, place) {
    this.order = this.order.filter((other) => other !== token);
    this.order.splice(place, 0, token);
    this.show(token);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const by = ALONG[event.key];
    if (!by || this.focus === null) return;
    event.preventDefault();
    const from = this.order.indexOf(this.focus), to = clamp(from + by, 0, this.order.length - 1);
    if (!event.shiftKey) this.show(this.order[to]);
    else if (from !== to) {
      this.move(this.focus, to);
      this.told();
    }
  }

  told() {
    this.moves += 1;
    this.tell([this.order, this.moves]);
  }
}

export default living(TokenOrder, ".token-order");
