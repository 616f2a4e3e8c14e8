"""A matrix of a long text: pooled so far that a canvas can show it, with the part that is looked at in finer cells.

A picture of some hundred pixels a side shows no millions of cells, and these would be megabytes for each head. So three
things travel: the whole, pooled; the part that the reader zoomed to, pooled less or not at all; and of the chosen query
and those around it the strongest keys, for bars and lines. Which cell of a block is the strongest is asked of Python.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from viz_ui.components.panels.panel_items import Matrix
from viz_ui.look.pooling import blocks_of, pooled

MOST_CELLS = 220  # a side: a matrix of more is pooled, to so many blocks at most
LINES_OF, KEYS_EACH = 48, 20  # how many queries have lines, and how many keys each at most
FAINTEST_LINE, FEWEST = 0.01, 2  # of the end of the scale: of weaker keys a query has so many lines
BARS = 100


@dataclass(frozen=True)
class Part:
    """What is looked at: the first query and key, and how many of each, as far as there are so many."""

    row: int
    column: int
    size: int


@dataclass(frozen=True, eq=False)
class Layer:
    """A part of a matrix in blocks of `block` × `block` cells: values (P,R), allowed (P,R) or None.

    row, column: the first query and key that it holds.
    """

    row: int
    column: int
    block: int
    values: np.ndarray
    allowed: np.ndarray | None


@dataclass(frozen=True, eq=False)
class StrongestKeys:
    """The keys that a query weights most, of those it may read, by their places; and what is left out.

    values: of these keys; count, total, largest: how many others there are, their sum, and the one furthest from 0.
    """

    query: int
    keys: np.ndarray
    values: np.ndarray
    count: int
    total: float
    largest: float


def is_long(matrix: Matrix) -> bool:
    """Whether the matrix is one of queries and keys that has too many cells to be sent."""
    tokens = matrix.rows_are_queries and matrix.columns_are_keys
    return tokens and matrix.values is not None and not matrix.mark_zeros and max(matrix.shape) > MOST_CELLS


def whole(matrix: Matrix) -> Part:
    """All of it."""
    return Part(0, 0, max(matrix.shape))


def fitted(part: Part, matrix: Matrix) -> Part:
    """The part, moved into the matrix."""
    size = min(max(part.size, 1), max(matrix.shape))
    row, column = (
        min(max(at, 0), max(length - size, 0)) for at, length in zip((part.row, part.column), matrix.shape, strict=True)
    )
    return Part(row, column, size)


def layer(matrix: Matrix, part: Part) -> Layer:
    """The part in as small blocks as a picture can show. Blocks are counted from the first query and key."""
    block = math.ceil(part.size / MOST_CELLS)
    starts = [at // block * block for at in (part.row, part.column)]
    ends = [min(at + part.size, length) for at, length in zip((part.row, part.column), matrix.shape, strict=True)]
    cells = tuple(slice(start, end) for start, end in zip(starts, ends, strict=True))
    values = np.asarray(matrix.values, np.float32)[cells]
    allowed = None if matrix.allowed is None else matrix.allowed[cells]
    if block > 1:
        rows, columns = (blocks_of(length, block) for length in values.shape)
        values, allowed = pooled(values, rows, columns, allowed, signed=matrix.scale == "diverging")
    return Layer(*starts, block, values, allowed)


def strongest_cell(matrix: Matrix, row: int, column: int, block: int) -> tuple[int, int]:
    """The cell that a block shows: the permitted one with the largest number, or furthest from 0; else its first."""
    cells = slice(row, row + block), slice(column, column + block)
    values = np.asarray(matrix.values, np.float32)[cells]
    allowed = np.ones(values.shape, bool) if matrix.allowed is None else matrix.allowed[cells]
    if not allowed.any():
        return row, column
    ranked = np.where(allowed, np.abs(values) if matrix.scale == "diverging" else values, -np.inf)
    down, right = np.unravel_index(ranked.argmax(), ranked.shape)
    return row + int(down), column + int(right)


def strongest(matrix: Matrix, query: int, most: int, least: float = 0.0) -> StrongestKeys:
    """The strongest `most` keys of a query, by position; of those with less than `least` only the `FEWEST` first."""
    values = np.asarray(matrix.values[query], np.float32)
    places = np.arange(len(values)) if matrix.allowed is None else np.flatnonzero(matrix.allowed[query])
    sizes = np.abs(values[places])
    order = np.argsort(-sizes, kind="stable")  # of equal ones the first
    most = min(most, max(int((sizes >= least).sum()), FEWEST))
    keys, others = np.sort(places[order[:most]]), values[places[order[most:]]]
    largest = float(others[0]) if len(others) else 0.0
    return StrongestKeys(query, keys, values[keys], len(others), float(others.sum(dtype=np.float64)), largest)


def around(query: int | None, count: int) -> range:
    """The queries that have lines: around the chosen one, the last ones where none is chosen."""
    first = count - LINES_OF if query is None else query - LINES_OF // 2
    first = min(max(first, 0), max(count - LINES_OF, 0))
    return range(first, min(first + LINES_OF, count))
