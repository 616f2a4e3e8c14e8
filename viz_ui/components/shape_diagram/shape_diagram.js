// The diagram of shapes. Boxes are buttons in a grid whose arrows are an SVG behind them. Built again for other
// tensors, laid out again for another width.

import { arrow } from "../shared/arrows.js";
import { unpack } from "../shared/blob.js";
import {
  button, buttonOf, closest, drawn, element, focusedIn, place, setText, written,
} from "../shared/elements.js";
import { applyTheme, sameList } from "../shared/look.js";
import { living } from "../shared/mounting.js";
import { formatBytes, formatCount, formatParameters } from "../shared/numbers.js";
import { nearestAhead } from "../shared/walk.js";
import { route } from "./shape_routes.js";

const GAP = 13, COLUMNS = 7, HALF = 4, NARROWEST = 112, WIDEST = 168, BOX = 60, MOST_IN_ONE_LINE = 8;

/** @typedef {import("./shape_routes.js").Box} Box pixels in its part of the diagram */
/** @typedef {{ symbol: string, letters: string[], size: number }} Axis */
/** @typedef {{ letter: string, words: string, number: number }} Letter */

/**
 * Where a box or a plus sign stands: the half of the block, and within it column and row.
 * @typedef {{ name: string, column: number, row: number, half: number }} Spot
 */

/**
 * @typedef {Spot & { title: string, axes: Axis[], role: string, parameters: number, nbytes: number,
 *   tied: string }} Tensor
 */

/**
 * What is said of the chosen tensor.
 * @typedef {object} Card
 * @property {string} title
 * @property {string} line that makes it
 * @property {[name: string, value: string][]} facts
 * @property {[name: string, axes: Axis[], count: number][]} parameters
 */

/**
 * What shape_diagram.py tells in its header.
 * @typedef {object} Header
 * @property {Letter[]} letters
 * @property {Tensor[]} around in the order of the pass; the blocks stand before the last `behind` of them
 * @property {number} behind
 * @property {number} blocks
 * @property {number} block
 * @property {string} block_words
 * @property {Tensor[]} tensors
 * @property {Spot[]} adds
 * @property {{ start: string, end: string, stream: boolean }[]} edges
 * @property {string} chosen
 * @property {Card} card
 */

/** @typedef {{ line: number, column: number, row: number }} Origin of a half of the block */

