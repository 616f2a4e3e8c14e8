// The root: unpacks the data, lays the panels out, and keeps what is selected and pointed at for all of them.

import { pixelTable, spreadBits, unpack } from "../shared/blob.js";
import { element, penOf, setText, Tooltip } from "../shared/elements.js";
import { applyTheme, clamp, pixelRatio, sameList } from "../shared/look.js";
import { living } from "../shared/mounting.js";
import { BarsPanel } from "./bars_panel.js";
import { LinesPanel } from "./lines_panel.js";
import { LongMatrixPanel } from "./long_matrix_panel.js";
import { AXIS_NAME, LARGEST_CELL, MatrixPanel } from "./matrix_panel.js";

const KINDS = { matrix: MatrixPanel, long: LongMatrixPanel, lines: LinesPanel, bars: BarsPanel };

/**
 * What is selected: a token as query, one as key, and rows or columns of other axes by the axis' name.
 * @typedef {object} Selection
 * @property {number | null} query
 * @property {number | null} key
 * @property {Record<string, number | null>} [other]
 */

/**
 * What is pointed at: besides what it means, the row and column of one panel.
 * @typedef {Selection & { panel: string, row: number | null, column: number | null }} Focus
 */

/**
 * A matrix as panels.py describes it.
 * @typedef {import("../shared/cells.js").Matrix & { kind: "matrix", name: string, title: string, caption: string,
 *   scale: "sequential" | "diverging", ramp: boolean }} MatrixItem
 */

/**
 * The strongest keys of a query, by position, and what is left out of its row.
 * @typedef {{ query: number, keys: number[], values: Float32Array,
 *   rest: { count: number, total: number, largest: number } }} StrongestRow
 */

/**
 * A matrix, token by token; strongest: of a long text, what is shown of it.
 * @typedef {{ kind: "lines" | "bars", name: string, title: string, of: MatrixItem, strongest?: StrongestRow[] }} List
 */

/**
 * Sizes that all panels share, in CSS pixels.
 * @typedef {object} Sizes
 * @property {(labels: string[]) => number} rowLabel
 * @property {(labels: string[]) => number} columnLabel
 * @property {number} listHeight
 * @property {number} tokenCell
 * @property {(count: number) => number} featureCell
 * @property {number} room for all cells of a matrix
 */

/**
 * One of the three kinds of panels.
 * @typedef {object} Panel
 * @property {HTMLElement} node
 * @property {any} spec
 * @property {(spec: any) => void} update
 * @property {(sizes: Sizes, columnLabel?: number) => void} layout
 * @property {(selected: Selection, hovered: Focus | null) => void} highlight
 */

/** @type {Map<string, Panels>} */
const named = new Map();
/** @type {Map<string, Uint8Array>} */
const parts = new Map(); // the last of each: it may come before the panels are there

/** @param {Uint8Array} data the part that is looked at of a long matrix */
export function tellPart(data) {
  const { name } = unpack(data).head;
  parts.set(name, data);
  named.get(name)?.takePart();
}

export class Panels {
  /** @type {import("../shared/mounting.js").Send} */
  send;
  /** @type {Uint8Array | undefined} */
  data;
  /** @type {Selection} */
  selected = { query: null, key: null };
  /** @type {Focus | null} */
  hovered = null;
  /** @type {"query" | "key" | null} */
  pinned = null; // the lines panel shows only the lines of that selected token
  /** @type {Map<string, Panel>} */
  panels = new Map();
  name = "";
  stamp = ""; // of the last message
  /** @type {string[] | undefined} */
  plan; // what the elements were made for
  /** @type {{ shape: unknown[], labels: (string | string[])[] } | null} */
  laid = null; // what the layout was made for
  /** @type {{ matrix_width: number, feature_width: number, list_height: number, least_cell: number }} */
  sizes;
  /** @type {number | undefined} */
  width;

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
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

  /**
   * Called for each new data and each change of the theme.
   * @param {Uint8Array} data
   */
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

  /** @param {import("../shared/blob.js").Unpacked} blob */
  read(blob) {
    const { head } = blob, { items } = head, arrays = readArrays(blob);
    /** @type {Record<string, Uint32Array>} */
    const luts = { sequential: pixelTable(blob.bytes(768)), diverging: pixelTable(blob.bytes(768)) };
    for (const item of items) {
      if (item.strongest) item.strongest = rowsOf(item.strongest, arrays.values);
      if (item.kind !== "matrix") continue;
      item.rows.labels = head.labels[item.rows.labels];
      item.columns.labels = head.labels[item.columns.labels];
      item.lut = luts[item.scale];
      if (item.overview) Object.assign(item, { kind: "long", overview: layerOf(item, item.overview, arrays) });
      else Object.assign(item, arrays.cellsOf(item, item));
      item.nonzero = item.nonzero == null ? null : arrays.masks[item.nonzero];
    }
    for (const item of items) {
      if (item.of) item.of = items.find((/** @type {{ name: string }} */ { name }) => name === item.of);
    }
    this.sizes = head;
    this.stamp = head.stamp;
    if (head.name) named.set(this.name = head.name, this);
    if (head.selected) this.selected = { ...this.selected, query: head.selected[0], key: head.selected[1] };
    if (head.marked) this.selected = { ...this.selected, other: head.marked };
    this.build(items);
    for (const item of items) this.panels.get(item.name)?.update(item);
    this.takePart();
    this.forgetWhatIsGone();
  }

