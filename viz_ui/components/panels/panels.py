"""Linked pictures of one attention head: matrices, token-to-token lines, bars, and the operators between.

Pointing at a cell in one panel shows the same query and key in all of them; a click, or Enter, selects it.

    picked = panels(
        [Matrix("scores", "QKᵀ/√D", scores, tokens, tokens, role="scores", scale="diverging",
                rows_are_queries=True, columns_are_keys=True),
         Symbol("softmax"),
         Matrix("weights", "A", weights, tokens, tokens, role="weights", allowed=mask,
                rows_are_queries=True, columns_are_keys=True),
         Lines("lines", "Who reads whom"),
         Bars("bars", "One query's weights")],
        key="head", selected=(5, 3), on_pick=lambda event: ...)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import streamlit as st

from viz_ui.components.panels.long_matrix import (
    BARS,
    FAINTEST_LINE,
    KEYS_EACH,
    Layer,
    Part,
    StrongestKeys,
    around,
    fitted,
    is_long,
    layer,
    strongest,
    strongest_cell,
    whole,
)
from viz_ui.components.panels.panel_items import Bars, Item, Lines, Matrix, Symbol, check_items, with_ends
from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import EXACT_CELLS, as_halves, pack
from viz_ui.components.shared.serving import component
from viz_ui.look.colours import diverging_lut, sequential_lut

__all__ = ["Bars", "Lines", "Matrix", "Symbol", "panels"]

_component = component(
    "viz.panels",
    html='<div class="panels" role="group"></div>',
    script="panels/panels.js",
    styles=("panels/panels.css",),
)
_part = component("viz.panels_part", html="<span hidden></span>", script="panels/panels_part.js", styles=())


def panels(
    items: Sequence[Item],
    *,
    key: str,
    selected: tuple[int | None, int | None] | None = None,
    marked: dict[str, int] | None = None,
    matrix_width: int = 560,
    feature_width: int = 256,
    list_height: int = 420,
    can_zoom: bool = False,
    least_cell: int = 1,
    on_pick: Callable[[dict], None] | None = None,
    on_open: Callable[[dict], None] | None = None,
) -> None:
    """Draw `items` side by side, wrapping where the page is narrow.

    selected: (query, key), framed in every panel; None leaves to the reader's last click.
    marked: the row or column to frame on axes that are neither queries nor keys, by the name of the axis.
    matrix_width, feature_width, list_height: the most pixels that a matrix, or the features in one, may be wide,
        and lines or bars tall.
    can_zoom: a matrix of queries and keys with more than `MOST_CELLS` a side is sent pooled, and the reader can zoom to
        its cells; lines and bars of it show the strongest keys and say what they leave out. See `long_matrix`.
    least_cell: the fewest pixels of a cell that is of no token; a matrix that grows beyond its room is scrolled.
    on_pick: called with {"panel", "row", "column", "query", "key"} after a click or Enter. A number is None
        where the panel does not say it: a cell of Q has no key, a row's label no column.
    on_open: called with {"panel"} when a matrix is asked for as a Plotly heatmap.

    Raises ValueError for items that cannot be drawn (see `panel_items`).
    """
    matrices = check_items(items)

    def relay(event: str, check: Callable, handler: Callable[[dict], None] | None) -> Callable[[], None]:
        def changed() -> None:
            value = check(event_value(key, event), items, matrices)
            if handler is not None and value is not None:
                handler(value)

        return changed

    long = next(filter(is_long, matrices.values()), None) if can_zoom else None
    looked_at = f"{key}_looked_at"  # the part of a long matrix, and of which texts

    def look() -> None:
        part = checked_part(event_value(key, "look"))
        if part is not None:
            st.session_state[looked_at] = _texts(long), fitted(part, long)

    described = _describe_all(
        items,
        name=key,
        long=long,
        selected=selected,
        marked=marked,
        matrix_width=matrix_width,
        feature_width=feature_width,
        list_height=list_height,
        least_cell=least_cell,
    )
    _component(
        data=pack(*described),
        key=key,
        on_pick_change=relay("pick", checked_pick, on_pick),
        on_open_change=relay("open", checked_open, on_open),
        on_look_change=look if long else lambda: None,
    )
    if long is None:
        return
    texts, part = st.session_state.get(looked_at, (None, None))
    part = part if texts == _texts(long) else whole(long)
    with st.container(key=f"chosen_in_{key}"):  # main.css hides it
        _part(data=pack_part(long, part, name=key, stamp=described[0]["stamp"]), key=f"{key}_part")


def _texts(matrix: Matrix) -> int:
    return hash((tuple(matrix.row_labels), tuple(matrix.column_labels)))


def pack_part(long: Matrix, part: Part, *, name: str, stamp: str) -> bytes:
    """The part of a long matrix that is looked at: a message of its own, so that to zoom sends nothing else again.

    name, stamp: by which it finds the panels, and the message of the whole to which it belongs.
    """
    arrays = _Arrays()
    is_whole = part == whole(long)
    seen = None if is_whole else _describe_layer(layer(long, part), arrays)
    header = {"name": name, "stamp": stamp, "panel": long.name, "view": vars(part), "part": seen}
    return pack(header | arrays.header(), *arrays.all())


def pack_items(items: Sequence[Item], **options) -> bytes:
    """The blob that the script draws from; see `packing` for its frame and `_Arrays` for what follows it. The options
    are those of `_describe_all`."""
    return pack(*_describe_all(items, **options))


def _describe_all(
    items: Sequence[Item],
    *,
    name: str = "",
    long: Matrix | None = None,
    selected=None,
    marked=None,
    matrix_width: int = 560,
    feature_width: int = 256,
    list_height: int = 420,
    least_cell: int = 1,
) -> tuple:
    """The header of the blob, and its arrays. long: the matrix that is sent pooled."""
    matrices = check_items(items)
    arrays = _Arrays()
    query = None if selected is None or selected[0] is None else int(selected[0])
    described = [
        _describe_long(item, long, query, arrays)
        if long is not None and long.name in (getattr(item, "name", ""), getattr(item, "of", ""))
        else _describe(item, matrices, arrays)
        for item in items
    ]
    header = {
        "name": name,
        "stamp": "" if long is None else _stamp(described, arrays),
        "items": described,
        "labels": list(arrays.labels),
        "selected": None if selected is None else [None if s is None else int(s) for s in selected],
        "marked": marked,
        "matrix_width": matrix_width,
        "feature_width": feature_width,
        "list_height": list_height,
        "least_cell": least_cell,
    }
    return header | arrays.header(), *arrays.all(), sequential_lut(), diverging_lut()


def _stamp(described: list[dict], arrays: _Arrays) -> str:
    """What tells a message from that of another head, text or mask."""
    told = hashlib.blake2b(repr((described, list(arrays.labels))).encode(), digest_size=8)
    for array in arrays.all():
        told.update(np.ascontiguousarray(array).tobytes())
    return told.hexdigest()


class _Arrays:
    """What travels once though several panels show it: values, masks, labels.

    In the blob stand the float32 arrays, the float16 arrays, the masks (bits, first cell highest) and the two
    colour tables of 768 bytes; each kind in the order of its list in the header. Of a matrix with a mask only
    the permitted cells travel.
    """

    def __init__(self) -> None:
        self.labels: dict[tuple[str, ...], int] = {}
        self.values: list[dict] = []
        self.masks: list[dict] = []
        self.floats: list[np.ndarray] = []
        self.halves: list[np.ndarray] = []
        self.bytes: list[np.ndarray] = []
        self._sources: dict[str, int] = {}
        self._bits: dict[tuple, int] = {}

    def label(self, labels: Sequence[str]) -> int:
        return self.labels.setdefault(tuple(map(str, labels)), len(self.labels))

    def mask(self, allowed: np.ndarray | None) -> int | None:
        if allowed is None:
            return None
        bits = np.packbits(allowed)
        found = self._bits.setdefault((allowed.shape, bits.tobytes()), len(self.masks))
        if found == len(self.masks):
            self.masks.append({"cells": int(allowed.size)})
            self.bytes.append(bits)
        return found

    def source(self, matrix: Matrix) -> int:
        """The number of the matrix's values among all; sends them when they are new."""
        if matrix.name not in self._sources:
            self._sources[matrix.name] = self.cells(matrix.values, matrix.allowed)
        return self._sources[matrix.name]

    def cells(self, values: np.ndarray, allowed: np.ndarray | None = None, *, rounded: bool = False) -> int:
        """The number of these values among all; of a matrix with a mask only the permitted cells are sent.

        rounded: as float16, however few they are.
        """
        values = np.asarray(values, dtype=np.float32)
        sent = values.ravel() if allowed is None else values[allowed]
        entry = {
            "count": int(sent.size),
            "mask": self.mask(allowed),
            "half": rounded or values.size > EXACT_CELLS,
        }
        if entry["half"]:
            halves, entry["unit"] = as_halves(sent)
            self.halves.append(halves)
        else:
            self.floats.append(sent)
        self.values.append(entry)
        return len(self.values) - 1

    def header(self) -> dict:
        """What says how to read the arrays."""
        return {"values": self.values, "masks": self.masks}

    def all(self) -> list[np.ndarray]:
        """The arrays as they stand in the blob, before the colour tables."""
        return [*self.floats, *self.halves, *self.bytes]


