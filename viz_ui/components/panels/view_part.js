// Which part of a matrix is looked at, and how zooming and dragging change it.

import { clamp } from "../shared/look.js";

const LEAST = 12; // rows and columns that are seen at least

/**
 * The first row and column that are seen, and how many of each, as far as there are so many. In between of two rows
 * too, for a drag is smooth.
 * @typedef {{ row: number, column: number, size: number }} Part
 */

/** @typedef {[rows: number, columns: number]} Shape */

/**
 * @param {Shape} shape
 * @returns {Part}
 */
export const whole = (shape) => ({ row: 0, column: 0, size: Math.max(...shape) });

/**
 * The part, moved and sized into the matrix.
 * @param {Part} part
 * @param {Shape} shape
 * @returns {Part}
 */
export function fitted({ row, column, size }, [rows, columns]) {
  const longest = Math.max(rows, columns), seen = clamp(size, Math.min(LEAST, longest), longest);
  return {
    row: clamp(row, 0, Math.max(rows - seen, 0)), column: clamp(column, 0, Math.max(columns - seen, 0)), size: seen,
  };
}

/**
 * A part `factor` times as large, in which the cell `at` stays where it is.
 * @param {Part} part
 * @param {number} factor
 * @param {{ row: number, column: number }} at
 * @param {Shape} shape
 */
export function zoomed(part, factor, at, shape) {
  const { size } = fitted({ ...part, size: part.size * factor }, shape), share = size / part.size;
  return fitted({
    row: at.row - (at.row - part.row) * share, column: at.column - (at.column - part.column) * share, size,
  }, shape);
}

/**
 * The part moved by so many rows and columns.
 * @param {Part} part
 * @param {number} rows
 * @param {number} columns
 * @param {Shape} shape
 */
export const moved = (part, rows, columns, shape) =>
  fitted({ ...part, row: part.row + rows, column: part.column + columns }, shape);

/**
 * The part moved no further than it must be to show that cell, and those of a block after it.
 * @param {Part} part
 * @param {{ row: number, column: number }} cell
 * @param {number} block
 * @param {Shape} shape
 */
export function showing(part, { row, column }, block, shape) {
  /**
   * @param {number} first
   * @param {number} at
   */
  const near = (first, at) => clamp(first, at + block - part.size, at);
  return fitted({ ...part, row: near(part.row, row), column: near(part.column, column) }, shape);
}

/**
 * Where to look around: the cell if it is seen, else the middle.
 * @param {Part} part
 * @param {{ row: number | null, column: number | null }} cell
 */
export function middleOf(part, cell) {
  const inside = [[cell.row, part.row], [cell.column, part.column]].every(([at, first]) =>
    at !== null && first !== null && at >= first && at < first + part.size);
  const half = part.size / 2;
  return inside ? { row: (cell.row ?? 0) + 0.5, column: (cell.column ?? 0) + 0.5 }
    : { row: part.row + half, column: part.column + half };
}

/**
 * The part in whole rows and columns, as Python is asked for it.
 * @param {Part} part
 * @returns {[row: number, column: number, size: number]}
 */
export function asked({ row, column, size }) {
  const [top, left] = [Math.floor(row), Math.floor(column)];
  return [top, left, Math.ceil(Math.max(row - top, column - left) + size - 1e-9)];
}
