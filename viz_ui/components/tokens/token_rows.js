// Rows of tokens, each token a button: a click chooses it, and the arrow keys walk within its row.

import { unpack } from "../shared/blob.js";
import { buttonOf, focusedIn } from "../shared/elements.js";
import { applyTheme } from "../shared/look.js";
import { nearestAhead } from "../shared/walk.js";

/** What draws such rows says how in `draw`; a row is a group, and the value of a button is what a click chooses. */
export class TokenRows {
  /** @type {import("../shared/mounting.js").Send} */
  send;
  /** @type {Uint8Array | undefined} */
  packed;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    root.onclick = (event) => this.pick(buttonOf(event));
    root.onkeydown = (event) => this.move(event);
  }

  /** @param {Uint8Array} data */
  receive(data) {
    applyTheme(this.root);
    if (data === this.packed) return;
    this.packed = data;
    this.draw(unpack(data).head, focusedIn(this.root));
  }

  /**
   * @param {any} _rows what Python sent
   * @param {HTMLElement | null} _focused the button that had the keyboard before
   */
  draw(_rows, _focused) {
    throw new Error("each kind of rows draws its own");
  }

  /** @param {HTMLButtonElement | null} button */
  pick(button) {
    if (button) this.send("pick", Number(button.value));
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    const from = buttonOf(event), row = from?.closest("[role=group]");
    const next = row && nearestAhead(event, from, row.querySelectorAll("button"));
    if (!row || !next) return;
    for (const button of row.querySelectorAll("button")) button.tabIndex = button === next ? 0 : -1;
    next.focus();
  }
}
