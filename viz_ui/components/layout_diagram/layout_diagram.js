// Layouts side by side. A stack is a column: its residual stream runs down one side, the halves of its blocks hang on
// it. The decoder of an encoder-decoder is mirrored, so that what it reads of the encoder comes straight in.

import { arrow } from "../shared/arrows.js";
import { pixelTable, spreadBits, unpack } from "../shared/blob.js";
import { button, buttonOf, drawn, element, focusedIn, penOf, place } from "../shared/elements.js";
import { applyTheme } from "../shared/look.js";
import { living } from "../shared/mounting.js";
import { nearestAhead } from "../shared/walk.js";

const NARROWEST = 196, WIDEST = 224, BETWEEN = 40, APART = 22; // widths of a stack, and of the gaps
const STREAM = 16, BRANCH = 38, NORM = 20, BOX = 26, GAP = 7; // distances from the stream's side, and heights
const PICTURE = 38;
const HEIGHTS = { pre: { picture: 46, plain: 29 }, post: { picture: 54, plain: 45 } };

/** @typedef {{ left: number, right: number, top: number, bottom: number }} Frame pixels */

/** @typedef {{ rows: number, columns: number, table: Uint32Array, steps: Uint8Array, bits: Uint8Array }} Picture */

/**
 * A button; see layout_diagram.py.
 * @typedef {{ name: string, title: string, words: string, role: string, aloud: string }} Box
 */

/** @typedef {{ branch: Box, norm: Box, norm_first: boolean, is_cross: boolean }} Half */
/** @typedef {{ halves: Half[], end: Box }} Block */
/** @typedef {{ title: string, reads: string, start: Box, blocks: Block[], ends: Box[] }} Stack */
/** @typedef {{ title: string, model: string, words: string, stacks: Stack[] }} Layout */

