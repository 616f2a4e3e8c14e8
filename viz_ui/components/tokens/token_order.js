// Tokens as chips in a row: one is dragged to its new place, or moved with Shift and the arrow keys.

import { applyTheme, clamp, element, living, sameList, unpack } from "../shared/shared.js";

class TokenOrder {
  constructor(root) {
    this.root = root;
    this.moves = 0; // that were told
    this.chips = [];
    root.onpointerdown = (event) => this.grab(event);
    root.onpointermove = (event) => this.drag(event);
    root.onpointerup = () => this.drop();
    root.onpointercancel = () => this.drop();
    root.onkeydown = (event) => this.key(event);
  }

  tell(event) {
    this.send("move", event);
  }

  receive(data) {
    applyTheme(this.root);
    if (data === this.data) return;
    this.data = data;
    const { labels, order, answered } = unpack(data).head, other = !sameList(labels, this.labels);
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

  chip(label, token) {
    const chip = element("button", "chip token", label);
    chip.type = "button";
    chip.value = token;
    return chip;
  }

  /** Chips in their order; those that do not stand where they were typed are marked. */
  show(focus) {
    const focused = focus != null || this.root.contains(this.root.getRootNode().activeElement);
    this.focus = focus ?? this.focus ?? this.order[0];
    this.root.replaceChildren(...this.order.map((token, place) => {
      const chip = this.chips[token], item = element("div");
      item.setAttribute("role", "listitem");
      chip.classList.toggle("moved", token !== place);
      chip.classList.toggle("held", token === this.held);
      chip.tabIndex = token === this.focus ? 0 : -1;
      chip.ariaLabel = `${this.labels[token]}, at place ${place}. Arrow keys go along the row; with Shift they move the token.`;
      item.append(chip);
      return item;
    }));
    if (focused) this.chips[this.focus].focus({ preventScroll: true }); // it was lost with the old row
  }

  grab(event) {
    const chip = event.target.closest("button");
    if (!chip || event.button !== 0) return;
    event.preventDefault();
    this.root.setPointerCapture(event.pointerId);
    this.held = Number(chip.value);
    this.before = [...this.order];
    this.show(this.held);
  }

  /** The held token takes the place of the one whose middle the pointer has passed. */
  drag(event) {
    if (this.held == null) return;
    const under = this.root.getRootNode().elementFromPoint(event.clientX, event.clientY)?.closest("button");
    if (!this.chips.includes(under) || under === this.chips[this.held]) return;
    const place = this.order.indexOf(Number(under.value)), from = this.order.indexOf(this.held);
    const box = under.getBoundingClientRect(), sameLine = box.top === this.chips[this.held].getBoundingClientRect().top;
    const passed = event.clientX > (box.left + box.right) / 2 === place > from;
    if (passed || !sameLine) this.move(this.held, place);
  }

  drop() {
    if (this.held == null) return;
    const token = this.held;
    this.held = null;
    this.show(token);
    if (!sameList(this.order, this.before)) this.told();
  }

  move(token, place) {
    this.order = this.order.filter((other) => other !== token);
    this.order.splice(place, 0, token);
    this.show(token);
  }

  key(event) {
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!by) return;
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
