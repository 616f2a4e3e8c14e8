// The root: reads all tiles, holds which one is looked at and whose row is written out, and lays out map and ledger.

import { pixelTable, spreadBits, unpack } from "../shared/blob.js";
import { closest, element, Tooltip } from "../shared/elements.js";
import { clamp } from "../shared/look.js";
import { living } from "../shared/mounting.js";
import { formatCount } from "../shared/numbers.js";
import { Player, Steps } from "../shared/player.js";
import { Ledger } from "./tile_ledger.js";
import { TileMap } from "./tile_map.js";

const SIDE_BY_SIDE = 860; // pixels from which the ledger stands beside the map

/**
 * What tiles.py tells in its header.
 * @typedef {object} Header
 * @property {string[]} queries labels
 * @property {string[]} keys labels
 * @property {number} width numbers of a value
 * @property {[top: number, bottom: number, left: number, right: number, read: number, written: number][]} tiles
 * @property {Corners[]} skipped
 * @property {boolean} half whether scores, exponentials and output travelled as float16
 * @property {[scores: number, exponentials: number, output: number]} units of float16
 * @property {[scores: number, output: number]} ends of the colour scales
 * @property {[maximum: number | null, total: number]} start of a row before its first tile; null: −∞
 * @property {[read: number, written: number]} moved bytes in all
 * @property {string} score_formula what the scores are
 * @property {number} step
 * @property {number} query
 * @property {number} answered
 */

/** @typedef {[top: number, bottom: number, left: number, right: number]} Corners */

/** @typedef {"maximum" | "total" | "rescaling" | "output" | "scores" | "exponentials"} Quantity of all tiles */

/**
 * The rows of a tile before it or after it.
 * @typedef {object} Rows
 * @property {Float32Array} maximum
 * @property {Float32Array} total
 * @property {Float32Array} output (rows, width)
 */

/**
 * A tile, with what its rows were before it.
 * @typedef {Rows & { top: number, left: number, rows: number, columns: number, read: number, written: number,
 *   corners: Corners, rescaling: Float32Array, scores: Float32Array, exponentials: Float32Array, mask: Uint8Array,
 *   mixed: Float32Array, before: Rows }} Tile
 */

export class Tiles extends Steps {
  /** @type {Header} */
  head;
  /** @type {Tile[]} */
  tiles;
  /** @type {Corners[]} */
  skipped;
  /** @type {number | undefined} */
  query; // whose row is written out
  /** @type {Record<string, Uint32Array>} */
  luts;
  /** @type {Record<string, number>} */
  ends;
  /** @type {number | undefined} */
  width;

  /** @param {HTMLElement} root */
  constructor(root) {
    super(root);
    this.tooltip = new Tooltip(root);
    this.player = new Player(this);
    this.sentence = element("p", "sentence");
    this.map = new TileMap(this);
    this.ledger = new Ledger(this);
    const columns = element("div", "beside");
    columns.append(this.map.node, this.ledger.node);
    root.prepend(this.player.node, this.sentence, columns);
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(root);
  }

  /** @param {Uint8Array} data */
  read(data) {
    this.data = data;
    const { floats, halves, bytes, ...unpacked } = unpack(data);
    /** @type {Header} */
    const head = unpacked.head;
    this.head = head;
    if (this.take(head.tiles.length - 1, head.step, head.answered) || this.query === undefined) this.query = head.query;
    const rows = head.tiles.reduce((sum, [top, bottom]) => sum + bottom - top, 0);
    const cells = head.tiles.reduce((sum, [top, bottom, left, right]) => sum + (bottom - top) * (right - left), 0);
    /**
     * @param {number} count
     * @param {number} unit
     */
    const large = (count, unit) => (head.half ? halves(count).map((value) => value * unit) : floats(count));
    const arrays = { // in the order in which they travelled
      maximum: floats(rows), total: floats(rows), rescaling: floats(rows),
      scores: large(cells, head.units[0]), exponentials: large(cells, head.units[1]),
      output: large(rows * head.width, head.units[2]),
    };
    const mask = spreadBits(bytes(Math.ceil(cells / 8)), cells);
    this.luts = { sequential: pixelTable(bytes(768)), diverging: pixelTable(bytes(768)) };
    this.tiles = this.cut(head, arrays, mask);
    this.skipped = head.skipped;
    this.ends = {
      scores: head.ends[0],
      output: head.ends[1],
      mixed: Math.max(...this.tiles.map(({ mixed }) => mixed.reduce((a, b) => Math.max(a, Math.abs(b)), 0))) || 1,
    };
  }

