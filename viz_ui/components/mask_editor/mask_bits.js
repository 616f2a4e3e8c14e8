// The cells of a drawn mask, one byte each, with its past and future; knows nothing of the screen.

const STROKES_KEPT = 100;

export class MaskBits {
  constructor(rows, columns, cells) {
    Object.assign(this, { rows, columns, cells, past: [], future: [] });
  }

  get(row, column) {
    return this.cells[row * this.columns + column];
  }

  set(row, column, open) {
    this.cells[row * this.columns + column] = open;
  }

  /** A straight line of cells, so that a quick pointer leaves no gaps. */
  setLine(from, to, open) {
    const steps = Math.max(Math.abs(to.row - from.row), Math.abs(to.column - from.column), 1);
    for (let step = 0; step <= steps; step++) {
      const at = (a, b) => Math.round(a + ((b - a) * step) / steps);
      this.set(at(from.row, to.row), at(from.column, to.column), open);
    }
  }

  /** Close a row or column that is all open; open it otherwise. */
  toggleRow(row) {
    const whole = this.cells.subarray(row * this.columns, (row + 1) * this.columns);
    whole.fill(whole.every(Boolean) ? 0 : 1);
  }

  toggleColumn(column) {
    const rows = Array.from({ length: this.rows }, (_, row) => row);
    const open = rows.every((row) => this.get(row, column)) ? 0 : 1;
    for (const row of rows) this.set(row, column, open);
  }

  /** Every cell anew: `open(row, column, now)`. */
  fill(open) {
    this.cells = this.cells.map((now, i) => Number(open(Math.floor(i / this.columns), i % this.columns, now)));
  }

  /** Before a change: it can be undone from now on, and what was undone is gone. */
  remember() {
    this.past.push(this.cells.slice());
    if (this.past.length > STROKES_KEPT) this.past.shift();
    this.future = [];
  }

  step(from, to) {
    if (!from.length) return false;
    to.push(this.cells);
    this.cells = from.pop();
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
