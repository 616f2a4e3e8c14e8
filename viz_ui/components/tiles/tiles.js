// The root: reads all tiles, holds which one is looked at and whose row is written out, and lays out map and ledger.

import { Player } from "../shared/player.js";
import { clamp, element, formatNumber, living, pixelTable, spreadBits, Tooltip, unpack } from "../shared/shared.js";
import { Steps } from "../shared/steps.js";
import { Ledger } from "./tile_ledger.js";
import { TileMap } from "./tile_map.js";

const SIDE_BY_SIDE = 860; // pixels from which the ledger stands beside the map

class Tiles extends Steps {
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

  read(data) {
    this.data = data;
    const { head, floats, halves, bytes } = unpack(data);
    this.head = head;
    if (this.take(head.tiles.length - 1, head.step, head.answered) || this.query === undefined) this.query = head.query;
    const rows = head.tiles.reduce((sum, [top, bottom]) => sum + bottom - top, 0);
    const cells = head.tiles.reduce((sum, [top, bottom, left, right]) => sum + (bottom - top) * (right - left), 0);
    const large = (count, unit) => (head.half ? halves(count).map((value) => value * unit) : floats(count));
    const arrays = { maximum: floats(rows), total: floats(rows), rescaling: floats(rows) };
    arrays.scores = large(cells, head.units[0]);
    arrays.exponentials = large(cells, head.units[1]);
    arrays.output = large(rows * head.width, head.units[2]);
    arrays.mask = spreadBits(bytes(Math.ceil(cells / 8)), cells);
    this.luts = { sequential: pixelTable(bytes(768)), diverging: pixelTable(bytes(768)) };
    this.tiles = this.cut(head, arrays);
    this.skipped = head.skipped;
    this.ends = {
      scores: head.ends[0],
      output: head.ends[1],
      mixed: Math.max(...this.tiles.map(({ mixed }) => mixed.reduce((a, b) => Math.max(a, Math.abs(b)), 0))) || 1,
    };
  }

  /** The tiles one by one, each with what its rows were before it. */
  cut({ tiles, width, start }, arrays) {
    const latest = new Map(), at = { row: 0, cell: 0 };
    return tiles.map(([top, bottom, left, right, read, written]) => {
      const rows = bottom - top, columns = right - left;
      const ofRows = (name, size = 1) => arrays[name].subarray(at.row * size, (at.row + rows) * size);
      const ofCells = (name) => arrays[name].subarray(at.cell, at.cell + rows * columns);
      const tile = {
        top, left, rows, columns, read, written, corners: [top, bottom, left, right],
        maximum: ofRows("maximum"), total: ofRows("total"), rescaling: ofRows("rescaling"),
        output: ofRows("output", width),
        scores: ofCells("scores"), exponentials: ofCells("exponentials"), mask: ofCells("mask"),
        before: latest.get(top) ?? {
          maximum: new Float32Array(rows).fill(start[0] ?? -Infinity), total: new Float32Array(rows).fill(start[1]),
          output: new Float32Array(rows * width),
        },
      };
      tile.mixed = tile.output.map((value, i) => value / (tile.total[Math.floor(i / width)] || 1));
      latest.set(top, tile);
      at.row += rows;
      at.cell += rows * columns;
      return tile;
    });
  }

  get now() {
    return this.tiles[this.step];
  }

  /** The chosen query's row in the current tile; the first where the tile has another part of the queries. */
  get row() {
    const row = this.query - this.now.top;
    return row >= 0 && row < this.now.rows ? row : 0;
  }

  get place() {
    return `tile ${this.step + 1} of ${this.last + 1}`;
  }

  /** How values of a kind are drawn, as cells.js wants it. */
  spec(name, values, mask, rows, columns) {
    const scale = name === "exponentials" ? "sequential" : "diverging", end = this.ends[name] ?? 1;
    const halfRange = this.head.half && name !== "mixed";
    return {
      values, mask, scale, factor: 1, lut: this.luts[scale], rows: { labels: rows }, columns: { labels: columns },
      low: scale === "diverging" ? -end : 0, high: end, digits: this.head.half ? 3 : 4,
      floor: halfRange ? this.head.units[["scores", "exponentials", "output"].indexOf(name)] * 2 ** -14 : 0,
      role: { scores: "scores", exponentials: "weights" }[name] ?? "value",
    };
  }

  number(value, digits) {
    return Number.isFinite(value) ? formatNumber(value, digits) : "−∞";
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
    const { now, head } = this, [read, written] = head.moved, n = (count) => count.toLocaleString("en-US");
    const span = (from, count) => (count > 1 ? `${from}–${from + count - 1}` : `${from}`);
    const part = (className, text) => element("b", className, text);
    return [
      part("query", `Queries ${span(now.top, now.rows)}`), " × ", part("key", `keys ${span(now.left, now.columns)}`),
      ". Bytes read so far: ", part("", n(now.read)), ` of ${n(read)}; written: `, part("", n(now.written)),
      ` of ${n(written)}.`,
    ];
  }

  /** Write out the arithmetic of another query; Python hears of it, as of a step, when the reader stays. */
  choose(query) {
    if (query === this.query) return;
    this.query = query;
    this.ledger.showRow();
    this.rest();
  }

  /** Both choices in one event: of two that follow each other closely, the second would undo the first. */
  tell(event, step) {
    super.tell(event, step, this.query);
  }

  /** Beside the keys of every player: up and down go through the queries of the tile. */
  onKey(event, onBody = false) {
    const move = { ArrowUp: -1, ArrowDown: 1 }[event.key], plain = !(event.altKey || event.ctrlKey || event.metaKey);
    if (move && plain && !onBody && this.tiles && event.target.tagName !== "SELECT") {
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
