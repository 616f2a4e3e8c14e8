// A grid of buttons, one a head, over a canvas with the pictures of all: a canvas for each would cost the browser some
// 20 ms in every frame of the page, of 270 heads. Built once for a number of layers and heads, then only repainted, so
// that focus and scroll position outlive every run.

import { pixelTable, unpack } from "../shared/blob.js";
import { button, buttonOf, element, focusedIn, penOf, setText, Tooltip } from "../shared/elements.js";
import { applyTheme, clamp, fillHatched, pixelRatio } from "../shared/look.js";
import { living, onZoom } from "../shared/mounting.js";

const ANSWER_MS = 4000; // a choice that Python has not confirmed by then is taken back
/** @type {Record<string, [down: number, right: number]>} */
const MOVES = {
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

/**
 * What head_grid.py tells in its header.
 * @typedef {object} Header
 * @property {number} layers
 * @property {number} heads
 * @property {number[] | null} keyHeads of each head, whose keys and values it reads; null: its own
 * @property {string[]} notes one a head
 * @property {string} notesFrom what they were measured on
 * @property {number} rows of a thumbnail
 * @property {number} columns
 * @property {boolean} maskForEach whether each head has a mask of its own
 * @property {number} maskBytes
 * @property {string} name of the grid
 */

/**
 * What Python has chosen.
 * @typedef {object} Choice
 * @property {string} grid its name
 * @property {number} layer
 * @property {number} head
 * @property {number} answered the number of the last pick that was taken
 */

/** @type {Map<string, Choice>} */
const choices = new Map(); // the last of each grid: it may come before the grid is there
/** @type {Map<string, HeadGrid>} */
const grids = new Map();

/** @param {Choice} choice */
export function tellChoice(choice) {
  choices.set(choice.grid, choice);
  grids.get(choice.grid)?.take(choice);
}

class HeadGrid {
  /** @type {import("../shared/mounting.js").Send} */
  send;
  name = "";
  /** @type {string | undefined} */
  shape; // what the buttons were made for
  layers = 0;
  heads = 0;
  /** @type {number[] | null} */
  keyHeads = null;
  rows = 0; // of a thumbnail
  columns = 0;
  hatched = false;
  /** @type {string[]} */
  notes = [];
  notesFrom = "";
  /** @type {HTMLButtonElement[]} */
  buttons = [];
  corner = element("div", "corner", "head");
  /** @type {HTMLElement[]} */
  headNames = [];
  /** @type {HTMLElement[]} */
  layerNames = [];
  /** @type {number | undefined} */
  told; // the head that Python has chosen
  /** @type {number | undefined} */
  chosen;
  /** @type {number | undefined} */
  pending; // a choice that Python has not confirmed
  /** @type {number | undefined} */
  picks; // that were told
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.scroller = root.appendChild(element("div", "scroller"));
    this.caption = root.appendChild(element("p", "caption"));
    this.caption.ariaHidden = "true"; // the chosen button has the same words as its name
    this.tooltip = new Tooltip(root);
    this.pictures = element("canvas", "pictures");
    this.sheet = element("canvas"); // one pixel a cell, the heads as they stand in the grid
    root.onclick = (event) => {
      const pressed = buttonOf(event);
      if (pressed) this.pick(Number(pressed.value));
    };
    root.onkeydown = (event) => {
      const from = buttonOf(event);
      if (from) this.move(event, Number(from.value));
    };
    root.onpointermove = (event) => this.point(buttonOf(event), event);
    root.onpointerleave = () => this.tooltip.hide();
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.scroller);
    this.endZoom = onZoom(() => this.resized());
  }

  /**
   * @param {number} layer
   * @param {number} head
   * @param {number} pick its number
   */
  tell(layer, head, pick) {
    this.send("pick", [layer, head, pick]);
  }

  end() {
    this.observer.disconnect();
    this.endZoom();
    if (grids.get(this.name) !== this) return; // one that came after it has the name
    grids.delete(this.name);
    choices.delete(this.name);
  }

  /** @param {Uint8Array} data */
  receive(data) {
    const { head, bytes } = unpack(data);
    /** @type {Header} */
    const header = head;
    applyTheme(this.root);
    grids.set(header.name, this);
    const shape = [header.layers, header.heads, header.keyHeads].join();
    if (shape !== this.shape) this.build(header);
    Object.assign(this, { name: header.name, shape, notesFrom: header.notesFrom });
    this.nameButtons(header.notes);
    const table = pixelTable(bytes(768));
    const steps = bytes(header.layers * header.heads * header.rows * header.columns);
    this.paint(header, table, steps, bytes(header.maskBytes));
    this.draw();
    const choice = choices.get(header.name);
    if (choice) this.take(choice);
  }

  /** @param {Choice} choice */
  take({ layer, head, answered }) {
    if (layer >= this.layers || head >= this.heads) return; // of the model before; that of this one follows
    const hadFocus = this.hasFocus();
    this.told = layer * this.heads + head;
    this.picks ??= answered;
    if (answered >= this.picks) this.pending = undefined; // an answer to an earlier pick ends nothing
    this.choose(this.pending ?? this.told, hadFocus);
  }

  /** @param {Header} header */
  build({ layers, heads, keyHeads }) {
    Object.assign(this, { layers, heads, keyHeads, chosen: undefined, pending: undefined });
    const grid = element("div", "heads");
    grid.style.setProperty("--layers", String(layers));
    grid.style.setProperty("--heads", String(heads));
    this.headNames = Array.from({ length: heads }, (_, head) => element("div", "head-name", String(head)));
    this.layerNames = Array.from({ length: layers }, (_, layer) => element("div", "layer-name", `layer ${layer}`));
    this.buttons = Array.from({ length: layers * heads }, (_, index) => {
      const node = button("");
      node.value = String(index);
      node.tabIndex = -1;
      node.ariaPressed = "false";
      return node;
    });
    for (const name of [this.corner, ...this.headNames, ...this.layerNames]) name.ariaHidden = "true";
    grid.append(this.pictures, ...this.brackets(), this.corner, ...this.headNames);
    grid.classList.toggle("grouped", Boolean(keyHeads));
    this.layerNames.forEach((name, layer) =>
      grid.append(name, ...this.buttons.slice(layer * heads, (layer + 1) * heads)));
    this.scroller.replaceChildren(grid);
    this.root.ariaLabel = `Choose one of ${layers} × ${heads} heads; arrow keys move`;
  }

  /** Over the heads that read the same keys and values, a bracket with the number of what they read. */
  brackets() {
    const { keyHeads } = this;
    if (!keyHeads) return [];
    const names = [...new Set(keyHeads)].map((keyHead) => {
      const name = element("div", "key-head", `K,V ${keyHead}`);
      name.style.gridColumn = `span ${keyHeads.filter((other) => other === keyHead).length}`;
      return name;
    });
    const rest = [element("div", "key-head-corner"), ...names];
    for (const node of rest) node.ariaHidden = "true"; // the buttons say it too
    return rest;
  }

  /**
   * With whom a head shares its keys and values; "" where it has its own.
   * @param {number} index
   */
  sharing(index) {
    if (!this.keyHeads) return "";
    const head = index % this.heads, keyHead = this.keyHeads[head];
    const others = this.keyHeads.flatMap((other, at) => (other === keyHead && at !== head ? [at] : []));
    if (!others.length) return `reads key/value head ${keyHead}`;
    return `shares key/value head ${keyHead} with head${others.length > 1 ? "s" : ""} ${others.join(", ")}`;
  }

  /** @param {string[]} notes */
  nameButtons(notes) {
    this.notes = notes;
    this.buttons.forEach((button, index) => {
      const words = [this.place(index).replace("layer", "Layer"), this.sharing(index), notes[index]];
      const name = words.filter(Boolean).join(", ");
      if (button.ariaLabel !== name) button.ariaLabel = name;
    });
  }

  /** @param {number} index */
  place(index) {
    return `layer ${Math.floor(index / this.heads)}, head ${index % this.heads}`;
  }

  /**
   * The sheet. Masked cells stay clear: the hatching behind it shows through.
   * @param {Header} header
   * @param {Uint32Array} table
   * @param {Uint8Array} steps of all cells
   * @param {Uint8Array} masked bits
   */
  paint({ rows, columns, maskForEach }, table, steps, masked) {
    const image = new ImageData(this.heads * columns, this.layers * rows), pixels = new Uint32Array(image.data.buffer);
    for (let row = 0, at = 0; row < this.layers * rows; row++) {
      const layer = Math.floor(row / rows), inside = row - layer * rows;
      for (let head = 0; head < this.heads; head++) {
        const cell = ((layer * this.heads + head) * rows + inside) * columns;
        const bit = maskForEach ? cell : inside * columns;
        for (let column = 0; column < columns; column++, at++) {
          const hidden = masked[(bit + column) >> 3] & (128 >> ((bit + column) & 7));
          if (!hidden) pixels[at] = table[steps[cell + column]];
        }
      }
    }
    Object.assign(this, { rows, columns, hatched: masked.length > 0 });
    this.sheet.width = image.width;
    this.sheet.height = image.height;
    penOf(this.sheet).putImageData(image, 0, 0);
  }

  /** The sheet cut up, each head's part enlarged below its button. */
  draw() {
    const ratio = pixelRatio(), grid = this.pictures.parentElement, pen = penOf(this.pictures);
    if (!grid) return;
    const side = Math.round(this.buttons[0].offsetWidth * ratio);
    const origin = grid.getBoundingClientRect(); // offsetTop would be a whole number, which no button's place need be
    /**
     * @param {HTMLElement} button
     * @param {"left" | "top"} edge
     */
    const place = (button, edge) => Math.round((button.getBoundingClientRect()[edge] - origin[edge]) * ratio);
    const lefts = this.buttons.slice(0, this.heads).map((button) => place(button, "left"));
    const tops = this.layerNames.map((_, layer) => place(this.buttons[layer * this.heads], "top"));
    this.pictures.width = Math.round(grid.offsetWidth * ratio);
    this.pictures.height = Math.round(grid.offsetHeight * ratio);
    this.pictures.style.width = `${this.pictures.width / ratio}px`;
    if (this.hatched) {
      pen.save();
      for (const top of tops) for (const left of lefts) pen.rect(left, top, side, side);
      pen.clip();
      fillHatched(pen, this.root, this.pictures.width, this.pictures.height);
      pen.restore();
    }
    pen.imageSmoothingEnabled = side < this.columns; // else whole columns would be left out
    pen.imageSmoothingQuality = "high";
    tops.forEach((top, layer) => lefts.forEach((left, head) => {
      pen.drawImage(this.sheet, head * this.columns, layer * this.rows, this.columns, this.rows, left, top, side, side);
    }));
  }

  /**
   * @param {number} index
   * @param {boolean} withFocus
   */
  choose(index, withFocus) {
    if (this.chosen !== index) {
      if (this.chosen !== undefined) this.mark(this.chosen, false);
      this.chosen = index;
      this.mark(index, true);
      this.keepInView();
    }
    if (withFocus) this.buttons[index].focus({ preventScroll: true });
    const words = [`Chosen: ${this.place(index)}`, this.sharing(index), this.notes[index]];
    setText(this.caption, words.filter(Boolean).join(" · "));
  }

  /**
   * @param {number} index
   * @param {boolean} chosen
   */
  mark(index, chosen) {
    const button = this.buttons[index];
    button.ariaPressed = String(chosen);
    button.tabIndex = chosen ? 0 : -1;
    this.layerNames[Math.floor(index / this.heads)].classList.toggle("chosen", chosen);
    this.headNames[index % this.heads].classList.toggle("chosen", chosen);
  }

  /**
   * Show the choice at once, tell Python, and do not let answers to earlier choices turn it back.
   * @param {number} index
   */
  pick(index) {
    const news = index !== this.chosen;
    this.choose(index, true);
    if (!news) return;
    this.pending = index;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.pending = undefined;
      if (this.told !== undefined) this.choose(this.told, this.hasFocus());
    }, ANSWER_MS);
    this.picks = (this.picks ?? 0) + 1;
    this.tell(Math.floor(index / this.heads), index % this.heads, this.picks);
  }

  /**
   * @param {KeyboardEvent} event
   * @param {number} from
   */
  move(event, from) {
    if (!MOVES[event.key] || event.altKey || event.metaKey) return;
    event.preventDefault();
    let [down, right] = MOVES[event.key];
    if (event.ctrlKey && !Number.isFinite(right)) down = right; // to the very first or last head
    const layer = clamp(Math.floor(from / this.heads) + down, 0, this.layers - 1);
    const head = clamp((from % this.heads) + right, 0, this.heads - 1);
    this.tooltip.hide();
    this.pick(layer * this.heads + head);
  }

  /**
   * @param {HTMLButtonElement | null} button
   * @param {PointerEvent} event
   */
  point(button, { clientX, clientY }) {
    if (!button) return this.tooltip.hide();
    const index = Number(button.value), note = this.notes[index];
    const words = [this.sharing(index), note, note && this.notesFrom].filter(Boolean);
    this.tooltip.show([[this.place(index), "number"], ...words.map((line) => [line, ""])], clientX, clientY);
  }

  resized() {
    if (!this.scroller.clientWidth || !this.buttons.length) return; // in a closed tab, or before the first data
    this.draw();
    this.keepInView();
  }

  /** Scrolls the grid only, never the page. */
  keepInView() {
    if (this.chosen === undefined) return;
    const room = 8, view = this.scroller, frame = view.getBoundingClientRect();
    const box = this.buttons[this.chosen].getBoundingClientRect();
    const top = this.corner.getBoundingClientRect().bottom + room;
    const left = frame.left + this.corner.offsetWidth + room;
    const bottom = frame.top + view.clientHeight - room, right = frame.left + view.clientWidth - room;
    if (box.top < top) view.scrollTop -= top - box.top;
    else if (box.bottom > bottom) view.scrollTop += box.bottom - bottom;
    if (box.left < left) view.scrollLeft -= left - box.left;
    else if (box.right > right) view.scrollLeft += box.right - right;
  }

  hasFocus() {
    const active = focusedIn(this.root);
    return active !== null && this.scroller.contains(active);
  }
}

export default living(HeadGrid, ".head-grid");
