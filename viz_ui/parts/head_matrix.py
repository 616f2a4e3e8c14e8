"""One number a head, as a matrix layers × heads: a click chooses the head, and it opens large like every matrix."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.view import View, choose_head
from viz_ui.parts.open_matrix import Named, note_opened, open_noted_matrix

LEAST_CELL = 14  # pixels: a cell can be pointed at, and every label be read
MOST_ROWS = 18  # layers below each other, with cells of that size, in a window of 720 pixels


def draw_head_matrix(
    view: View,
    name: str,
    title: str,
    values: np.ndarray,
    names: Named,
    *,
    matrix_width: int = 560,
    beside: Mapping[Named, Matrix] | None = None,
    marked: Mapping[str, int] | None = None,
    on_pick: Callable[[dict], None] | None = None,
    **look,
) -> None:
    """values (L,H), with the chosen head framed. name: of the widget; names: of the large one and its files. Where
    there are so many layers that they do not fit below each other, they stand beside each other.

    beside: further matrices in the same picture, with their names. marked, on_pick: where a click chooses something
    else than a head, what is framed, and what a click does; see `panels`.
    look: how it is coloured and captioned, see `Matrix`.
    """
    layers, heads = np.shape(values)
    matrix = Matrix(
        name,
        title,
        values,
        [f"layer {layer}" for layer in range(layers)],
        [f"head {head}" for head in range(heads)],
        row_axis="layer",
        column_axis="head",
        **look,
    )
    on_pick = on_pick or (lambda event: choose_head(event["row"], event["column"]))
    named, wide = {names: matrix, **(beside or {})}, {}
    picked = on_pick
    if layers > max(MOST_ROWS, heads):
        named = {called: _lying(one) for called, one in named.items()}
        wide = {"feature_width": matrix_width}

        def picked(event: dict) -> None:
            on_pick(event | {"row": event["column"], "column": event["row"]})

    panels(
        [*named.values()],
        key=f"{name}_panels",
        marked={"layer": view.layer, "head": view.head} if marked is None else {**marked},
        matrix_width=matrix_width,
        least_cell=LEAST_CELL,
        on_pick=picked,
        on_open=note_opened,
        **wide,
    )
    open_noted_matrix(
        view,
        {one.name: one for one in named.values()},
        names={one.name: called for called, one in named.items()},
    )


def _lying(matrix: Matrix) -> Matrix:
    """The same with rows and columns exchanged."""
    return replace(
        matrix,
        values=np.transpose(matrix.values),
        allowed=None if matrix.allowed is None else np.transpose(matrix.allowed),
        row_labels=matrix.column_labels,
        column_labels=matrix.row_labels,
        row_axis=matrix.column_axis,
        column_axis=matrix.row_axis,
    )
