// Tokens in reading order, each a button: what is read, an arrow, the target, a bar for its loss, its rank.

import { unpack } from "../shared/blob.js";
import { button, buttonOf, element, Tooltip } from "../shared/elements.js";
import { applyTheme, clamp } from "../shared/look.js";
import { living } from "../shared/mounting.js";
import { counted, formatCount, formatNumber } from "../shared/numbers.js";

/** @type {Record<string, number>} */
const NEXT = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity };

/**
 * A token that is read, and the one that is to come after it; null: none.
 * @typedef {object} Target
 * @property {string} read
 * @property {boolean} hidden whether the model does not see it
 * @property {string | null} target
 * @property {number} loss nats
 * @property {number} rank
 * @property {string} best the likeliest
 */

class Targets {
  /** @type {import("../shared/mounting.js").Send} */
  send;
  /** @type {Uint8Array | undefined} */
  data;
  picks = 0; // that were told
  /** @type {string | undefined} */
  made; // what the cells were made for
  /** @type {Target[]} */
  row = [];
  blind = 1; // loss of a uniform guess
  /** @type {HTMLButtonElement[]} */
  cells = [];
  position = 0;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.list = root.appendChild(element("div", "row"));
    this.tooltip = new Tooltip(root);
    this.list.onclick = (event) => this.pick(this.placeOf(event));
    this.list.onkeydown = (event) => this.key(event);
    this.list.onpointermove = (event) => this.point(event);
    this.list.onpointerleave = () => this.tooltip.hide();
  }

  /** @param {unknown} event */
  tell(event) {
    this.send("pick", event);
  }

  /** @param {Uint8Array} data */
  receive(data) {
    applyTheme(this.root);
    if (data === this.data) return;
    this.data = data;
    /** @type {{ row: Target[], blind: number, position: number, answered: number }} */
    const { row, blind, position, answered } = unpack(data).head;
    const made = JSON.stringify([row, blind]), other = made !== this.made;
    if (other) { // else the cells stay, and with them the focus
      Object.assign(this, { row, blind, made });
      this.cells = row.map((one, place) => this.cell(one, place));
      this.list.replaceChildren(...this.cells);
    }
    if (other || answered >= this.picks) { // an answer to an earlier pick takes nothing back
      this.picks = Math.max(this.picks, answered);
      this.choose(position);
    }
  }

  /**
   * @param {Target} one
   * @param {number} place
   */
  cell(one, place) {
    const cell = button("cell");
    cell.value = String(place);
    const read = element("span", `token read${one.hidden ? " hidden" : ""}`, one.read);
    if (one.target === null) {
      cell.append(read, element("span", "small", "no target"));
      return cell;
    }
    const bar = element("span", "bar"), fill = bar.appendChild(element("span", "fill"));
    fill.style.width = `${100 * clamp(one.loss / this.blind, 0, 1)}%`;
    const numbers = element("span", "numbers");
    numbers.append(element("span", "loss", formatNumber(one.loss, 3)));
    numbers.append(element("span", "rank", `#${formatCount(one.rank)}`));
    cell.classList.toggle("known", one.rank === 1);
    cell.append(read, element("span", "arrow", "↓"), element("span", "token target", one.target), bar, numbers);
    cell.ariaDescription = `target ${one.target}: loss ${formatNumber(one.loss, 3)} nats, rank ${one.rank}`;
    return cell;
  }

  /** @param {Event} event */
  placeOf(event) {
    const cell = buttonOf(event);
    return cell ? Number(cell.value) : null;
  }

  /** @param {number} position */
  choose(position) {
    this.position = position;
    this.cells.forEach((cell, place) => {
      cell.tabIndex = place === position ? 0 : -1;
      cell.ariaPressed = String(place === position);
    });
    const cell = this.cells[position], top = cell.offsetTop - this.list.offsetTop;
    if (top < this.list.scrollTop || top + cell.offsetHeight > this.list.scrollTop + this.list.clientHeight) {
      this.list.scrollTop = top - 8;
    }
  }

  /** @param {number | null} position */
  pick(position) {
    if (position === null || position === this.position) return;
    this.choose(position);
    this.picks += 1;
    this.tell([position, this.picks]);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const by = NEXT[event.key];
    if (by === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.pick(clamp(this.position + by, 0, this.row.length - 1));
    this.cells[this.position].focus({ preventScroll: true });
  }

  /** @param {PointerEvent} event */
  point(event) {
    const place = this.placeOf(event);
    if (place === null) return this.tooltip.hide();
    const { read, target, loss, rank, best } = this.row[place];
    const lines = [[`reads ${read}`, "token"]];
    if (target !== null) {
      lines.push([`target ${target}`, "token"]);
      lines.push([`p = ${formatNumber(Math.exp(-loss), 3)}, −ln p = ${formatNumber(loss)} nats`, "number"]);
      const others = `${counted(rank - 1, "token")} likelier; the likeliest is ${best}`;
      lines.push([rank === 1 ? "the likeliest of all" : others, "small"]);
    }
    this.tooltip.show(lines, event.clientX, event.clientY);
  }
}

export default living(Targets, ".targets");