class Layouts {
  /** @type {import("../shared/mounting.js").Send} */
  send;
  /** @type {Uint8Array | undefined} */
  packed;
  /** @type {Map<string, Picture>} */
  pictures = new Map(); // by the name of their box
  /** @type {Layout[]} */
  layouts;
  chosen = "";
  width = 0;
  wide = WIDEST; // of a stack
  /** @type {Map<string, HTMLButtonElement>} */
  boxes = new Map(); // by name

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    root.ariaLabel = "Layouts: arrow keys go from box to box, Enter opens its tensor";
    root.onclick = (event) => this.pick(buttonOf(event));
    root.onkeydown = (event) => this.move(event);
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(root);
  }

  /** @param {string} name */
  tell(name) {
    this.send("pick", name);
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
      const { head, bytes } = unpack(data), table = pixelTable(bytes(768));
      /** @type {[name: string, rows: number, columns: number][]} */
      const pictures = head.pictures;
      this.pictures = new Map(pictures.map(([name, rows, columns]) =>
        [name, { rows, columns, table, steps: bytes(rows * columns), bits: bytes(Math.ceil(rows * columns / 8)) }]));
      this.layouts = head.layouts;
      this.chosen = head.chosen;
      this.width = 0;
    }
    this.layout();
    if (focus) this.boxes.get(focus)?.focus({ preventScroll: true });
  }

  /** All stacks beside each other where there is room, else two, all of one width. */
  layout() {
    const width = this.root.clientWidth;
    if (!width || !this.layouts || width === this.width) return;
    this.width = width;
    const stacks = this.layouts.reduce((sum, { stacks }) => sum + stacks.length, 0);
    const gaps = this.layouts.reduce((sum, { stacks }) => sum + APART + (stacks.length - 1) * BETWEEN, 0);
    const all = Math.floor((width - gaps) / stacks), two = Math.floor((width - BETWEEN - 8) / 2);
    this.wide = Math.min(all < NARROWEST ? Math.max(two, 150) : all, WIDEST);
    this.boxes = new Map();
    this.root.replaceChildren(...this.layouts.map((layout) => this.section(layout)));
    this.choose(this.chosen);
  }

  /** @param {Layout} layout */
  section(layout) {
    const section = element("section", "layout"), stage = element("div", "stage");
    const wide = layout.stacks.length * this.wide + (layout.stacks.length - 1) * BETWEEN;
    section.style.width = stage.style.width = `${wide}px`;
    const heading = element("div", "heading");
    heading.append(element("b", "", layout.title), element("span", "model", layout.model));
    section.append(heading, element("div", "small", layout.words), stage);
    const lines = stage.appendChild(drawn("svg"));
    const drawnStacks = layout.stacks.map((stack, n) => {
      const drawing = new StackDrawing(this, stage, lines, n * (this.wide + BETWEEN), this.wide, n > 0);
      drawing.draw(stack);
      return drawing;
    });
    const [encoder, decoder] = drawnStacks;
    if (decoder) this.drawReading(stage, lines, encoder, decoder);
    const height = Math.max(...drawnStacks.map(({ y }) => y));
    stage.style.height = `${height}px`;
    lines.setAttribute("width", String(wide));
    lines.setAttribute("height", String(height));
    return section;
  }

  /**
   * Keys and values: from the encoder's end into every cross-attention.
   * @param {HTMLElement} stage
   * @param {SVGSVGElement} lines
   * @param {StackDrawing} encoder
   * @param {StackDrawing} decoder
   */
  drawReading(stage, lines, encoder, decoder) {
    const { right, top, bottom } = encoder.end, x = right + BETWEEN / 2, from = (top + bottom) / 2;
    for (const { left, top, bottom } of decoder.crosses) {
      const y = (top + bottom) / 2;
      const [line, head] = arrow([[right, from], [x, from], [x, y], [left, y]], false);
      line.classList.add("reading");
      head.classList.add("reading");
      lines.append(line, head);
    }
    const label = stage.appendChild(element("span", "reading-label", "K, V"));
    Object.assign(label.style, { left: `${x}px`, top: `${from - 14}px` });
  }

  /**
   * @param {Box} box
   * @param {string} className
   */
  button(box, className) {
    const node = button(`box ${className}`);
    node.dataset.name = box.name;
    node.style.setProperty("--hue", `var(--${box.role})`);
    node.title = box.aloud; // read after what stands in it
    const picture = this.pictures.get(box.name);
    if (picture) node.append(thumbnail(picture));
    const text = node.appendChild(element("span", "text"));
    text.append(element("span", "title", box.title));
    if (box.words) text.append(element("span", "words token", box.words));
    this.boxes.set(box.name, node);
    return node;
  }

  /** @param {string} name */
  choose(name) {
    this.chosen = name;
    const stop = this.boxes.get(name) ?? this.boxes.values().next().value;
    for (const node of this.boxes.values()) {
      node.ariaPressed = String(node.dataset.name === name);
      node.tabIndex = node === stop ? 0 : -1;
    }
  }

  /** @param {HTMLButtonElement | null} node */
  pick(node) {
    const name = node?.dataset.name;
    if (name === undefined) return;
    this.choose(name);
    this.tell(name);
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    const next = nearestAhead(event, buttonOf(event), this.boxes.values());
    if (!next) return;
    for (const node of this.boxes.values()) node.tabIndex = node === next ? 0 : -1;
    next.focus();
  }
}

/** One column; distances are from the side on which its stream runs. */
class StackDrawing {
  y = 0; // how far it is drawn
  /** @type {Frame[]} */
  crosses = []; // its cross-attentions
  /** @type {Frame} */
  end = { left: 0, right: 0, top: 0, bottom: 0 }; // its last box

  /**
   * @param {Layouts} owner
   * @param {HTMLElement} stage
   * @param {SVGSVGElement} lines
   * @param {number} left
   * @param {number} wide
   * @param {boolean} isMirrored
   */
  constructor(owner, stage, lines, left, wide, isMirrored) {
    this.owner = owner;
    this.stage = stage;
    this.lines = lines;
    this.left = left;
    this.wide = wide;
    this.isMirrored = isMirrored;
  }

  /** @param {number} distance */
  x(distance) {
    return this.isMirrored ? this.left + this.wide - distance : this.left + distance;
  }

