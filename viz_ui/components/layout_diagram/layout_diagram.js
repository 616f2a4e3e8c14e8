// Layouts side by side. A stack is a column: its residual stream runs down one side, the halves of its blocks hang on
// it. The decoder of an encoder-decoder is mirrored, so that what it reads of the encoder comes straight in.

import { arrow } from "../shared/arrows.js";
import { applyTheme, element, living, pixelTable, spreadBits, unpack } from "../shared/shared.js";
import { drawn } from "../shared/svg.js";
import { nearestAhead } from "../shared/walk.js";

const NARROWEST = 196, WIDEST = 224, BETWEEN = 40, APART = 22; // widths of a stack, and of the gaps
const STREAM = 16, BRANCH = 38, NORM = 20, BOX = 26, GAP = 7; // distances from the stream's side, and heights
const PICTURE = 38;
const HEIGHTS = { pre: { picture: 46, plain: 29 }, post: { picture: 54, plain: 45 } };

class Layouts {
  constructor(root) {
    this.root = root;
    root.ariaLabel = "Layouts: arrow keys go from box to box, Enter opens its tensor";
    root.onclick = (event) => this.pick(event.target.closest("button"));
    root.onkeydown = (event) => this.move(event);
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(root);
  }

  tell(name) {
    this.send("pick", name);
  }

  end() {
    this.observer.disconnect();
  }

  receive(data) {
    applyTheme(this.root);
    const focus = this.root.getRootNode().activeElement?.dataset?.name;
    if (data !== this.packed) {
      this.packed = data;
      const { head, bytes } = unpack(data), table = pixelTable(bytes(768));
      this.pictures = new Map(head.pictures.map(([name, rows, columns]) =>
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

  section(layout) {
    const section = element("section", "layout"), stage = element("div", "stage");
    const wide = layout.stacks.length * this.wide + (layout.stacks.length - 1) * BETWEEN;
    section.style.width = stage.style.width = `${wide}px`;
    const heading = element("div", "heading");
    heading.append(element("b", "", layout.title), element("span", "model", layout.model));
    section.append(heading, element("div", "small", layout.words), stage);
    const lines = stage.appendChild(drawn("svg", {}));
    const drawnStacks = layout.stacks.map((stack, n) => {
      const drawing = new StackDrawing(this, stage, lines, n * (this.wide + BETWEEN), this.wide, n > 0);
      drawing.draw(stack);
      return drawing;
    });
    if (drawnStacks.length > 1) this.drawReading(stage, lines, ...drawnStacks);
    const height = Math.max(...drawnStacks.map(({ y }) => y));
    stage.style.height = `${height}px`;
    lines.setAttribute("width", wide);
    lines.setAttribute("height", height);
    return section;
  }

  /** Keys and values: from the encoder's end into every cross-attention. */
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

  button(box, className) {
    const button = element("button", `box ${className}`);
    button.type = "button";
    button.dataset.name = box.name;
    button.style.setProperty("--hue", `var(--${box.role})`);
    button.ariaLabel = box.aloud || box.title;
    button.title = button.ariaLabel;
    const picture = this.pictures.get(box.name);
    if (picture) button.append(thumbnail(picture));
    const text = button.appendChild(element("span", "text"));
    text.append(element("span", "title", box.title));
    if (box.words) text.append(element("span", "words token", box.words));
    this.boxes.set(box.name, button);
    return button;
  }

  choose(name) {
    this.chosen = name;
    const stop = this.boxes.get(name) ?? this.boxes.values().next().value;
    for (const button of this.boxes.values()) {
      button.ariaPressed = String(button.dataset.name === name);
      button.tabIndex = button === stop ? 0 : -1;
    }
  }

  pick(button) {
    if (!button) return;
    this.choose(button.dataset.name);
    this.tell(button.dataset.name);
  }

  move(event) {
    const from = event.target.closest("button"), next = nearestAhead(event, from, this.boxes.values());
    if (!next) return;
    for (const button of this.boxes.values()) button.tabIndex = button === next ? 0 : -1;
    next.focus();
  }
}

/** One column; distances are from the side on which its stream runs. */
class StackDrawing {
  constructor(owner, stage, lines, left, wide, isMirrored) {
    Object.assign(this, { owner, stage, lines, left, wide, isMirrored, y: 0, crosses: [] });
  }

  x(distance) {
    return this.isMirrored ? this.left + this.wide - distance : this.left + distance;
  }

  put(node, from, to, top, height) {
    const [left, right] = [this.x(from), this.x(to)].sort((a, b) => a - b);
    const size = { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${height}px` };
    Object.assign(this.stage.appendChild(node).style, size);
    return { left, right, top, bottom: top + height };
  }

  draw({ title, reads, start, blocks, ends }) {
    if (title) this.put(element("div", "stack-title", title), 0, this.wide, this.y, 17);
    this.y += title ? 17 : 0;
    this.put(element("div", "reads token", reads), 0, this.wide, this.y, 17);
    this.y += 18;
    this.put(this.owner.button(start, "wide"), 0, this.wide, this.y, BOX);
    this.y += BOX + GAP;
    const from = this.y - GAP;
    blocks.forEach((block, n) => this.drawBlock(block, n));
    this.lines.prepend(...arrow([[this.x(STREAM), from], [this.x(STREAM), this.y]], true));
    for (const end of ends) {
      this.end = this.put(this.owner.button(end, "wide"), 0, this.wide, this.y, end.words ? BOX + 12 : BOX);
      this.y = this.end.bottom + 4;
    }
  }

  drawBlock({ halves, end }, number) {
    const top = this.y;
    this.y += 4;
    halves.forEach((half, n) => this.drawHalf(half, n === halves.length - 1 ? end : null, number));
    const frame = element("div", "block");
    this.put(frame, 0, this.wide, top, this.y - top);
    this.stage.prepend(frame);
    this.y += 5;
  }

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

/** The weights as a small picture in their own proportions; masked cells stay hatched. */
function thumbnail({ rows, columns, steps, bits, table }) {
  const canvas = element("canvas", "hatched"), image = new ImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer), permitted = spreadBits(bits, rows * columns);
  for (let cell = 0; cell < pixels.length; cell++) pixels[cell] = permitted[cell] ? table[steps[cell]] : 0;
  Object.assign(canvas, { width: columns, height: rows });
  canvas.getContext("2d").putImageData(image, 0, 0);
  canvas.style.width = `${Math.min(64, Math.round(PICTURE * columns / rows))}px`;
  canvas.style.height = `${PICTURE}px`;
  return canvas;
}

export default living(Layouts, ".layouts");