def _describe(item: Item, matrices: dict[str, Matrix], arrays: _Arrays) -> dict:
    if isinstance(item, Symbol):
        return {"kind": "symbol", "text": item.text}
    if isinstance(item, Lines | Bars):
        return {"kind": type(item).__name__.lower(), "name": item.name, "title": item.title, "of": item.of}
    source = item if item.same_as is None else matrices[item.same_as]
    return _frame(with_ends(item, source), arrays) | {
        "values": arrays.source(source),
        "factor": float(item.factor),
        "mask": arrays.mask(item.allowed),
        # told apart here: a value too small for float16 arrives as 0
        "nonzero": arrays.mask(np.asarray(source.values) != 0) if item.mark_zeros else None,
    }


def _frame(item: Matrix, arrays: _Arrays) -> dict:
    """All of a matrix but its cells."""
    return {
        "kind": "matrix",
        "name": item.name,
        "title": item.title,
        "caption": item.caption,
        "role": item.role,
        "scale": item.scale,
        "law": item.law,
        "low": item.low,
        "high": item.high,
        "rows": {"axis": item.row_axis, "index": item.row_index, "labels": arrays.label(item.row_labels)},
        "columns": {
            "axis": item.column_axis,
            "index": item.column_index,
            "labels": arrays.label(item.column_labels),
        },
        "ramp": item.ramp,
    }