  /**
   * @param {HTMLElement} node
   * @param {number} from
   * @param {number} to
   * @param {number} top
   * @param {number} height
   * @returns {Frame}
   */
  put(node, from, to, top, height) {
    const [left, right] = [this.x(from), this.x(to)].sort((a, b) => a - b);
    place(this.stage.appendChild(node), left, top, right - left, height);
    return { left, right, top, bottom: top + height };
  }

  /** @param {Stack} stack */
  draw({ title, reads, start, blocks, ends }) {
    if (title) this.put(element("div", "stack-title", title), 0, this.wide, this.y, 17);
    this.y += title ? 17 : 0;
    this.put(element("div", "reads token", reads), 0, this.wide, this.y, 17);
    this.y += 18;
    this.put(this.owner.button(start, "wide"), 0, this.wide, this.y, BOX);
    this.y += BOX + GAP;
    const from = this.y - GAP;
    for (const block of blocks) this.drawBlock(block);
    this.lines.prepend(...arrow([[this.x(STREAM), from], [this.x(STREAM), this.y]], true));
    for (const end of ends) {
      this.end = this.put(this.owner.button(end, "wide"), 0, this.wide, this.y, end.words ? BOX + 12 : BOX);
      this.y = this.end.bottom + 4;
    }
  }

  /** @param {Block} block */
  drawBlock({ halves, end }) {
    const top = this.y;
    this.y += 4;
    halves.forEach((half, n) => this.drawHalf(half, n === halves.length - 1 ? end : null));
    const frame = element("div", "block");
    this.put(frame, 0, this.wide, top, this.y - top);
    this.stage.prepend(frame);
    this.y += 5;
  }

  /**
   * @param {Half} half
   * @param {Box | null} end the stream behind it, where it is the last of its block
   */
  drawHalf({ branch, norm, norm_first: first, is_cross: cross }, end) {
    const picture = this.owner.pictures.has(branch.name), stream = this.x(STREAM);
    const height = HEIGHTS[first ? "pre" : "post"][picture ? "picture" : "plain"] - 5, top = this.y;
    const boxHeight = picture ? PICTURE + 4 : BOX - 2, from = first ? BRANCH + NORM + 12 : BRANCH, to = this.wide - 5;
    const box = this.put(this.owner.button(branch, "branch"), from, end ? to - 50 : to, top, boxHeight);
    if (cross) this.crosses.push(box);
    if (end) this.put(this.owner.button(end, "end"), to - 46, to, top, boxHeight);
    const into = top + 7, out = top + boxHeight - 9;
    const edge = this.isMirrored ? box.right : box.left;
    if (first) {
      const pill = this.put(this.owner.button(norm, "norm"), BRANCH, BRANCH + NORM, into - 7, 15);
      const near = this.isMirrored ? pill.right : pill.left, far = this.isMirrored ? pill.left : pill.right;
      this.lines.append(...arrow([[stream, into], [near, into]], false), ...arrow([[far, into], [edge, into]], false));
    } else {
      this.lines.append(...arrow([[stream, into], [edge, into]], false));
    }
    const plus = element("div", "add", "+");
    plus.ariaHidden = "true";
    this.put(plus, STREAM - 8, STREAM + 8, out - 8, 16);
    this.lines.append(...arrow([[edge, out], [this.x(STREAM + 8), out]], false));
    if (!first) this.put(this.owner.button(norm, "norm"), STREAM - NORM / 2, STREAM + NORM / 2, out + 9, 15);
    this.y += height + 5;
  }
}

/**
 * The weights as a small picture in their own proportions; masked cells stay hatched.
 * @param {Picture} picture
 */
function thumbnail({ rows, columns, steps, bits, table }) {
  const canvas = element("canvas", "hatched"), image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer), permitted = spreadBits(bits, rows * columns);
  for (let cell = 0; cell < pixels.length; cell++) pixels[cell] = permitted[cell] ? table[steps[cell]] : 0;
  Object.assign(canvas, { width: columns, height: rows });
  penOf(canvas).putImageData(image, 0, 0);
  canvas.style.width = `${Math.min(64, Math.round(PICTURE * columns / rows))}px`;
  canvas.style.height = `${PICTURE}px`;
  return canvas;
}

export default living(Layouts, ".layouts");
