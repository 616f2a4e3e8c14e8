// The cells of a drawn mask, one byte each, with its past and future; knows nothing of the screen.

const STROKES_KEPT = 100;

/** @typedef {{ row: number, column: number }} Cell */

export class MaskBits {
  /** @type {Uint8Array[]} */
  past = [];
  /** @type {Uint8Array[]} */
  future = [];

  /**
   * @param {number} rows
   * @param {number} columns
   * @param {Uint8Array} cells 1: open
   */
  constructor(rows, columns, cells) {
    this.rows = rows;
    this.columns = columns;
    this.cells = cells;
  }

  /**
   * @param {number} row
   * @param {number} column
   */
  get(row, column) {
    return this.cells[row * this.columns + column];
  }

  /**
   * @param {number} row
   * @param {number} column
   * @param {number} open
   */
  set(row, column, open) {
    this.cells[row * this.columns + column] = open;
  }

  /**
   * A straight line of cells, so that a quick pointer leaves no gaps.
   * @param {Cell} from
   * @param {Cell} to
   * @param {number} open
   */
  setLine(from, to, open) {
    const steps = Math.max(Math.abs(to.row - from.row), Math.abs(to.column - from.column), 1);
    for (let step = 0; step <= steps; step++) {
      /**
       * @param {number} a
       * @param {number} b
       */
      const at = (a, b) => Math.round(a + ((b - a) * step) / steps);
      this.set(at(from.row, to.row), at(from.column, to.column), open);
    }
  }

  /**
   * Close a row that is all open; open it otherwise.
   * @param {number} row
   */
  toggleRow(row) {
    const whole = this.cells.subarray(row * this.columns, (row + 1) * this.columns);
    whole.fill(whole.every(Boolean) ? 0 : 1);
  }

  /** @param {number} column */
  toggleColumn(column) {
    const rows = Array.from({ length: this.rows }, (_, row) => row);
    const open = rows.every((row) => this.get(row, column)) ? 0 : 1;
    for (const row of rows) this.set(row, column, open);
  }

  /**
   * Every cell anew.
   * @param {(row: number, column: number, now: number) => boolean} open
   */
  fill(open) {
    this.cells = this.cells.map((now, i) => Number(open(Math.floor(i / this.columns), i % this.columns, now)));
  }

  /** Before a change: it can be undone from now on, and what was undone is gone. */
  remember() {
    this.past.push(this.cells.slice());
    if (this.past.length > STROKES_KEPT) this.past.shift();
    this.future = [];
  }

  /**
   * @param {Uint8Array[]} from
   * @param {Uint8Array[]} to
   * @returns {boolean} whether there was a step to take
   */
  step(from, to) {
    const cells = from.pop();
    if (!cells) return false;
    to.push(this.cells);
    this.cells = cells;
    return true;
  }

  undo() {
    return this.step(this.past, this.future);
  }

  redo() {
    return this.step(this.future, this.past);
  }

  count() {
    return this.cells.reduce((sum, open) => sum + open, 0);
  }

  /** As numpy.packbits has them, in base64. */
  packed() {
    const bytes = new Uint8Array(Math.ceil(this.cells.length / 8));
    this.cells.forEach((open, i) => { if (open) bytes[i >> 3] |= 128 >> (i & 7); });
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    return btoa(text);
  }
}
