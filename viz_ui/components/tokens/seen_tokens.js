// Rows of tokens: what each reader sees of a prompt with a blank in it. A click leaves another token out.

import { button, element } from "../shared/elements.js";
import { living } from "../shared/mounting.js";
import { TokenRows } from "./token_rows.js";

/** @typedef {{ title: string, words: string, blank: number, seen_until: number }} Row what a reader sees */

class SeenTokens extends TokenRows {
  /**
   * @override
   * @param {{ tokens: string[], rows: Row[] }} seen
   * @param {HTMLElement | null} focused
   */
  draw({ tokens, rows }, focused) {
    this.root.replaceChildren(...rows.map((row, number) => this.row(tokens, row, number)));
    /** @type {NodeListOf<HTMLElement>} */
    const lists = this.root.querySelectorAll(".tokens");
    for (const list of lists) this.keepInView(list);
    /** @type {HTMLElement | null} */
    const blank = focused && this.root.querySelector(`button[data-row="${focused.dataset.row}"].blank`);
    blank?.focus({ preventScroll: true });
  }

  /**
   * @param {string[]} tokens labels
   * @param {Row} row
   * @param {number} number
   */
  row(tokens, { title, words, blank, seen_until: until }, number) {
    const row = element("section", "row"), list = element("div", "tokens");
    row.append(element("b", "", title), element("span", "small", words), list);
    list.setAttribute("role", "group");
    list.ariaLabel = `What ${title} sees. Click a token to hide it.`;
    list.append(...tokens.map((label, token) => {
      const kind = token === blank ? "blank" : token < until ? "seen" : "beyond";
      const node = button(`token ${kind}`, token === blank ? "▁▁▁" : label);
      node.value = String(token);
      node.dataset.row = String(number);
      node.tabIndex = token === blank ? 0 : -1;
      const state = token === blank ? ", hidden" : token < until ? "" : ", not seen";
      node.ariaLabel = `${title}: token ${token}, ${label}${state}`;
      node.ariaPressed = String(token === blank);
      return node;
    }));
    return row;
  }

  /** @param {HTMLElement} list */
  keepInView(list) {
    const blank = /** @type {HTMLElement} */ (list.querySelector(".blank"));
    const middle = blank.offsetTop - list.clientHeight / 2;
    list.scrollTop = list.scrollHeight > list.clientHeight ? middle : 0;
  }
}

export default living(SeenTokens, ".seen-tokens");
