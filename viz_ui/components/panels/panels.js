// The root: unpacks the data, lays the panels out, and keeps what is selected and pointed at for all of them.

import { applyTheme, clamp, element, living, pixelTable, sameList, setText, spreadBits, Tooltip, unpack } from "../shared/shared.js";
import { BarsPanel } from "./bars_panel.js";
import { LinesPanel } from "./lines_panel.js";
import { AXIS_NAME, LARGEST_CELL, MatrixPanel } from "./matrix_panel.js";

const KINDS = { matrix: MatrixPanel, lines: LinesPanel, bars: BarsPanel };
const GAP = 22; // pixels between panels, as in panels.css
const NOTHING = { query: null, key: null };

class Panels {
  constructor(root) {
    this.root = root;
    this.selected = NOTHING;
    this.hovered = null;
    this.pinned = null; // "query" or "key": the lines panel shows only the lines of that selected token
    this.panels = new Map();
    this.tooltip = new Tooltip(root);
    this.live = root.appendChild(element("div", "unseen"));
    this.live.setAttribute("aria-live", "polite");
    root.onkeydown = (event) => {
      if (event.key === "Escape") this.unpin();
    };
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(root);
  }

  /** The width is read here only: at any other time the question makes the browser lay out the page. */
  resized() {
    this.width = this.root.clientWidth;
    this.render();
  }

  /** Called for each new data and each change of the theme. */
  receive(data) {
    performance.clearMeasures("viz.panels");
    const start = performance.now();
    applyTheme(this.root);
    if (data !== this.data) {
      this.data = data;
      this.read(unpack(data));
    }
    this.width ??= this.root.clientWidth;
    this.render(true);
    performance.measure("viz.panels", { start });
  }

  read({ head, floats, halves, bytes }) {
    const { items } = head;
    const values = [];
    head.values.forEach((entry, i) => { if (!entry.half) values[i] = floats(entry.count); });
    head.values.forEach((entry, i) => { if (entry.half) values[i] = halves(entry.count); });
    const masks = head.masks.map(({ cells }) => spreadBits(bytes(Math.ceil(cells / 8)), cells));
    const luts = { sequential: pixelTable(bytes(768)), diverging: pixelTable(bytes(768)) };
    const whole = head.values.map(({ mask }, i) => (mask == null ? values[i] : spread(values[i], masks[mask])));
    for (const item of items.filter(({ kind }) => kind === "matrix")) {
      const { half, unit } = head.values[item.values];
      item.rows.labels = head.labels[item.rows.labels];
      item.columns.labels = head.labels[item.columns.labels];
      item.mask = item.mask == null ? null : masks[item.mask];
      item.nonzero = item.nonzero == null ? null : masks[item.nonzero];
      item.digits = half ? 3 : 4;
      item.factor *= half ? unit : 1;
      item.floor = half ? Math.abs(item.factor) * 2 ** -14 : 0; // a smaller float16 has lost its digits
      item.values = whole[item.values];
      item.lut = luts[item.scale];
    }
    for (const item of items) if (item.of) item.of = items.find(({ name }) => name === item.of);
    this.sizes = head;
    if (head.selected) this.selected = { ...this.selected, query: head.selected[0], key: head.selected[1] };
    if (head.marked) this.selected = { ...this.selected, other: head.marked };
    this.build(items);
    for (const item of items) this.panels.get(item.name)?.update(item);
    this.forgetWhatIsGone();
  }

  /** The elements, made again only when the panels are others. */
  build(items) {
    const plan = items.map(({ kind, name, text }) => `${kind} ${name ?? text}`);
    if (sameList(plan, this.plan)) return;
    this.plan = plan;
    this.panels.clear();
    this.hovered = this.laid = null;
    const steps = [];
    let step = element("div", "step"); // an operator wraps to the next line together with what it leads to
    for (const { kind, name, text } of items) {
      if (text === "\n") {
        steps.push(element("div", "line-break"));
        continue;
      }
      if (kind === "symbol") {
        step.append(element("div", "symbol", text));
        continue;
      }
      const panel = new KINDS[kind](this, name);
      this.panels.set(name, panel);
      step.append(panel.node);
      steps.push(step);
      step = element("div", "step");
    }
    if (step.childNodes.length) steps.push(step);
    this.root.replaceChildren(...steps, this.live, this.tooltip.node);
  }

  /** A shorter prompt may have taken away the token that was selected or pointed at. */
  forgetWhatIsGone() {
    const lengths = { query: Infinity, key: Infinity };
    for (const panel of this.matrices()) {
      for (const { index, labels } of [panel.spec.rows, panel.spec.columns]) {
        if (index) lengths[index] = Math.min(lengths[index], labels.length);
      }
    }
    const there = ({ query, key, other }) => ({
      other, // a panel asks itself whether it has that row or column
      query: query < lengths.query ? query : null,
      key: key < lengths.key ? key : null,
    });
    this.selected = there(this.selected);
    const { hovered } = this;
    const panel = hovered && this.panels.get(hovered.panel);
    const { rows, columns } = panel?.spec.of ?? panel?.spec ?? {};
    const beyond = hovered && (hovered.row >= rows.labels.length || hovered.column >= columns.labels.length);
    if (beyond) this.leave();
  }

