// Rows of tokens: what each reader sees of a prompt with a blank in it. A click leaves another token out.

import { applyTheme, element, living, unpack } from "../shared/shared.js";
import { nearestAhead } from "../shared/walk.js";

class SeenTokens {
  constructor(root) {
    this.root = root;
    root.onclick = (event) => this.pick(event.target.closest("button"));
    root.onkeydown = (event) => this.move(event);
  }

  tell(token) {
    this.send("pick", token);
  }

  receive(data) {
    applyTheme(this.root);
    if (data === this.packed) return;
    this.packed = data;
    const { tokens, rows } = unpack(data).head, focused = this.root.getRootNode().activeElement?.dataset?.row;
    this.root.replaceChildren(...rows.map((row, number) => this.row(tokens, row, number)));
    for (const list of this.root.querySelectorAll(".tokens")) this.keepInView(list);
    if (focused) this.root.querySelector(`button[data-row="${focused}"].blank`)?.focus({ preventScroll: true });
  }

  row(tokens, { title, words, blank, seen_until: until }, number) {
    const row = element("section", "row"), list = element("div", "tokens");
    row.append(element("b", "", title), element("span", "small", words), list);
    list.setAttribute("role", "group");
    list.ariaLabel = `What ${title} sees. Click a token to hide it.`;
    list.append(...tokens.map((label, token) => {
      const kind = token === blank ? "blank" : token < until ? "seen" : "beyond";
      const button = element("button", `token ${kind}`, token === blank ? "▁▁▁" : label);
      button.type = "button";
      button.value = token;
      button.dataset.row = number;
      button.tabIndex = token === blank ? 0 : -1;
      const state = token === blank ? ", hidden" : token < until ? "" : ", not seen";
      button.ariaLabel = `${title}: token ${token}, ${label}${state}`;
      button.ariaPressed = String(token === blank);
      return button;
    }));
    return row;
  }

  pick(button) {
    if (button) this.tell(Number(button.value));
  }

  move(event) {
    const from = event.target.closest("button"), list = from?.closest(".tokens");
    const next = list && nearestAhead(event, from, list.querySelectorAll("button"));
    if (!next) return;
    for (const button of list.querySelectorAll("button")) button.tabIndex = button === next ? 0 : -1;
    next.focus();
  }

  keepInView(list) {
    const blank = list.querySelector(".blank"), middle = blank.offsetTop - list.clientHeight / 2;
    list.scrollTop = list.scrollHeight > list.clientHeight ? middle : 0;
  }
}

export default living(SeenTokens, ".seen-tokens");
