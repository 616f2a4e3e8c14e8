// Two texts one above the other: a column is a button, with the token of each text; a click chooses it.

import { button, element } from "../shared/elements.js";
import { living } from "../shared/mounting.js";
import { TokenRows } from "./token_rows.js";

/**
 * @typedef {object} Texts
 * @property {[string | null, string | null][]} columns a label of each text; null: it has no token there
 * @property {[string, string]} names of the texts
 * @property {boolean[]} differing of each column
 * @property {number | null} chosen
 */

class AlignedTokens extends TokenRows {
  /**
   * @override
   * @param {Texts} texts
   * @param {HTMLElement | null} focused
   */
  draw(texts, focused) {
    const names = element("div", "names"), list = element("div", "columns");
    names.append(...texts.names.map((name) => element("span", "", name)));
    list.setAttribute("role", "group");
    list.ariaLabel = `The two prompts, ${texts.names[0]} above ${texts.names[1]}. Click a token to choose its place.`;
    list.append(...texts.columns.map((_, at) => this.column(texts, at)));
    this.root.replaceChildren(names, list);
    /** @type {HTMLElement | null} */
    const chosen = list.querySelector("[aria-pressed=true]");
    if (chosen) list.scrollTop = list.scrollHeight > list.clientHeight ? chosen.offsetTop - 8 : 0;
    if (focused) chosen?.focus({ preventScroll: true });
  }

  /**
   * @param {Texts} texts
   * @param {number} at
   */
  column({ columns, names, differing, chosen }, at) {
    const node = button(`column${differing[at] ? " other" : ""}`), labels = columns[at];
    const [first, second] = labels.map((label) => element("span", label === null ? "none" : "token", label ?? "–"));
    node.append(first, " ", second);
    node.value = String(at);
    node.tabIndex = at === (chosen ?? 0) ? 0 : -1;
    node.ariaPressed = String(at === chosen);
    node.ariaLabel = `${labels.map((label) => label ?? "–").join(" ")}, ${differing[at] ? "different" : "the same"}`;
    node.ariaDescription = labels.map((label, row) => `${names[row]}: ${label ?? "no token"}`).join(", ");
    return node;
  }
}

export default living(AlignedTokens, ".aligned-tokens");