  matrices() {
    return [...this.panels.values()].filter((panel) => panel instanceof MatrixPanel);
  }

  /** Lay out where sizes or labels changed, paint, and show the focus. */
  render(fresh = false) {
    const { width } = this, ratio = window.devicePixelRatio;
    if (!width || !this.panels.size) return; // in a closed tab; the observer calls again when it opens
    const labels = this.matrices().flatMap(({ spec }) => [
      spec.rows.labels, spec.columns.labels, spec.rows.index, spec.columns.index]);
    const { matrix_width, list_height } = this.sizes;
    const shape = [width, ratio, matrix_width, list_height];
    const same = sameList(shape, this.laid?.shape) && labels.every((list, i) =>
      typeof list === "string" ? list === this.laid.labels[i] : sameList(list, this.laid.labels[i]));
    if (same && !fresh) return;
    if (!same) {
      this.laid = { shape, labels };
      const sizes = this.measure(width, ratio);
      for (const panel of this.panels.values()) panel.layout(sizes);
      this.level(sizes);
    }
    for (const panel of this.matrices()) panel.paint();
    this.show();
  }

  /** How large cells are and how much room labels get: the same for all panels, so that rows stand level. */
  measure(width, ratio) {
    const pen = element("canvas").getContext("2d");
    pen.font = `12px ${getComputedStyle(this.root).fontFamily}`;
    const longest = (labels) => Math.ceil(Math.max(0, ...labels.map((text) => pen.measureText(text).width)));
    const specs = this.matrices().map(({ spec }) => spec);
    const tokens = Math.max(1, ...specs.flatMap(({ rows, columns }) => [
      rows.index ? rows.labels.length : 0, columns.index ? columns.labels.length : 0]));
    const longestLabel = tokens > 150 ? 66 : width < 700 ? 84 : 108; // many cells need the room themselves
    const rowLabel = (labels) => Math.min(longest(labels) + 10, longestLabel);
    const columnLabel = (labels) => Math.min(longest(labels) + 10, 92);
    const fit = (room, count) =>
      clamp(Math.floor((room * ratio) / count), 1, Math.floor(LARGEST_CELL * ratio)) / ratio;
    const frame = AXIS_NAME + 8 + Math.max(0, ...specs.map(({ rows }) => rowLabel(rows.labels)));
    const room = Math.min(width, this.sizes.matrix_width) - frame;
    const symbols = [...this.root.querySelectorAll(".symbol")];
    const operator = Math.max(0, ...symbols.map((node) => node.offsetWidth + GAP));
    const share = width / Math.max(1, Math.round(width / this.sizes.matrix_width));
    const inStep = fit(Math.min(room, share - GAP - operator - frame), tokens);
    return {
      rowLabel, columnLabel, listHeight: this.sizes.list_height,
      // smaller cells where that lets operator and panel share a line, as long as they can be pointed at
      tokenCell: inStep >= 10 ? inStep : fit(room, tokens),
      featureCell: (count) => fit(Math.min(room, this.sizes.feature_width), count),
    };
  }

  /** Matrices that stand beside each other get equal room for column labels, so that their rows are level. */
  level(sizes) {
    const lines = Map.groupBy(this.matrices(), (panel) => panel.node.parentNode.offsetTop);
    for (const line of lines.values()) {
      const highest = Math.max(...line.map((panel) => panel.columnLabel));
      for (const panel of line) if (panel.columnLabel < highest) panel.layout(sizes, highest);
    }
  }

  show() {
    for (const panel of this.panels.values()) panel.highlight(this.selected, this.hovered);
  }

  hover(focus) {
    const before = this.hovered;
    this.hovered = focus;
    if (before?.panel === focus.panel && before.row === focus.row && before.column === focus.column) return;
    this.show();
  }

  leave(panel = this.hovered?.panel) {
    if (this.hovered?.panel !== panel) return;
    this.tooltip.hide();
    if (!this.hovered) return;
    this.hovered = null;
    this.show();
  }

  unpin() {
    this.pinned = null;
    this.tooltip.hide();
    this.hovered = null;
    this.show();
  }

  pick(name, row, column) {
    const panel = this.panels.get(name), { query, key, other } = this.meaning(panel, row, column);
    const before = this.selected;
    const marked = before.other && { ...before.other, ...other };
    this.selected = { query: query ?? before.query, key: key ?? before.key, other: marked };
    this.show();
    this.send("pick", { panel: name, row, column, query, key });
  }

  meaning(panel, row, column) {
    if (panel instanceof MatrixPanel) return panel.focus({ row, column });
    return { query: row, key: column };
  }

  open(name) {
    this.send("open", { panel: name });
  }

  announce(text) {
    setText(this.live, text);
  }

  end() {
    this.observer.disconnect();
  }
}

/** Values of the permitted cells, put where the mask has them; 0 elsewhere. */
function spread(values, mask) {
  const whole = new Float32Array(mask.length);
  let next = 0;
  for (let i = 0; i < mask.length; i++) if (mask[i]) whole[i] = values[next++];
  return whole;
}

export default living(Panels, ".panels");