  /** The part that is looked at of a long matrix, where it is of this message and not of the one before or after. */
  takePart() {
    const data = parts.get(this.name), blob = data && unpack(data);
    if (!blob || blob.head.stamp !== this.stamp) return;
    const panel = this.panels.get(blob.head.panel), { part, view } = blob.head;
    if (panel instanceof LongMatrixPanel) panel.take(part && layerOf(panel.spec, part, readArrays(blob)), view);
  }

  /**
   * The elements, made again only when the panels are others.
   * @param {{ kind: string, name: string, text: string }[]} items
   */
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
      /** @type {Panel} */
      const panel = new KINDS[/** @type {keyof typeof KINDS} */ (kind)](this, name);
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
    const { hovered, selected: { query, key, other } } = this;
    this.selected = {
      other, // a panel asks itself whether it has that row or column
      query: query !== null && query < lengths.query ? query : null,
      key: key !== null && key < lengths.key ? key : null,
    };
    const panel = hovered && this.panels.get(hovered.panel);
    if (!hovered || !panel) return;
    /** @type {MatrixItem} */
    const { rows, columns } = panel.spec.of ?? panel.spec;
    if ((hovered.row ?? 0) >= rows.labels.length || (hovered.column ?? 0) >= columns.labels.length) this.leave();
  }

  /** @returns {MatrixPanel[]} */
  matrices() {
    return /** @type {any[]} */ ([...this.panels.values()]).filter((panel) => panel instanceof MatrixPanel);
  }

  /** Lay out where sizes or labels changed, paint, and show the focus. */
  render(fresh = false) {
    const { width, laid } = this, ratio = pixelRatio();
    if (!width || !this.panels.size) return; // in a closed tab; the observer calls again when it opens
    const labels = this.matrices().flatMap(({ spec }) => [
      spec.rows.labels, spec.columns.labels, spec.rows.index, spec.columns.index]);
    const { matrix_width, list_height } = this.sizes;
    const shape = [width, ratio, matrix_width, list_height];
    const same = laid !== null && sameList(shape, laid.shape) && labels.every((list, i) => {
      const before = laid.labels[i];
      return typeof list === "string" || typeof before === "string" ? list === before : sameList(list, before);
    });
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

  /**
   * How large cells are and how much room labels get: the same for all panels, so that rows stand level.
   * @param {number} width
   * @param {number} ratio
   * @returns {Sizes}
   */
  measure(width, ratio) {
    const pen = penOf(element("canvas")), style = getComputedStyle(this.root), gap = parseFloat(style.columnGap);
    pen.font = `12px ${style.fontFamily}`;
    /** @param {string[]} labels */
    const longest = (labels) => Math.ceil(Math.max(0, ...labels.map((text) => pen.measureText(text).width)));
    const specs = this.matrices().map(({ spec }) => spec);
    const tokens = Math.max(1, ...specs.flatMap(({ rows, columns }) => [
      rows.index ? rows.labels.length : 0, columns.index ? columns.labels.length : 0]));
    const areNames = specs.every(({ rows, columns }) => !rows.index && !columns.index); // few words, to be read whole
    const ofTokens = tokens > 150 ? 66 : width < 700 ? 84 : 108; // many cells need the room themselves
    const longestLabel = areNames ? 150 : ofTokens;
    /** @param {string[]} labels */
    const rowLabel = (labels) => Math.min(longest(labels) + 10, longestLabel);
    /** @param {string[]} labels */
    const columnLabel = (labels) => Math.min(longest(labels) + 10, areNames ? 150 : 92);
    /**
     * @param {number} room
     * @param {number} count
     */
    const fit = (room, count) =>
      clamp(Math.floor((room * ratio) / count), 1, Math.floor(LARGEST_CELL * ratio)) / ratio;
    const frame = AXIS_NAME + 8 + Math.max(0, ...specs.map(({ rows }) => rowLabel(rows.labels)));
    const room = Math.min(width, this.sizes.matrix_width) - frame;
    const symbols = [.../** @type {NodeListOf<HTMLElement>} */ (this.root.querySelectorAll(".symbol"))];
    const operator = Math.max(0, ...symbols.map((node) => node.offsetWidth + gap));
    const share = width / Math.max(1, Math.round(width / this.sizes.matrix_width));
    const inStep = fit(Math.min(room, share - gap - operator - frame), tokens);
    return {
      rowLabel, columnLabel, room, listHeight: this.sizes.list_height,
      // smaller cells where that lets operator and panel share a line, as long as they can be pointed at
      tokenCell: inStep >= 10 ? inStep : fit(room, tokens),
      featureCell: (count) => Math.max(this.sizes.least_cell, fit(Math.min(room, this.sizes.feature_width), count)),
    };
  }

  /**
   * Matrices that stand beside each other get equal room for column labels, so that their rows are level.
   * @param {Sizes} sizes
   */
  level(sizes) {
    const lines = Map.groupBy(this.matrices(), (panel) => panel.node.parentElement?.offsetTop);
    for (const line of lines.values()) {
      const highest = Math.max(...line.map((panel) => panel.columnLabel));
      for (const panel of line) if (panel.columnLabel < highest) panel.layout(sizes, highest);
    }
  }

  show() {
    for (const panel of this.panels.values()) panel.highlight(this.selected, this.hovered);
  }

  /** @param {Focus} focus */
  hover(focus) {
    const before = this.hovered;
    this.hovered = focus;
    if (before?.panel === focus.panel && before.row === focus.row && before.column === focus.column) return;
    this.show();
  }

  /** @param {string} [panel] */
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

  /**
   * @param {string} name of a panel
   * @param {number | null} row
   * @param {number | null} column
   */
  pick(name, row, column) {
    const { query, key, other } = this.meaning(name, row, column);
    const before = this.selected;
    const marked = before.other && { ...before.other, ...other };
    this.selected = { query: query ?? before.query, key: key ?? before.key, other: marked };
    this.show();
    this.send("pick", { panel: name, row, column, query, key });
  }

  /**
   * @param {string} name of a panel
   * @param {number | null} row
   * @param {number | null} column
   * @returns {Selection}
   */
  meaning(name, row, column) {
    const panel = this.panels.get(name);
    if (panel instanceof MatrixPanel) return panel.focus({ row, column });
    return { query: row, key: column };
  }

  /** @param {string} name of a panel */
  open(name) {
    this.send("open", { panel: name });
  }

  /** @param {string} text */
  announce(text) {
    setText(this.live, text);
  }

  end() {
    this.observer.disconnect();
    if (named.get(this.name) !== this) return; // one that came after it has the name
    named.delete(this.name);
    parts.delete(this.name);
  }
}

