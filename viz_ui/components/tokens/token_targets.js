// Tokens in reading order, each a button: what is read, an arrow, the target, a bar for its loss, its rank.

import { applyTheme, clamp, element, formatNumber, living, Tooltip, unpack } from "../shared/shared.js";

const NEXT = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity };

class Targets {
  constructor(root) {
    this.root = root;
    this.picks = 0; // that were told
    this.list = root.appendChild(element("div", "row"));
    this.tooltip = new Tooltip(root);
    this.list.onclick = ({ target }) => this.pick(this.placeOf(target));
    this.list.onkeydown = (event) => this.key(event);
    this.list.onpointermove = (event) => this.point(event);
    this.list.onpointerleave = () => this.tooltip.hide();
  }

  tell(event) {
    this.send("pick", event);
  }

  receive(data) {
    applyTheme(this.root);
    if (data === this.data) return;
    this.data = data;
    const { row, blind, position, answered } = unpack(data).head, written = JSON.stringify([row, blind]);
    const other = written !== this.written;
    if (other) { // else the cells stay, and with them the focus
      Object.assign(this, { row, blind, written });
      this.cells = row.map((one, place) => this.cell(one, place));
      this.list.replaceChildren(...this.cells);
    }
    if (other || answered >= this.picks) { // an answer to an earlier pick takes nothing back
      this.picks = Math.max(this.picks, answered);
      this.choose(position);
    }
  }

  cell(one, place) {
    const cell = element("button", "cell");
    cell.type = "button";
    cell.value = place;
    const read = element("span", `token read${one.hidden ? " hidden" : ""}`, one.read);
    if (one.target === null) {
      cell.append(read, element("span", "small", "no target"));
      cell.ariaLabel = `${one.read}: no target`;
      return cell;
    }
    const bar = element("span", "bar"), fill = bar.appendChild(element("span", "fill"));
    fill.style.width = `${100 * clamp(one.loss / this.blind, 0, 1)}%`;
    const numbers = element("span", "numbers");
    numbers.append(element("span", "loss", formatNumber(one.loss, 3)), element("span", "rank", `#${one.rank.toLocaleString("en")}`));
    cell.classList.toggle("known", one.rank === 1);
    cell.append(read, element("span", "arrow", "↓"), element("span", "token target", one.target), bar, numbers);
    cell.ariaLabel = `${one.read}, target ${one.target}: loss ${formatNumber(one.loss, 3)} nats, rank ${one.rank}`;
    return cell;
  }

  placeOf(target) {
    const cell = target.closest("button");
    return cell ? Number(cell.value) : null;
  }

  choose(position) {
    this.position = position;
    this.cells.forEach((cell, place) => {
      cell.tabIndex = place === position ? 0 : -1;
      cell.setAttribute("aria-pressed", place === position);
    });
    const cell = this.cells[position], top = cell.offsetTop - this.list.offsetTop;
    if (top < this.list.scrollTop || top + cell.offsetHeight > this.list.scrollTop + this.list.clientHeight) {
      this.list.scrollTop = top - 8;
    }
  }

  pick(position) {
    if (position === null || position === this.position) return;
    this.choose(position);
    this.picks += 1;
    this.tell([position, this.picks]);
  }

  key(event) {
    const by = NEXT[event.key];
    if (by === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.pick(clamp(this.position + by, 0, this.row.length - 1));
    this.cells[this.position].focus({ preventScroll: true });
  }

  point(event) {
    const place = this.placeOf(event.target);
    if (place === null) return this.tooltip.hide();
    const { read, target, loss, rank, best } = this.row[place];
    const lines = [[`reads ${read}`, "token"]];
    if (target !== null) {
      lines.push([`target ${target}`, "token"]);
      lines.push([`p = ${formatNumber(Math.exp(-loss), 3)}, −ln p = ${formatNumber(loss)} nats`, "number"]);
      lines.push([rank === 1 ? "the likeliest of all" : `${(rank - 1).toLocaleString("en")} likelier, first ${best}`, "small"]);
    }
    this.tooltip.show(lines, event.clientX, event.clientY);
  }
}

export default living(Targets, ".targets");
