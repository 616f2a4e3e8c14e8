"""One number a head, as a matrix layers × heads: a click chooses the head, and it opens large like every matrix."""

import numpy as np

from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.view import View, choose_head
from viz_ui.parts.open_matrix import Named, note_opened, open_noted_matrix


def draw_head_matrix(
    view: View, name: str, title: str, values: np.ndarray, names: Named, *, matrix_width: int = 560, **look
) -> None:
    """values (L,H), with the chosen head framed. name: of the widget; names: of the large one and its files.

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
    panels(
        [matrix],
        key=f"{name}_panels",
        marked={"layer": view.layer, "head": view.head},
        matrix_width=matrix_width,
        on_pick=lambda event: choose_head(event["row"], event["column"]),
        on_open=note_opened,
    )
    open_noted_matrix(view, {name: matrix}, names={name: names})