/**
 * The arrays of a message: values where permitted and 0 elsewhere, and masks.
 * @param {import("../shared/blob.js").Unpacked} blob
 */
function readArrays({ head, floats, halves, bytes }) {
  /** @type {{ half: boolean, count: number, unit: number, mask: number | null }[]} */
  const entries = head.values;
  /** @type {Float32Array[]} */
  const sent = [];
  entries.forEach((entry, i) => { if (!entry.half) sent[i] = floats(entry.count); });
  entries.forEach((entry, i) => { if (entry.half) sent[i] = halves(entry.count); });
  /** @type {Uint8Array[]} */
  const masks = head.masks.map((/** @type {{ cells: number }} */ { cells }) =>
    spreadBits(bytes(Math.ceil(cells / 8)), cells));
  const values = entries.map(({ mask }, i) => (mask == null ? sent[i] : spread(sent[i], masks[mask])));
  /**
   * @param {{ values: number, mask: number | null }} where
   * @param {{ factor: number }} item
   */
  const cellsOf = (where, item) => {
    const { half, unit } = entries[where.values], factor = item.factor * (half ? unit : 1);
    return {
      values: values[where.values], mask: where.mask == null ? null : masks[where.mask], factor, digits: half ? 3 : 4,
      floor: half ? Math.abs(factor) * 2 ** -14 : 0, // a smaller float16 has lost its digits
    };
  };
  return { values, masks, cellsOf };
}

/**
 * A part of a long matrix as a matrix of its own, whose rows and columns are blocks.
 * @param {any} item
 * @param {any} sent
 * @param {ReturnType<typeof readArrays>} arrays
 * @returns {import("./long_matrix_panel.js").Layer}
 */
function layerOf(item, sent, arrays) {
  const { row, column, block, shape } = sent;
  /**
   * @param {import("../shared/cells.js").Axis} axis
   * @param {number} first
   * @param {number} count
   */
  const blocks = (axis, first, count) => ({ ...axis, labels: Array.from({ length: count }, (_, i) => {
    const from = first + i * block, to = Math.min(from + block, axis.labels.length) - 1;
    return from === to ? axis.labels[from] : `${axis.labels[from]} … ${axis.labels[to]}`;
  }) });
  return {
    ...item, ...arrays.cellsOf(sent, item), row, column, block,
    rows: blocks(item.rows, row, shape[0]), columns: blocks(item.columns, column, shape[1]),
  };
}

/**
 * @param {{ values: number, rows: import("./panels.js").StrongestRow[] }} sent
 * @param {Float32Array[]} values
 * @returns {import("./panels.js").StrongestRow[]}
 */
function rowsOf(sent, values) {
  let at = 0;
  return sent.rows.map((row) => ({ ...row, values: values[sent.values].subarray(at, at += row.keys.length) }));
}

/**
 * Values of the permitted cells, put where the mask has them; 0 elsewhere.
 * @param {Float32Array} values
 * @param {Uint8Array} mask
 * @returns {Float32Array}
 */
function spread(values, mask) {
  const whole = new Float32Array(mask.length);
  let next = 0;
  for (let i = 0; i < mask.length; i++) if (mask[i]) whole[i] = values[next++];
  return whole;
}

export default living(Panels, ".panels");