class Diagram {
  /** @type {import("../shared/mounting.js").Send} */
  send;
  /** @type {Uint8Array | undefined} */
  packed;
  /** @type {Header} */
  data;
  /** @type {Map<string, HTMLElement>} */
  boxes = new Map(); // by name: boxes, plus signs, pills, letters
  /** @type {Map<string, Spot>} */
  spots = new Map(); // by the name of a box or plus sign
  /** @type {Map<HTMLElement, Box>} */
  frames = new Map(); // where boxes were put
  blocks = element("div", "blocks");
  pills = element("div", "pills");
  card = element("section", "card");
  /** @type {HTMLElement[]} */
  outer = [];
  lines = { around: drawn("svg"), inside: drawn("svg") };
  /** @type {string[]} */
  lit = []; // letters
  /** @type {number | undefined} */
  width;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this.letters = root.appendChild(element("div", "letters"));
    this.letters.setAttribute("role", "group");
    this.letters.ariaLabel = "Letters: pointing at one lights every axis of it";
    this.around = root.appendChild(element("div", "around"));
    this.heading = root.appendChild(element("div", "heading"));
    this.inside = root.appendChild(element("div", "inside"));
    this.said = root.appendChild(element("div", "unseen"));
    this.said.setAttribute("role", "status");
    root.onpointerover = (event) => this.light(closest(event, "[data-letters]")?.dataset.letters ?? this.focused());
    root.onpointerleave = () => this.light(this.focused());
    // these two have no on… property
    root.addEventListener("focusin", (event) => this.light(closest(event, ".letter")?.dataset.letters));
    root.addEventListener("focusout", () => this.light(undefined));
    root.onclick = (event) => this.click(buttonOf(event));
    root.onkeydown = (event) => this.move(event);
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(root);
  }

  focused() {
    const letter = focusedIn(this.root)?.closest(".letter");
    return letter instanceof HTMLElement ? letter.dataset.letters : undefined;
  }

  /**
   * @param {"tensor" | "block"} kind
   * @param {string | number} which
   */
  tell(kind, which) {
    this.send("pick", [kind, which]);
  }

  end() {
    this.observer.disconnect();
  }

  /** @param {Uint8Array} data */
  receive(data) {
    applyTheme(this.root);
    const focus = focusedIn(this.root)?.dataset.name;
    if (data !== this.packed) {
      this.packed = data;
      this.data = unpack(data).head;
      this.build();
    }
    this.layout(true);
    if (focus) this.boxes.get(focus)?.focus({ preventScroll: true });
  }

  build() {
    const { data } = this;
    this.boxes = new Map();
    this.spots = new Map([...data.around, ...data.tensors, ...data.adds].map((spot) => [spot.name, spot]));
    this.letters.replaceChildren(...data.letters.map((letter) => this.letter(letter)));
    const outer = data.around.map((tensor) => this.box(tensor));
    this.blocks = element("div", "blocks");
    this.blocks.setAttribute("role", "group");
    this.blocks.ariaLabel = "Blocks";
    const label = element("div", "title", `${data.blocks} blocks`);
    label.dataset.letters = "L";
    this.pills = element("div", "pills");
    for (let block = 0; block < data.blocks; block++) this.pills.append(this.pill(block));
    this.blocks.append(label, this.pills);
    this.outer = [...outer.slice(0, -data.behind), this.blocks, ...outer.slice(-data.behind)];
    this.lines = { around: drawn("svg"), inside: drawn("svg") };
    this.around.replaceChildren(this.lines.around, ...this.outer);
    this.heading.replaceChildren(element("b", "", `Block ${data.block}`), ` of ${data.blocks} · ${data.block_words}`);
    const adds = data.adds.map((add) => this.add(add));
    this.inside.replaceChildren(this.lines.inside, ...data.tensors.map((tensor) => this.box(tensor)), ...adds);
    this.inside.append((this.card = this.makeCard(data.card)));
    this.choose(data.chosen);
    this.rove(this.letters, ".letter");
    this.rove(this.pills, ".pill");
  }

  /** @param {Letter} letter */
  letter({ letter, words, number }) {
    const node = this.button("letter", `letter ${letter}`);
    node.dataset.letters = letter;
    node.append(element("b", "", letter), element("span", "number", formatCount(number)));
    node.append(element("span", "words", words));
    return node;
  }

  /** @param {number} block */
  pill(block) {
    const pill = this.button("pill", `block ${block}`);
    pill.textContent = String(block);
    pill.ariaLabel = `Block ${block}`;
    pill.ariaPressed = String(block === this.data.block);
    pill.dataset.letters = "L";
    return pill;
  }

  /**
   * @param {string} className
   * @param {string} name
   */
  button(className, name) {
    const node = button(className);
    node.dataset.name = name;
    this.boxes.set(name, node);
    return node;
  }

  /** @param {Tensor} tensor */
  box({ name, title, axes, role, parameters, nbytes, tied }) {
    const node = this.button("box", name);
    node.style.setProperty("--hue", `var(--${role})`);
    const head = element("div", "title", title), foot = element("div", "foot");
    const made = parameters ? `θ ${formatParameters(parameters)}` : tied ? "θ tied" : "";
    foot.append(element("span", "", made), element("span", "", formatBytes(nbytes)));
    node.append(head, axesRow(axes), foot);
    const letters = axes.map(({ symbol }) => symbol).join(", "), numbers = axes.map(({ size }) => size).join(", ");
    const own = tied ? ` of its own (it uses ${tied}, which is counted where it is first used)` : "";
    node.title = `${title}: (${letters}) = (${numbers}), ${formatCount(parameters)} parameters${own}, `
      + `${formatCount(nbytes)} bytes`;
    return node;
  }

  /** @param {Spot} spot */
  add({ name }) {
    const node = element("div", "add", "+");
    node.ariaHidden = "true";
    this.boxes.set(name, node);
    return node;
  }

  /** @param {Card} card */
  makeCard({ title, line, facts, parameters }) {
    const card = element("section", "card");
    card.ariaLabel = "The chosen tensor";
    const list = element("div", "facts");
    for (const [name, value] of facts) {
      const fact = element("span", "fact");
      fact.append(element("span", "name", name), " ", element("span", "amount", value));
      list.append(fact, " ");
    }
    card.append(element("div", "title", title), element("code", "line", line), list);
    for (const [name, axes, count] of parameters) {
      const row = element("div", "parameter");
      row.append(element("code", "", name), axesRow(axes), element("span", "amount", formatCount(count)));
      card.append(row);
    }
    return card;
  }

  /**
   * Frame the chosen tensor; it is also where Tab enters its part of the diagram.
   * @param {string | undefined} name
   */
  choose(name) {
    for (const [other, box] of this.boxes) {
      if (box.classList.contains("box")) box.ariaPressed = String(other === name);
    }
    this.rove(this.around, ".box");
    this.rove(this.inside, ".box");
  }

  /**
   * One stop for Tab in each group: what is chosen there, or the first.
   * @param {Element | null} group
   * @param {string} kind
   * @param {Element | null} [stop]
   */
  rove(group, kind, stop = group?.querySelector(`${kind}[aria-pressed=true]`) ?? group?.querySelector(kind)) {
    const ones = /** @type {NodeListOf<HTMLElement> | undefined} */ (group?.querySelectorAll(kind));
    for (const one of ones ?? []) one.tabIndex = one === stop ? 0 : -1;
  }

  /** @param {HTMLButtonElement | null} node */
  click(node) {
    if (!node) return;
    if (node.classList.contains("box")) {
      this.choose(node.dataset.name);
      this.tell("tensor", node.dataset.name ?? "");
    } else if (node.classList.contains("pill")) {
      for (const pill of this.pills.children) pill.ariaPressed = String(pill === node);
      this.tell("block", Number(node.textContent));
    } else if (node.classList.contains("letter")) {
      node.focus();
      this.light(node.dataset.letters);
    }
  }

  /**
   * Arrow keys go to the nearest box in their direction.
   * @param {KeyboardEvent} event
   */
  move(event) {
    const from = buttonOf(event), kind = from?.classList[0];
    /** @type {NodeListOf<HTMLButtonElement>} */
    const alike = this.root.querySelectorAll(`button.${kind}`);
    const next = nearestAhead(event, from, alike);
    if (!next) return;
    this.rove(next.closest(".letters, .pills, .around, .inside"), `.${kind}`, next);
    next.focus();
  }

  /** @param {string | undefined} letters */
  light(letters) {
    const wanted = letters ? letters.split(" ") : [];
    if (sameList(wanted, this.lit)) return;
    this.lit = wanted;
    /** @type {NodeListOf<HTMLElement>} */
    const nodes = this.root.querySelectorAll("[data-letters]");
    for (const node of nodes) {
      node.classList.toggle("lit", (node.dataset.letters ?? "").split(" ").some((letter) => wanted.includes(letter)));
    }
    const known = this.data.letters.filter(({ letter }) => wanted.includes(letter));
    const words = known.map(({ letter, words, number }) => `${letter} = ${formatCount(number)}, ${words}`);
    const shapes = this.root.querySelectorAll(".box .axis.lit").length;
    setText(this.said, words.length ? `${words.join("; ")}: in ${shapes} axes of the diagram` : "");
  }

  layout(fresh = false) {
    const width = this.root.clientWidth;
    if (!width || !this.data || (!fresh && width === this.width)) return;
    this.width = width;
    const narrow = width < COLUMNS * (NARROWEST + GAP), columns = narrow ? HALF : COLUMNS;
    const pitch = Math.min(WIDEST, (width + GAP - 10) / columns), size = { pitch, box: Math.max(96, pitch - GAP) };
    this.layoutAround(narrow, size, columns);
    this.layoutInside(narrow, size, columns);
  }

  /**
   * @param {boolean} narrow
   * @param {{ pitch: number, box: number }} size
   * @param {number} columns
   */
  layoutAround(narrow, { pitch, box }, columns) {
    const wrap = narrow || this.data.blocks > MOST_IN_ONE_LINE;
    const wide = wrap ? columns - 2 : Math.max(1, columns - this.outer.length + 1);
    let column = 0, row = 0;
    /** @type {Box | undefined} */
    let before;
    /** @type {SVGElement[]} */
    const arrows = [];
    const at = BOX + GAP;
    for (const node of this.outer) {
      const span = node === this.blocks ? wide : 1;
      const breaks = (wrap && node === this.blocks) || column + span > columns;
      if (breaks) { column = 0; row += 1; }
      const frame = this.put(node, column * pitch + 4, row * at, box + (span - 1) * pitch);
      const { name = "" } = node.dataset;
      if (before && name === "embed.positions") {
        const { top, bottom } = before, x = (before.right + frame.left) / 2;
        arrows.push(written("+", { x, y: (top + bottom) / 2 + 6, class: "plus" }));
      } else if (before) {
        const points = route(before, frame, { gap: GAP, edge: columns * pitch - 4, wrapped: breaks });
        arrows.push(...arrow(points, row > 0 || node === this.blocks || ["final_norm", "logits"].includes(name)));
      }
      before = frame;
      column += span;
    }
    this.blocks.style.height = wrap ? "auto" : this.blocks.style.height; // many blocks take several lines
    const more = Math.max(0, this.blocks.offsetHeight - BOX);
    this.blocks.style.minHeight = `${BOX}px`;
    this.finish(this.around, this.lines.around, arrows, columns * pitch, (row + 1) * at - GAP + more);
  }

  /**
   * The halves of the block in lines: the last is feed-forward, beside the attention before it where there is room.
   * @param {boolean} narrow
   * @param {number} halves
   * @returns {number[][]}
   */
  halfLines(narrow, halves) {
    const each = Array.from({ length: halves }, (_, half) => [half]);
    return narrow || halves < 2 ? each : [...each.slice(0, -2), [halves - 2, halves - 1]];
  }

  /**
   * @param {boolean} narrow
   * @param {{ pitch: number, box: number }} size
   * @param {number} columns
   */
  layoutInside(narrow, { pitch, box }, columns) {
    const { tensors, adds, edges } = this.data, at = BOX + GAP, spots = [...tensors, ...adds];
    const halves = 1 + Math.max(...spots.map(({ half }) => half));
    const rowsOf = (/** @type {number} */ half) =>
      1 + Math.max(0, ...spots.filter((spot) => spot.half === half).map(({ row }) => row));
    /** @type {Origin[]} */
    const origin = []; // of each half
    let rows = 0;
    this.halfLines(narrow, halves).forEach((line, n) => {
      line.forEach((half, place) => { origin[half] = { line: n, column: place * HALF, row: rows }; });
      rows += Math.max(...line.map(rowsOf));
    });
    for (const spot of spots) {
      const { column, row } = origin[spot.half], node = this.boxes.get(spot.name);
      if (!node) continue;
      const isAdd = node.classList.contains("add"), wide = isAdd ? 24 : box, aside = isAdd ? 1 : 0;
      const left = (column + spot.column) * pitch + 4 + (aside * (box - wide)) / 2;
      this.put(node, left, (row + spot.row) * at + (aside * (BOX - wide)) / 2, wide);
    }
    const lineOf = (/** @type {string} */ name) => origin[this.spots.get(name)?.half ?? 0].line;
    const arrows = edges.flatMap(({ start, end, stream }) => {
      const wrapped = lineOf(start) !== lineOf(end), way = { gap: GAP, edge: columns * pitch - 4, wrapped, stream };
      return arrow(route(this.frameOf(start), this.frameOf(end), way), stream);
    });
    const height = this.placeCard(narrow, pitch, columns, rows, origin);
    this.finish(this.inside, this.lines.inside, arrows, columns * pitch, height);
  }

  /**
   * Where a box was put.
   * @param {string} name
   * @returns {Box}
   */
  frameOf(name) {
    const node = this.boxes.get(name), frame = node && this.frames.get(node);
    if (!frame) throw new Error(`No box is called ${name}.`);
    return frame;
  }

  /**
   * The card stands right of an attention: below the feed-forward half, or, of the first of two, below the stream.
   * @param {boolean} narrow
   * @param {number} pitch
   * @param {number} columns
   * @param {number} rows
   * @param {Origin[]} origin
   * @returns {number} the height of all
   */
  placeCard(narrow, pitch, columns, rows, origin) {
    const at = BOX + GAP, height = rows * at - GAP;
    const ofFirst = origin.length > 2 && !this.spots.get(this.data.chosen)?.half;
    const left = narrow ? 4 : HALF * pitch + 4, beside = ofFirst ? at : ((origin.at(-1)?.row ?? 0) + 3) * at;
    const top = narrow ? height + GAP : beside;
    this.card.style.left = `${left}px`;
    this.card.style.top = `${top}px`;
    this.card.style.width = `${columns * pitch - left - GAP}px`;
    return Math.max(height, top + this.card.offsetHeight);
  }

  /**
   * @param {HTMLElement} node
   * @param {number} left
   * @param {number} top
   * @param {number} width
   * @returns {Box}
   */
  put(node, left, top, width) {
    const height = node.classList.contains("add") ? width : BOX;
    const frame = { left, top, right: left + width, bottom: top + height };
    place(node, left, top, width, height);
    this.frames.set(node, frame);
    return frame;
  }

  /**
   * @param {HTMLElement} group
   * @param {SVGSVGElement} lines
   * @param {SVGElement[]} arrows
   * @param {number} width
   * @param {number} height
   */
  finish(group, lines, arrows, width, height) {
    group.style.height = `${height}px`;
    lines.setAttribute("width", String(width));
    lines.setAttribute("height", String(height));
    lines.replaceChildren(...arrows);
  }
}

/**
 * A shape: each axis a letter above its number, so that letter and number stay together.
 * @param {Axis[]} axes
 */
function axesRow(axes) {
  const row = element("span", "axes");
  for (const { symbol, letters, size } of axes) {
    const axis = element("span", "axis");
    axis.dataset.letters = letters.join(" ");
    axis.append(element("b", "", symbol), element("span", "number", formatCount(size)));
    row.append(axis);
  }
  return row;
}

export default living(Diagram, ".shapes");
