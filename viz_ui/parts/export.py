"""A matrix opened large, and saved: as a picture, a page, a table, or a whole head as arrays."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from html import escape, unescape
from typing import Any

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from viz_ui.components.save_picture import save_picture
from viz_ui.look.colours import Law
from viz_ui.look.figures import CLEAR, Scale, Theme, matrix_figure

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for the start of a formula
CHART = "matrix_dialog_chart"
MODE_BAR = {"displaylogo": False, "displayModeBar": True, "showTips": False}


def csv_bytes(
    values: np.ndarray,
    row_labels: list[str],
    column_labels: list[str],
    corner: str = "query \\ key",
    allowed: np.ndarray | None = None,
) -> bytes:
    """A matrix as a table with its labels in the first row and column, for a spreadsheet or pandas.

    allowed: booleans broadcastable to values; a masked cell stays empty, unless its number is -inf.

    Every number is the shortest text that reads back as the same number in the matrix's own precision, -inf
    included. UTF-8 with a byte order mark, which a spreadsheet needs to show `·` and `⏎`. A label that would
    start a formula gets an apostrophe before it.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([corner, *map(_inert, column_labels)])
    texts = np.asarray(values).astype(str)
    if allowed is not None:
        texts = np.where(allowed | np.isneginf(values), texts, "")
    for label, numbers in zip(row_labels, texts, strict=True):
        writer.writerow([_inert(label), *numbers])
    return out.getvalue().encode("utf-8-sig", errors="backslashreplace")


def npz_bytes(arrays: dict[str, Any]) -> bytes:
    """Arrays (and texts, and lists of texts) under their names, as `numpy.load(file)[name]` gives them back.

    Raises ValueError for anything that could only be pickled: such a file could not be opened safely.
    """
    out = io.BytesIO()
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    if unsafe := [name for name, array in arrays.items() if array.dtype.hasobject]:
        raise ValueError(f"neither numbers nor texts: {', '.join(unsafe)}")
    np.savez(out, **arrays)
    return out.getvalue()


def html_bytes(figure: go.Figure) -> bytes:
    """A page that shows `figure` without any network: plotly.js (about 5 MB) is in it.

    Make the figure with a theme: the page takes its background and title from it, and its description from the
    figure's caption.
    """
    plot = figure.to_html(full_html=False, include_plotlyjs=True, config=MODE_BAR)
    title = escape(unescape(figure.layout.title.text or "Matrix"))
    description = escape((figure.layout.meta or {}).get("description", ""))
    background = figure.layout.paper_bgcolor or "#ffffff"
    page = (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f'<title>{title}</title><meta name="description" content="{description}">'
        f"<style>body {{ margin: 1rem; background: {background} }}</style></head>\n"
        f"<body>{plot}</body>\n</html>\n"
    )
    return page.encode("utf-8", errors="backslashreplace")


def matrix_dialog(
    values: np.ndarray,
    row_labels: list[str],
    column_labels: list[str],
    *,
    row_axis: str,
    column_axis: str,
    title: str,
    scale: Scale,
    low: float,
    high: float,
    file_name: str,
    law: Law = "linear",
    allowed: np.ndarray | None = None,
    caption: str = "",
    head_arrays: Callable[[], dict[str, Any]] | None = None,
    head_file_name: str = "head",
) -> None:
    """Open a matrix in a dialog: a heatmap to zoom, and buttons that save it.

    Call it in the one run that an event asks for it, as in `if st.button("Open"): matrix_dialog(…)`; where a
    callback is told of the event, let it leave a note in the session state that the run takes out (`pop`).
    The next run then does not open it again. Closing it runs nothing.

    All arguments that are not named below are those of `viz_ui.look.figures.matrix_figure`. In the table
    (CSV) masked cells are empty: give scores after the mask to have -inf there.
    file_name: without its ending, such as "tiny-gpt_layer2_head5_weights".
    head_arrays: gives the arrays of the whole head for an NPZ file named `head_file_name`, with a text
    "description" of what they are; asked only when somebody saves it.
    """

    def draw(theme: Theme) -> go.Figure:
        return matrix_figure(
            values,
            row_labels,
            column_labels,
            row_axis=row_axis,
            column_axis=column_axis,
            title=title,
            scale=scale,
            low=low,
            high=high,
            law=law,
            allowed=allowed,
            caption=caption,
            theme=theme,
        )

    theme = st.context.theme.type or "light"
    _open(
        draw(theme).update_layout(paper_bgcolor=CLEAR),
        title,
        file_name,
        page=lambda: html_bytes(draw(theme)),
        table=lambda: csv_bytes(values, row_labels, column_labels, f"{row_axis} \\ {column_axis}", allowed),
        head=head_arrays and (lambda: npz_bytes(head_arrays())),
        head_file_name=head_file_name,
    )


@st.dialog("Zoom and save", width=1040)
def _open(
    figure: go.Figure,
    title: str,
    file_name: str,
    *,
    page: Callable[[], bytes],
    table: Callable[[], bytes],
    head: Callable[[], bytes] | None,
    head_file_name: str,
) -> None:
    picture, saving = st.columns([3, 1], gap="medium")
    with picture:
        st.plotly_chart(figure, key=CHART, width="content", theme=None, config=MODE_BAR, alt=title)
        st.caption(
            "Drag over the picture to zoom in. Double-click to see all of it again. PNG and SVG save what is in view."
        )
    with saving:
        save_picture(chart_key=CHART, file_name=file_name, key="matrix_dialog_picture")
        _save("HTML page", page, f"{file_name}.html", "text/html")
        _save("CSV table", table, f"{file_name}.csv", "text/csv")
        if head:
            _save("NPZ of the whole head", head, f"{head_file_name}.npz", "application/zip")


def _save(label: str, data: Callable[[], bytes], file_name: str, mime: str) -> None:
    """A button that makes its file only when it is clicked, and runs nothing else."""
    st.download_button(label, data, file_name, mime, on_click="ignore", width="stretch", key=f"matrix_dialog_{label}")


def _inert(label: str) -> str:
    return f"'{label}" if label.startswith(FORMULA_STARTS) else label
