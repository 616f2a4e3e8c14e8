"""Matrices made smaller by blocks, each of which keeps its strongest cell: one strong cell is never averaged away."""

from __future__ import annotations

from functools import reduce

import numpy as np


def even_blocks(length: int, count: int) -> np.ndarray:
    """`count` blocks of nearly the same size: which rows (or columns) each holds, (count, widest).

    Block i holds i·length//count up to (i+1)·length//count; short blocks repeat their last one.
    """
    return _between(np.arange(count + 1) * length // count)


def blocks_of(length: int, size: int) -> np.ndarray:
    """Blocks of `size` rows (or columns) each, the last one with what is left: (⌈length / size⌉, size)."""
    return _between(np.append(np.arange(0, length, size), length))


def pooled(
    matrices: np.ndarray, rows: np.ndarray, columns: np.ndarray, allowed: np.ndarray | None, *, signed: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """The strongest permitted cell of each block: (…,T,S) -> (…,P,R), and which blocks have one: (P,R), None as None.

    Strongest is the largest; `signed`: the one furthest from 0, of two equal ones the positive. A block without a
    permitted cell has an infinite number, which means nothing.
    """
    largest = _pool(np.maximum, _permitted(matrices, allowed, -np.inf), rows, columns)
    if signed:
        smallest = _pool(np.minimum, _permitted(matrices, allowed, np.inf), rows, columns)
        largest = np.where(-smallest > largest, smallest, largest)
    if allowed is None:
        return largest, None
    return largest, _pool(np.logical_or, np.asarray(allowed, dtype=bool), rows, columns)


def _between(edges: np.ndarray) -> np.ndarray:
    widest = np.diff(edges).max()
    return np.minimum(edges[:-1, None] + np.arange(widest), edges[1:, None] - 1)


def _permitted(matrices: np.ndarray, allowed: np.ndarray | None, otherwise: float) -> np.ndarray:
    """The matrices with `otherwise` in the masked cells, so that these win no comparison."""
    return matrices if allowed is None else np.where(allowed, matrices, np.float32(otherwise))


def _pool(better: np.ufunc, values: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The best value of each block. Rows first: they lie contiguous, and leave little for the columns."""
    for axis, blocks in ((-2, rows), (-1, columns)):
        if blocks.shape[1] > 1:
            values = reduce(better, (values.take(places, axis) for places in blocks.T))
    return values
