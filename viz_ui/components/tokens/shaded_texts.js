// Texts in groups, each a link: its tokens are shaded by the weights of one query. Pointed at, a token says its weight.

import { unpack } from "../shared/blob.js";
import { closest, element, Tooltip } from "../shared/elements.js";
import { applyTheme } from "../shared/look.js";
import { living } from "../shared/mounting.js";
import { counted, formatNumber } from "../shared/numbers.js";

/**
 * @typedef {object} Token
 * @property {string} label
 * @property {number | null} weight that the query puts on it; null: it is no key
 * @property {boolean} is_query
 * @property {boolean} is_key
 * @property {number} skipped tokens before it
 */

/**
 * @typedef {object} Text
 * @property {string} words
 * @property {string} name of the link
 * @property {string} href
 * @property {Token[]} tokens
 * @property {number} left tokens behind the last one
 */

class ShadedTexts {
  /** @type {import("../shared/mounting.js").Send} */
  send;
  /** @type {Uint8Array | undefined} */
  packed;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.list = root.appendChild(element("div", "groups"));
    this.tooltip = new Tooltip(root);
    this.list.onpointermove = (event) => this.point(event);
    this.list.onpointerleave = () => this.tooltip.hide();
  }

  /** @param {Uint8Array} data */
  receive(data) {
    applyTheme(this.root);
    if (data === this.packed) return;
    this.packed = data;
    /** @type {{ groups: { title: string, texts: Text[] }[] }} */
    const { groups } = unpack(data).head;
    this.list.replaceChildren(...groups.map(({ title, texts }) => {
      const group = element("section", "group");
      group.append(element("h4", "title", title), ...texts.map((text) => this.text(text)));
      return group;
    }));
  }

  /** @param {Text} text */
  text({ words, name, href, tokens, left }) {
    const row = element(href ? "a" : "div", "text"), line = element("div", "tokens");
    if (href) Object.assign(row, { href, target: "_blank", rel: "noopener" });
    const head = row.appendChild(element("div", "small head"));
    head.append(element("span", "", words), element("span", "opens", name));
    row.append(line);
    const largest = Math.max(...tokens.map(({ weight }) => weight ?? 0)) || 1;
    line.append(...tokens.flatMap((token) => [gap(token.skipped), this.token(token, largest)]), gap(left));
    return row;
  }

  /**
   * @param {Token} token
   * @param {number} largest weight of the text
   */
  token({ label, weight, is_query: isQuery, is_key: isKey }, largest) {
    const node = element("span", ["token", isQuery && "asks", isKey && "read"].filter(Boolean).join(" "), label);
    node.style.setProperty("--shade", `${(45 * Math.max(weight ?? 0, 0)) / largest}%`); // text stays readable on it
    node.dataset.weight = weight === null ? "" : formatNumber(weight, 3);
    return node;
  }

  /** @param {PointerEvent} event */
  point(event) {
    const token = closest(event, ".token");
    if (!token) return this.tooltip.hide();
    const { weight } = token.dataset;
    const words = weight ? `the query's weight on it: ${weight}` : "not read by this query";
    this.tooltip.show([[token.textContent ?? "", "number"], [words, ""]], event.clientX, event.clientY);
  }
}

/**
 * Where tokens are left out.
 * @param {number} tokens
 */
function gap(tokens) {
  return tokens ? element("span", "gap", `… ${counted(tokens, "token")} …`) : "";
}

export default living(ShadedTexts, ".shaded-texts");
