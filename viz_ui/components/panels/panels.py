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

from collections.abc import Callable, Sequence

import numpy as np

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


def panels(
    items: Sequence[Item],
    *,
    key: str,
    selected: tuple[int | None, int | None] | None = None,
    marked: dict[str, int] | None = None,
    matrix_width: int = 560,
    feature_width: int = 256,
    list_height: int = 420,
    on_pick: Callable[[dict], None] | None = None,
    on_open: Callable[[dict], None] | None = None,
) -> None:
    """Draw `items` side by side, wrapping where the page is narrow.

    selected: (query, key), framed in every panel; None leaves to the reader's last click.
    marked: the row or column to frame on axes that are neither queries nor keys, by the name of the axis.
    matrix_width, feature_width, list_height: the most pixels that a matrix, or the features in one, may be wide,
        and lines or bars tall.
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

    _component(
        data=pack_items(
            items,
            selected=selected,
            marked=marked,
            matrix_width=matrix_width,
            feature_width=feature_width,
            list_height=list_height,
        ),
        key=key,
        on_pick_change=relay("pick", checked_pick, on_pick),
        on_open_change=relay("open", checked_open, on_open),
    )


def pack_items(
    items: Sequence[Item],
    *,
    selected=None,
    marked=None,
    matrix_width: int = 560,
    feature_width: int = 256,
    list_height: int = 420,
) -> bytes:
    """The blob that the script draws from; see `packing` for its frame and `_Arrays` for what follows it."""
    matrices = check_items(items)
    arrays = _Arrays()
    described = [_describe(item, matrices, arrays) for item in items]
    header = {
        "items": described,
        "labels": list(arrays.labels),
        "values": arrays.values,
        "masks": arrays.masks,
        "selected": None if selected is None else [None if s is None else int(s) for s in selected],
        "marked": marked,
        "matrix_width": matrix_width,
        "feature_width": feature_width,
        "list_height": list_height,
    }
    return pack(header, *arrays.floats, *arrays.halves, *arrays.bytes, sequential_lut(), diverging_lut())


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
            self._sources[matrix.name] = len(self.values)
            self._append(matrix)
        return self._sources[matrix.name]

    def _append(self, matrix: Matrix) -> None:
        values = np.asarray(matrix.values, dtype=np.float32)
        sent = values.ravel() if matrix.allowed is None else values[matrix.allowed]
        entry = {
            "count": int(sent.size),
            "mask": self.mask(matrix.allowed),
            "half": values.size > EXACT_CELLS,
        }
        if entry["half"]:
            halves, entry["unit"] = as_halves(sent)
            self.halves.append(halves)
        else:
            self.floats.append(sent)
        self.values.append(entry)


def _describe(item: Item, matrices: dict[str, Matrix], arrays: _Arrays) -> dict:
    if isinstance(item, Symbol):
        return {"kind": "symbol", "text": item.text}
    if isinstance(item, Lines | Bars):
        return {"kind": type(item).__name__.lower(), "name": item.name, "title": item.title, "of": item.of}
    source = item if item.same_as is None else matrices[item.same_as]
    item = with_ends(item, source)
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
        "values": arrays.source(source),
        "factor": float(item.factor),
        "mask": arrays.mask(item.allowed),
        "ramp": item.ramp,
        # told apart here: a value too small for float16 arrives as 0
        "nonzero": arrays.mask(np.asarray(source.values) != 0) if item.mark_zeros else None,
    }


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
