"""Attention matrices made small enough for a grid of thumbnails, without losing the cells that matter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from viz_ui.look.pooling import even_blocks, pooled


def thumbnails(
    matrices: np.ndarray,
    low: float,
    high: float,
    allowed: np.ndarray | None = None,
    size: int = 32,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Every matrix of (…,T,S) as at most size x size colour steps: (uint8 (…,P,R), allowed (P,R)).

    P = min(T, size) and R = min(S, size). Where T > P, block i holds the rows i·T//P up to (i+1)·T//P, and
    keeps the largest of its permitted cells, so that one strong cell is never averaged away. Where `low` < 0
    the colours diverge from 0, and a block keeps the cell furthest from 0 (of two equal ones the positive).
    `low` becomes step 0 and `high` step 255; values beyond them are clipped.

    allowed: booleans broadcastable to (…,T,S), True where a query may attend; (T,S) comes back as (P,R), None as
    None. A block is masked only if all its cells are; it gets step 0, which is not to be drawn.
    """
    strongest, allowed = shrunk(matrices, allowed, signed=low < 0, size=size)
    return steps(strongest, low, high, allowed), allowed


def shrunk(
    matrices: np.ndarray, allowed: np.ndarray | None, *, signed: bool, size: int = 32
) -> tuple[np.ndarray, np.ndarray | None]:
    """The strongest permitted cell of each of at most size x size blocks, see `pooling.pooled`."""
    rows, columns = (even_blocks(length, min(length, size)) for length in matrices.shape[-2:])
    return pooled(matrices, rows, columns, allowed, signed=signed)


def steps(values: np.ndarray, low: float, high: float, allowed: np.ndarray | None = None) -> np.ndarray:
    """Values as steps 0 to 255 of a colour scale from `low` to `high`, uint8; 0 where they are not permitted."""
    span = (high - low) or 1.0
    found = np.rint(np.clip((values - low) * (255 / span), 0, 255)).astype(np.uint8)
    return found if allowed is None else np.where(allowed, found, np.uint8(0))


def of_all_layers(allowed: Sequence[np.ndarray | None], heads: int) -> np.ndarray | None:
    """What is not masked in thumbnails, (P,R) of each layer: (P,R) where it is the same in all, else (L,H,P,R)."""
    first = allowed[0]
    if first is None or all((layer == first).all() for layer in allowed):
        return first
    return np.repeat(np.stack(allowed)[:, None], heads, 1)


def pooling_words(cells: tuple[int, int], pixels: tuple[int, int]) -> str:
    """A sentence that says what a pixel shows, where a matrix has more cells than its thumbnail pixels; else ""."""
    if cells == pixels:
        return ""
    rows, columns = pixels
    return f"A thumbnail has {rows} × {columns} pixels, and each pixel shows the largest of several cells."