def _describe_long(item: Matrix | Lines | Bars, long: Matrix, query: int | None, arrays: _Arrays) -> dict:
    """A long matrix pooled; lines or bars of it with the strongest keys alone."""
    if isinstance(item, Matrix):
        overview = _describe_layer(layer(item, whole(item)), arrays)
        return _frame(with_ends(item, item), arrays) | {"overview": overview, "factor": float(item.factor)}
    if isinstance(item, Lines):
        least = FAINTEST_LINE * with_ends(long, long).high / abs(long.factor or 1)
        rows = [strongest(long, one, KEYS_EACH, least) for one in around(query, long.shape[0])]
    else:
        rows = [strongest(long, long.shape[0] - 1 if query is None else query, BARS)]
    found = {
        "values": arrays.cells(np.concatenate([row.values for row in rows])),
        "rows": [{"query": row.query, "keys": row.keys.tolist(), "rest": _rest(row)} for row in rows],
    }
    return {"kind": type(item).__name__.lower(), "name": item.name, "title": item.title, "of": item.of} | {
        "strongest": found
    }


def _rest(row: StrongestKeys) -> dict:
    return {"count": row.count, "total": row.total, "largest": row.largest}


def _describe_layer(found: Layer, arrays: _Arrays) -> dict:
    return {
        "row": found.row,
        "column": found.column,
        "block": found.block,
        "shape": list(found.values.shape),
        "values": arrays.cells(found.values, found.allowed, rounded=found.block > 1),
        "mask": arrays.mask(found.allowed),
    }


def checked_part(value) -> Part | None:
    """The event [row, column, size], or None for anything else: a visitor can forge it."""
    if not isinstance(value, list) or len(value) != 3 or any(type(number) is not int for number in value):
        return None
    return Part(*value)


def checked_pick(value, items: Sequence[Item], matrices: dict[str, Matrix]) -> dict | None:
    """The event as told by `panel`, `row` and `column`, or None where the browser sent something else.

    Events come from a visitor's browser, so nothing in them is believed: the numbers must lie in the panel,
    and what they mean as query and key is worked out here.
    """
    panel = _named(value, items)
    if panel is None:
        return None
    matrix = panel if isinstance(panel, Matrix) else matrices[panel.of]
    row, column = value.get("row"), value.get("column")
    for number, length in zip((row, column), matrix.shape, strict=True):
        if number is not None and (type(number) is not int or not 0 <= number < length):
            return None
    if row is None and column is None:
        return None
    block = value.get("block")
    if isinstance(panel, Matrix) and type(block) is int and block > 1 and None not in (row, column) and is_long(panel):
        row, column = strongest_cell(panel, row, column, block)  # the one that the block shows
    known = {matrix.column_index: column, matrix.row_index: row}
    return {
        "panel": panel.name,
        "row": row,
        "column": column,
        "query": known.get("query"),
        "key": known.get("key"),
    }


def checked_open(value, items: Sequence[Item], matrices: dict[str, Matrix]) -> dict | None:
    """The event {"panel": name} of a matrix that is there, or None."""
    panel = _named(value, items)
    return {"panel": panel.name} if isinstance(panel, Matrix) else None


def _named(value, items: Sequence[Item]) -> Matrix | Lines | Bars | None:
    if not isinstance(value, dict):
        return None
    named = {item.name: item for item in items if not isinstance(item, Symbol)}
    return named.get(value.get("panel")) if isinstance(value.get("panel"), str) else None