  /**
   * The tiles one by one, each with what its rows were before it.
   * @param {Header} head
   * @param {Record<Quantity, Float32Array>} arrays
   * @param {Uint8Array} mask
   * @returns {Tile[]}
   */
  cut({ tiles, width, start }, arrays, mask) {
    /** @type {Map<number, Tile>} */
    const latest = new Map(), at = { row: 0, cell: 0 };
    return tiles.map(([top, bottom, left, right, read, written]) => {
      const rows = bottom - top, columns = right - left;
      /**
       * @param {Quantity} name
       * @param {number} [size]
       */
      const ofRows = (name, size = 1) => arrays[name].subarray(at.row * size, (at.row + rows) * size);
      const end = at.cell + rows * columns, total = ofRows("total"), output = ofRows("output", width);
      /** @type {Tile} */
      const tile = {
        top, left, rows, columns, read, written, corners: [top, bottom, left, right],
        maximum: ofRows("maximum"), total, rescaling: ofRows("rescaling"), output,
        scores: arrays.scores.subarray(at.cell, end), exponentials: arrays.exponentials.subarray(at.cell, end),
        mask: mask.subarray(at.cell, end),
        mixed: output.map((value, i) => value / (total[Math.floor(i / width)] || 1)),
        before: latest.get(top) ?? {
          maximum: new Float32Array(rows).fill(start[0] ?? -Infinity), total: new Float32Array(rows).fill(start[1]),
          output: new Float32Array(rows * width),
        },
      };
      latest.set(top, tile);
      at.row += rows;
      at.cell = end;
      return tile;
    });
  }

  get now() {
    return this.tiles[this.step];
  }

  /** The chosen query's row in the current tile; the first where the tile has another part of the queries. */
  get row() {
    const row = (this.query ?? 0) - this.now.top;
    return row >= 0 && row < this.now.rows ? row : 0;
  }

  get place() {
    return `tile ${this.step + 1} of ${this.last + 1}`;
  }

  /**
   * How values of a kind are drawn, as cells.js wants it.
   * @param {string} name
   * @param {ArrayLike<number>} values
   * @param {Uint8Array | null} mask
   * @param {string[]} rows labels
   * @param {string[]} columns labels
   * @returns {import("../shared/cells.js").Matrix}
   */
  spec(name, values, mask, rows, columns) {
    const scale = name === "exponentials" ? "sequential" : "diverging", end = this.ends[name] ?? 1;
    const halfRange = this.head.half && name !== "mixed";
    return {
      values, mask, factor: 1, lut: this.luts[scale],
      rows: { axis: "query", labels: rows, index: "query" }, columns: { axis: "key", labels: columns, index: "key" },
      low: scale === "diverging" ? -end : 0, high: end, digits: this.head.half ? 3 : 4,
      floor: halfRange ? this.head.units[["scores", "exponentials", "output"].indexOf(name)] * 2 ** -14 : 0,
      role: name === "scores" ? "scores" : name === "exponentials" ? "weights" : "value",
    };
  }

  layout(fresh = false) {
    const width = this.root.clientWidth;
    if (!width || !this.tiles || (!fresh && width === this.width)) return;
    this.width = width;
    this.root.classList.toggle("wide", width >= SIDE_BY_SIDE);
    this.map.update();
    this.map.layout();
    this.show();
  }

  show() {
    this.player.show();
    this.map.show();
    this.ledger.layout();
    this.ledger.show();
    this.sentence.replaceChildren(...this.describe());
  }

  describe() {
    const { now, head } = this, [read, written] = head.moved;
    /**
     * @param {number} from
     * @param {number} count
     */
    const span = (from, count) => (count > 1 ? `${from}–${from + count - 1}` : `${from}`);
    /**
     * @param {string} className
     * @param {string} text
     */
    const part = (className, text) => element("b", className, text);
    return [
      part("query", `Queries ${span(now.top, now.rows)}`), " × ", part("key", `keys ${span(now.left, now.columns)}`),
      ". Bytes read so far: ", part("", formatCount(now.read)), ` of ${formatCount(read)}; written: `,
      part("", formatCount(now.written)), ` of ${formatCount(written)}.`,
    ];
  }

  /**
   * Write out the arithmetic of another query; Python hears of it, as of a step, when the reader stays.
   * @param {number} query
   */
  choose(query) {
    if (query === this.query) return;
    this.query = query;
    this.ledger.showRow();
    this.rest();
  }

  /**
   * Both choices in one event: of two that follow each other closely, the second would undo the first.
   * @param {string} event
   * @param {number} step
   */
  tell(event, step) {
    super.tell(event, step, this.query);
  }

  /**
   * Beside the keys of every player: up and down go through the queries of the tile.
   * @param {KeyboardEvent} event
   * @param {boolean} [onBody]
   */
  onKey(event, onBody = false) {
    const move = event.key === "ArrowUp" ? -1 : event.key === "ArrowDown" ? 1 : 0;
    const plain = !(event.altKey || event.ctrlKey || event.metaKey);
    if (move && plain && !onBody && this.tiles && !closest(event, "select")) {
      this.choose(this.now.top + clamp(this.row + move, 0, this.now.rows - 1));
      event.preventDefault();
    } else super.onKey(event, onBody);
  }

  end() {
    super.end();
    this.observer.disconnect();
  }
}

export default living(Tiles, ".tiles");
