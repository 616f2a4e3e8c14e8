// The diagram of shapes. Boxes are buttons in a grid whose arrows are an SVG behind them. Built again for other
// tensors, laid out again for another width.

import { arrow } from "../shared/arrows.js";
import { applyTheme, element, living, sameList, setText, unpack } from "../shared/shared.js";
import { drawn } from "../shared/svg.js";
import { nearestAhead } from "../shared/walk.js";
import { route } from "./shape_routes.js";

const GAP = 13, COLUMNS = 7, HALF = 4, NARROWEST = 112, WIDEST = 168, BOX = 58, MOST_IN_ONE_LINE = 8;

class Diagram {
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
    const letters = (event) => event.target.closest?.("[data-letters]")?.dataset.letters;
    root.onpointerover = (event) => this.light(letters(event) ?? this.focused());
    root.onpointerleave = () => this.light(this.focused());
    // these two have no on… property
    root.addEventListener("focusin", (event) => this.light(event.target.closest(".letter")?.dataset.letters));
    root.addEventListener("focusout", () => this.light(undefined));
    root.onclick = (event) => this.click(event.target.closest("button"));
    root.onkeydown = (event) => this.move(event);
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(root);
  }

  focused() {
    return this.root.getRootNode().activeElement?.closest?.(".letter")?.dataset.letters;
  }

  tell(kind, which) {
    this.send("pick", [kind, which]);
  }

  end() {
    this.observer.disconnect();
  }

  receive(data) {
    applyTheme(this.root);
    const focus = this.root.getRootNode().activeElement?.dataset?.name;
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
    this.lines = { around: drawn("svg", {}), inside: drawn("svg", {}) };
    this.around.replaceChildren(this.lines.around, ...this.outer);
    this.heading.replaceChildren(element("b", "", `Block ${data.block}`), ` of ${data.blocks} · ${data.block_words}`);
    const adds = data.adds.map((add) => this.add(add));
    this.inside.replaceChildren(this.lines.inside, ...data.tensors.map((tensor) => this.box(tensor)), ...adds);
    this.inside.append((this.card = this.makeCard(data.card)));
    this.choose(data.chosen);
    this.rove(this.letters, ".letter");
    this.rove(this.pills, ".pill");
  }

  letter({ letter, words, number }) {
    const button = element("button", "letter");
    button.type = "button";
    button.dataset.letters = letter;
    button.dataset.name = `letter ${letter}`;
    button.append(element("b", "", letter), element("span", "number", number.toLocaleString("en")));
    button.append(element("span", "words", words));
    this.boxes.set(button.dataset.name, button);
    return button;
  }

  pill(block) {
    const pill = element("button", "pill", String(block));
    pill.type = "button";
    pill.dataset.name = `block ${block}`;
    pill.ariaLabel = `Block ${block}`;
    pill.ariaPressed = String(block === this.data.block);
    pill.dataset.letters = "L";
    this.boxes.set(pill.dataset.name, pill);
    return pill;
  }

  box(tensor) {
    const { name, title, axes, role, parameters, nbytes, tied } = tensor;
    const button = element("button", "box");
    button.type = "button";
    button.dataset.name = name;
    button.style.setProperty("--hue", `var(--${role})`);
    const head = element("div", "title", title), foot = element("div", "foot");
    const made = parameters ? `θ ${short(parameters)}` : tied ? "θ tied" : "";
    foot.append(element("span", "", made), element("span", "", bytes(nbytes)));
    button.append(head, axesRow(axes), foot);
    const letters = axes.map(({ symbol }) => symbol).join(", "), numbers = axes.map(({ size }) => size).join(", ");
    button.ariaLabel = `${title}: (${letters}) = (${numbers}), ${parameters.toLocaleString("en")} parameters` +
      `${tied ? ` of its own (made by ${tied}, counted where it is first used)` : ""}, ` +
      `${nbytes.toLocaleString("en")} bytes`;
    button.title = button.ariaLabel;
    button.place = tensor;
    this.boxes.set(name, button);
    return button;
  }

  add(place) {
    const plus = element("div", "add", "+");
    plus.place = place;
    plus.ariaHidden = "true";
    this.boxes.set(place.name, plus);
    return plus;
  }

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
      row.append(element("code", "", name), axesRow(axes), element("span", "amount", count.toLocaleString("en")));
      card.append(row);
    }
    return card;
  }

  /** Frame the chosen tensor; it is also where Tab enters its part of the diagram. */
  choose(name) {
    for (const [other, box] of this.boxes) {
      if (box.classList.contains("box")) box.ariaPressed = String(other === name);
    }
    this.rove(this.around, ".box");
    this.rove(this.inside, ".box");
  }

  /** One stop for Tab in each group: what is chosen there, or the first. */
  rove(group, kind, stop = group.querySelector(`${kind}[aria-pressed=true]`) ?? group.querySelector(kind)) {
    for (const one of group.querySelectorAll(kind)) one.tabIndex = one === stop ? 0 : -1;
  }

  click(button) {
    if (!button) return;
    if (button.classList.contains("box")) {
      this.choose(button.dataset.name);
      this.tell("tensor", button.dataset.name);
    } else if (button.classList.contains("pill")) {
      for (const pill of this.pills.children) pill.ariaPressed = String(pill === button);
      this.tell("block", Number(button.textContent));
    } else if (button.classList.contains("letter")) {
      button.focus();
      this.light(button.dataset.letters);
    }
  }

  /** Arrow keys go to the nearest box in their direction. */
  move(event) {
    const from = event.target.closest("button"), kind = from?.classList[0];
    const next = nearestAhead(event, from, this.root.querySelectorAll(`button.${kind}`));
    if (!next) return;
    this.rove(next.closest(".letters, .pills, .around, .inside"), `.${kind}`, next);
    next.focus();
  }

  light(letters) {
    const wanted = letters ? letters.split(" ") : [];
    if (sameList(wanted, this.lit)) return;
    this.lit = wanted;
    for (const node of this.root.querySelectorAll("[data-letters]")) {
      node.classList.toggle("lit", node.dataset.letters.split(" ").some((letter) => wanted.includes(letter)));
    }
    const known = this.data.letters.filter(({ letter }) => wanted.includes(letter));
    const words = known.map(({ letter, words, number }) => `${letter} = ${number.toLocaleString("en")}, ${words}`);
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

  layoutAround(narrow, { pitch, box }, columns) {
    const wrap = narrow || this.data.blocks > MOST_IN_ONE_LINE;
    const wide = wrap ? columns - 2 : Math.max(1, columns - this.outer.length + 1);
    let column = 0, row = 0, before = null;
    const arrows = [], at = BOX + GAP;
    for (const node of this.outer) {
      const span = node === this.blocks ? wide : 1;
      const breaks = (wrap && node === this.blocks) || column + span > columns;
      if (breaks) { column = 0; row += 1; }
      this.put(node, column * pitch + 4, row * at, box + (span - 1) * pitch);
      if (before && node.dataset.name !== "embed.positions") {
        arrows.push(...arrow(route(before, node.box, { gap: GAP, edge: columns * pitch - 4, wrapped: breaks }),
          row > 0 || node === this.blocks || ["final_norm", "logits"].includes(node.dataset.name)));
      }
      if (node.dataset.name === "embed.positions") arrows.push(plus((before.right + node.box.left) / 2, before));
      before = node.box;
      column += span;
    }
    this.blocks.style.height = wrap ? "auto" : this.blocks.style.height; // many blocks take several lines
    const more = Math.max(0, this.blocks.offsetHeight - BOX);
    this.blocks.style.minHeight = `${BOX}px`;
    this.finish(this.around, this.lines.around, arrows, columns * pitch, (row + 1) * at - GAP + more);
  }

  /** The halves of the block in lines: the last is feed-forward, beside the attention before it where there is room. */
  halfLines(narrow, halves) {
    const each = Array.from({ length: halves }, (_, half) => [half]);
    return narrow || halves < 2 ? each : [...each.slice(0, -2), [halves - 2, halves - 1]];
  }

  layoutInside(narrow, { pitch, box }, columns) {
    const { tensors, adds, edges } = this.data, at = BOX + GAP, spots = [...tensors, ...adds];
    const halves = 1 + Math.max(...spots.map(({ half }) => half));
    const rowsOf = (half) => 1 + Math.max(0, ...spots.filter((spot) => spot.half === half).map(({ row }) => row));
    const origin = []; // of each half: line, first column, first row
    let rows = 0;
    this.halfLines(narrow, halves).forEach((line, n) => {
      line.forEach((half, place) => { origin[half] = { line: n, column: place * HALF, row: rows }; });
      rows += Math.max(...line.map(rowsOf));
    });
    for (const spot of spots) {
      const { column, row } = origin[spot.half], node = this.boxes.get(spot.name);
      const isAdd = node.classList.contains("add"), wide = isAdd ? 24 : box, aside = isAdd ? 1 : 0;
      const left = (column + spot.column) * pitch + 4 + (aside * (box - wide)) / 2;
      this.put(node, left, (row + spot.row) * at + (aside * (BOX - wide)) / 2, wide);
    }
    const lineOf = (node) => origin[node.place.half].line;
    const arrows = edges.flatMap(({ start, end, stream }) => {
      const a = this.boxes.get(start), b = this.boxes.get(end), wrapped = lineOf(a) !== lineOf(b);
      return arrow(route(a.box, b.box, { gap: GAP, edge: columns * pitch - 4, wrapped, stream }), stream);
    });
    const height = this.placeCard(narrow, pitch, columns, rows, origin);
    this.finish(this.inside, this.lines.inside, arrows, columns * pitch, height);
  }

  /** The card stands right of an attention: below the feed-forward half, or, of the first of two, below the stream. */
  placeCard(narrow, pitch, columns, rows, origin) {
    const at = BOX + GAP, height = rows * at - GAP;
    const ofFirst = origin.length > 2 && !this.boxes.get(this.data.chosen).place.half;
    const left = narrow ? 4 : HALF * pitch + 4, beside = ofFirst ? at : (origin.at(-1).row + 3) * at;
    const top = narrow ? height + GAP : beside;
    this.card.style.left = `${left}px`;
    this.card.style.top = `${top}px`;
    this.card.style.width = `${columns * pitch - left - GAP}px`;
    return Math.max(height, top + this.card.offsetHeight);
  }

  put(node, left, top, width) {
    const height = node.classList.contains("add") ? width : BOX;
    Object.assign(node.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
    node.box = { left, top, right: left + width, bottom: top + height };
  }

  finish(group, lines, arrows, width, height) {
    group.style.height = `${height}px`;
    lines.setAttribute("width", width);
    lines.setAttribute("height", height);
    lines.replaceChildren(...arrows);
  }
}

/** A shape: each axis a letter above its number, so that letter and number stay together. */
function axesRow(axes) {
  const row = element("span", "axes");
  for (const { symbol, letters, size } of axes) {
    const axis = element("span", "axis");
    axis.dataset.letters = letters.join(" ");
    axis.append(element("b", "", symbol), element("span", "number", size.toLocaleString("en")));
    row.append(axis);
  }
  return row;
}

function plus(x, { top, bottom }) {
  const text = drawn("text", { x, y: (top + bottom) / 2 + 6, class: "plus" });
  text.textContent = "+";
  return text;
}

/** 65,792; from a million on 12.3 M. The exact number is in the box's name and in the card. */
function short(count) {
  if (count < 1e6) return count.toLocaleString("en");
  return count < 1e9 ? `${(count / 1e6).toPrecision(3)} M` : `${(count / 1e9).toPrecision(3)} G`;
}

/** 96 B, 12.3 kB, 4.46 MB: thousands, not 1024s. */
function bytes(count) {
  if (count < 1000) return `${count} B`;
  const power = Math.min(4, Math.floor(Math.log10(count) / 3)), value = count / 1000 ** power;
  return `${value.toPrecision(value >= 100 ? Math.max(3, Math.ceil(Math.log10(value))) : 3)} ${["", "kB", "MB", "GB", "TB"][power]}`;
}

export default living(Diagram, ".shapes");
