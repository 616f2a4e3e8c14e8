"""Attention worked out tile by tile: a player, the map of all tiles, and the arithmetic of the current one.

All tiles travel at once, so playing and stepping ask nobody; Python is told of the tile when the reader rests on it.

    tiles(pictures, skipped, query_labels, key_labels, moved=(4096, 512), tile=3, query=5, key="tiles",
          on_rest=lambda tile, query: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import EXACT_CELLS, as_halves, pack
from viz_ui.components.shared.serving import component
from viz_ui.look.colours import diverging_lut, sequential_lut

_component = component(
    "viz.tiles",
    html='<div class="tiles" role="group" aria-label="Attention, tile by tile"></div>',
    script="tiles/tiles.js",
    styles=("shared/player.css", "tiles/tiles.css"),
)

START = (-np.inf, 0.0)  # maximum and sum of a row before its first tile


@dataclass(frozen=True, eq=False)
class TilePicture:
    """One tile in plain values, in the order in which tiles are worked on.

    rows, columns: its queries and keys. scores, allowed, exponentials (R,C): before the mask, booleans, and
    exp(scores − maximum). maximum, total, rescaling (R,): after this tile, and what was before is multiplied with.
    output (R,D): after this tile, not divided by the total. read, written: bytes moved so far.
    """

    rows: range
    columns: range
    scores: np.ndarray
    allowed: np.ndarray
    exponentials: np.ndarray
    maximum: np.ndarray
    total: np.ndarray
    rescaling: np.ndarray
    output: np.ndarray
    read: int
    written: int


def tiles(
    pictures: Sequence[TilePicture],
    skipped: Sequence[tuple[range, range]],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    *,
    moved: tuple[int, int],
    tile: int,
    query: int,
    key: str,
    start: tuple[float, float] = START,
    score_formula: str = "QKᵀ/√D",
    on_rest: Callable[[int, int], None] | None = None,
) -> None:
    """Draw the tiles; `tile` is the number of the one to look at.

    skipped: tiles that nothing is read of. moved: bytes read and written by the whole run. query: the one whose
    arithmetic is written out where the tile has it. start: maximum and sum before a row's first tile.
    score_formula: what S, the numbers of a tile, are.
    on_rest: called with the numbers of the tile and of the query that the reader rests on.

    Raises ValueError where shapes do not fit.
    """

    def told() -> None:
        value = checked_rest(event_value(key, "step"), len(pictures), len(query_labels))
        if value is not None and on_rest is not None:
            number, row, st.session_state[answered] = value
            on_rest(number, row)

    answered = f"{key}_answered"  # the number of the last event that was taken: keys can be faster than answers
    data = pack_tiles(
        pictures,
        skipped,
        query_labels,
        key_labels,
        moved=moved,
        tile=tile,
        query=query,
        start=start,
        score_formula=score_formula,
        answered=st.session_state.get(answered, 0),
    )
    _component(data=data, key=key, on_step_change=told)


def pack_tiles(
    pictures: Sequence[TilePicture],
    skipped: Sequence[tuple[range, range]],
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    *,
    tile: int,
    start: tuple[float, float] = START,
    **header,
) -> bytes:
    """The blob that the script draws from.

    Behind the header: maxima, totals and rescalings of all tiles (float32); scores, exponentials and outputs of all
    tiles, float32, or float16 of more than `EXACT_CELLS` cells; which cells are permitted, as bits; two colour tables.
    """
    _check(pictures, skipped, len(query_labels), len(key_labels), tile)
    maximum, total = start
    scores, exponentials, outputs, allowed = (
        np.concatenate([getattr(picture, name).ravel() for picture in pictures])
        for name in ("scores", "exponentials", "output", "allowed")
    )
    running = [np.concatenate([getattr(one, name) for one in pictures]) for name in ("maximum", "total", "rescaling")]
    large = [np.where(allowed, scores, 0.0), exponentials, outputs]
    half = max(array.size for array in large) > EXACT_CELLS
    units = [1.0] * len(large)
    if half:
        large, units = zip(*map(as_halves, large), strict=True)
    header |= {
        "tiles": [[*_corners(one.rows, one.columns), one.read, one.written] for one in pictures],
        "skipped": [_corners(*block) for block in skipped],
        "queries": list(query_labels),
        "keys": list(key_labels),
        "width": pictures[0].output.shape[1],
        "step": tile,
        "start": [None if np.isneginf(maximum) else float(maximum), float(total)],
        "half": half,
        "units": list(units),
        "ends": [float(np.abs(array).max(initial=0.0)) or 1.0 for array in (scores[allowed], outputs)],
    }
    exact = [np.asarray(array, np.float32) for array in running]
    cells = [np.asarray(array, np.float16 if half else np.float32) for array in large]
    return pack(header, *exact, *cells, np.packbits(allowed), sequential_lut(), diverging_lut())


def checked_rest(value, count: int, queries: int) -> tuple[int, int, int] | None:
    """The event [tile or -1 for the last, query, number of the event] of a visitor's browser as numbers that are there.

    None for anything that it cannot honestly say.
    """
    if not isinstance(value, list) or len(value) != 3 or any(type(number) is not int for number in value):
        return None
    tile, query, event = value
    if not (-1 <= tile < count and 0 <= query < queries and event >= 1):
        return None
    return count - 1 if tile == -1 else tile, query, event


def _corners(rows: range, columns: range) -> list[int]:
    return [rows.start, rows.stop, columns.start, columns.stop]


def _check(pictures: Sequence[TilePicture], skipped, queries: int, keys: int, tile: int) -> None:
    covered = np.zeros((queries, keys), int)
    for rows, columns in [*((one.rows, one.columns) for one in pictures), *skipped]:
        covered[rows.start : rows.stop, columns.start : columns.stop] += 1
    if not pictures or (covered != 1).any():
        raise ValueError(f"The tiles do not cover {queries} queries × {keys} keys once.")
    for one in pictures:
        shape, width = (len(one.rows), len(one.columns)), pictures[0].output.shape[1]
        if not shape == one.scores.shape == one.allowed.shape == one.exponentials.shape:
            raise ValueError(f"A tile of {shape} has scores of {one.scores.shape}.")
        if one.output.shape != (shape[0], width):
            raise ValueError(f"A tile of {shape} has an output of {one.output.shape}, not ({shape[0]}, {width}).")
    if not 0 <= tile < len(pictures):
        raise ValueError(f"There is no tile {tile} among {len(pictures)}.")
