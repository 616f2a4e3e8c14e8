"""Plotly figures: what is drawn, not what is computed."""

from __future__ import annotations

import textwrap
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from viz_ui.look.colours import MASKED, Law, colour_places, diverging_lut, sequential_lut, value_at
from viz_ui.look.text import number, plotly_text

Scale = Literal["sequential", "diverging"]
Theme = Literal["light", "dark"]

PAGE = {"light": "#ffffff", "dark": "#0e1117"}  # Streamlit's own page backgrounds
TEXT = {"light": "#31333f", "dark": "#fafafa"}
CLEAR = "rgba(0,0,0,0)"
GRID = "rgba(128,128,128,0.22)"  # half transparent, so that it is seen on a light page and on a dark one
MOST_HATCHED_RUNS = 4000  # a mask more scattered than this is drawn grey without strokes, to stay quick

PLOT_WIDTH, PLOT_HEIGHT, LARGEST_CELL = 620, 500, 48  # pixels
LETTER_PIXELS, CAPTION_LINE, MOST_LINES = 6.2, 16, 3  # of a caption: a letter's width, a line's height, lines
LABEL_PIXELS = 15  # what one token label needs across its line


def matrix_figure(
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
    law: Law = "linear",
    allowed: np.ndarray | None = None,
    caption: str = "",
    theme: Theme | None = None,
) -> go.Figure:
    """A matrix (rows, columns) as a heatmap with square cells, row 0 at the top, its hover the exact numbers.

    Labels, axis names, title and caption are plain text: markup in them is shown, not obeyed, and equal labels stay
    apart. Where there is no room for all labels every second, fifth … is written; zooming in brings more.
    scale: "sequential" (cividis) or "diverging" (blue, white, red; give `low` = -`high`).
    law: how the colours grow with the numbers, see `colours.colour_places`; the colour bar names it.
    caption: what the matrix is of, below the title; it goes into the file's own description, too.
    allowed: booleans broadcastable to values; False cells are hatched grey and say "masked".
    theme: None is transparent, for a page that brings its own text colour; "light" or "dark" makes a figure
    that stands alone.
    """
    values = np.asarray(values)
    rows, columns = values.shape
    permitted = np.ones((rows, columns), bool) if allowed is None else np.broadcast_to(allowed, values.shape)
    figure = go.Figure(_heatmap(values, permitted, scale, low, high, law, row_axis, column_axis))
    if not permitted.all():
        ground, strokes = MASKED[theme or "light"]
        figure.add_traces([_masked_cells(permitted, row_axis, column_axis, ground), *_hatch(~permitted, strokes)])

    cell = min(PLOT_WIDTH / columns, PLOT_HEIGHT / rows, LARGEST_CELL)
    width, height = max(cell * columns, 200), max(cell * rows, 200)
    margin = {"l": 40 + _text_pixels(row_labels), "r": 95, "b": 40 + _text_pixels(column_labels)}
    wide = width + margin["l"] + margin["r"]
    lines = textwrap.wrap(caption, int((wide - 24) / LETTER_PIXELS), max_lines=MOST_LINES, placeholder=" …")
    margin["t"] = 60 + CAPTION_LINE * len(lines)
    figure.update_layout(
        title={
            "text": plotly_text(title),
            "subtitle": {"text": "<br>".join(map(plotly_text, lines)), "font_size": 12},
            "font": {"size": 16, "weight": 600},
            "x": 0,
            "xref": "container",
            "pad_l": 12,
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad_t": 16,
        },
        meta={"description": caption},
        xaxis=_axis(column_axis, column_labels, width) | {"range": [-0.5, columns - 0.5], "tickangle": -90},
        yaxis=_axis(row_axis, row_labels, height) | {"range": [rows - 0.5, -0.5], "constraintoward": "top"},
        width=wide,
        height=height + margin["t"] + margin["b"],
        margin=margin,
        paper_bgcolor=PAGE[theme] if theme else CLEAR,
        plot_bgcolor=CLEAR,
    )
    if max(rows, columns) <= 8 * min(rows, columns):  # a longer strip of squares would be too thin to hit
        figure.update_yaxes(scaleanchor="x")
    if theme:
        font = {"color": TEXT[theme], "family": "Source Sans, sans-serif", "size": 12}
        figure.update_layout(
            template="none",
            font=font,
            hoverlabel={"bgcolor": PAGE[theme], "bordercolor": TEXT[theme], "font": font},
            modebar={"bgcolor": CLEAR, "color": TEXT[theme], "activecolor": MASKED[theme][1]},
        )
    return figure


def query_lines_figure(
    labels: list[str],
    lines: dict[str, tuple[np.ndarray, str]],
    *,
    axis: str,
    theme: Theme,
    height: int = 320,
) -> go.Figure:
    """Numbers of each query as lines, one for each name in `lines`: (T,) numbers, NaN for none, and a CSS colour.

    Every second one has hollow marks and dashes, so that they are told apart without colour.
    """
    figure = go.Figure()
    for n, (name, (numbers, colour)) in enumerate(lines.items()):
        figure.add_scatter(
            x=np.arange(len(labels)),
            y=numbers,
            name=plotly_text(name),
            mode="lines+markers" if len(labels) <= 64 else "lines",
            line={"color": colour, "width": 2, "dash": "dash" if n % 2 else "solid"},
            marker={"size": 7, "symbol": "circle-open" if n % 2 else "circle"},
            customdata=[number(value) for value in numbers],
            hovertemplate="%{customdata}",
        )
    figure.update_layout(
        xaxis=_axis("query", labels, 560) | {"tickangle": -90, "range": [-0.5, len(labels) - 0.5]},
        yaxis={"title": {"text": plotly_text(axis)}, "rangemode": "tozero", "zeroline": False, "gridcolor": GRID},
        margin={"l": 60, "r": 10, "t": 30, "b": 40 + _text_pixels(labels)},
        **curves_layout(theme, height),
    )
    return figure


def curves_layout(theme: Theme, height: int) -> dict:
    """What figures of curves have in common: the legend above them, one hover for all, the colours of the theme."""
    return {
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "x unified",
        "height": height,
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"color": TEXT[theme], "size": 12},
        "hoverlabel": {"bgcolor": PAGE[theme], "font": {"color": TEXT[theme]}},
    }


def colour_scale(scale: Scale) -> list[tuple[float, str]]:
    """The colour table of `scale` for Plotly: all 256 colours, so that it is the one of the canvases."""
    table = sequential_lut() if scale == "sequential" else diverging_lut()
    return [(step / 255, f"rgb({red},{green},{blue})") for step, (red, green, blue) in enumerate(table)]


def _heatmap(
    values: np.ndarray,
    permitted: np.ndarray,
    scale: Scale,
    low: float,
    high: float,
    law: Law,
    row_axis: str,
    column_axis: str,
) -> go.Heatmap:
    """The numbers as colours; where these do not grow evenly, the places of the numbers, and the numbers on hover."""
    z = np.where(permitted, values, np.nan)
    bar = {"thickness": 14, "outlinewidth": 0, "x": 1.01, "y": 1, "yanchor": "top", "ypad": 0}
    bar |= {"lenmode": "pixels", "len": 200}
    shown = "z"
    if law != "linear":
        places, shown = np.linspace(0, 1, 5), "customdata"
        ends = [f"{value_at(place, low, high, law):.3g}".replace("-", "−") for place in places]
        bar |= {"tickvals": places, "ticktext": ends, "title": {"text": f"{law}<br>scale"}}
    return go.Heatmap(
        z=z if law == "linear" else colour_places(z, low, high, law).astype(np.float32),
        customdata=None if law == "linear" else z,
        zmin=low if law == "linear" else 0,
        zmax=high if law == "linear" else 1,
        colorscale=colour_scale(scale),
        hoverongaps=False,
        # nine significant digits tell any two float32 numbers apart
        hovertemplate=_hover(row_axis, column_axis, f"%{{{shown}:.9~g}}"),
        colorbar=bar,
    )


def _masked_cells(permitted: np.ndarray, row_axis: str, column_axis: str, ground: str) -> go.Heatmap:
    """A layer of its own, so that a masked cell has neither the colour nor the hover of a number."""
    return go.Heatmap(
        z=np.where(permitted, np.nan, 0).astype(np.float32),
        colorscale=[(0, ground), (1, ground)],
        showscale=False,
        hoverongaps=False,
        hovertemplate=_hover(row_axis, column_axis, "masked"),
    )


def _hatch(masked: np.ndarray, strokes: str) -> list[go.Scatter]:
    """Strokes over the masked cells: one filled rectangle for each run of them in a row."""
    edges = np.diff(np.pad(masked.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    row, start = np.nonzero(edges == 1)
    end = np.nonzero(edges == -1)[1]
    if len(row) > MOST_HATCHED_RUNS:
        return []
    left, right, top, bottom, gap = start - 0.5, end - 0.5, row - 0.5, row + 0.5, np.full(len(row), np.nan)
    return [
        go.Scatter(
            x=np.stack([left, right, right, left, left, gap], axis=1).ravel(),
            y=np.stack([top, top, bottom, bottom, top, gap], axis=1).ravel(),
            mode="lines",
            line={"width": 0, "simplify": False},
            fill="toself",
            fillcolor=CLEAR,
            fillpattern={"shape": "/", "fgcolor": strokes, "size": 7, "solidity": 0.2},
            hoverinfo="skip",
            showlegend=False,
        )
    ]


def _axis(name: str, labels: list[str], pixels: float) -> dict:
    """A numeric axis whose numbers are shown as labels; as many of them as `pixels` have room for.

    Zoomed in far, Plotly also sets ticks between two cells: these get no label.
    """
    wholes = ["\u22120", *map(str, range(len(labels)))]  # Plotly writes a true minus sign
    between = {f"{whole}.{tenth}": "" for whole in wholes for tenth in range(1, 10)}
    return {
        "title": {"text": plotly_text(name), "standoff": 10},
        "labelalias": between | {str(index): plotly_text(label) for index, label in enumerate(labels)},
        "nticks": min(len(labels) + 1, int(pixels / LABEL_PIXELS)),
        "exponentformat": "none",
        "tickfont_size": 12,
        "ticks": "",
        "ticklabelstandoff": 3,
        "showgrid": False,
        "zeroline": False,
        "constrain": "domain",
        "automargin": True,
    }


def _hover(row_axis: str, column_axis: str, value: str) -> str:
    return f"{plotly_text(row_axis)} %{{y}}<br>{plotly_text(column_axis)} %{{x}}<br><b>{value}</b><extra></extra>"


def _text_pixels(labels: list[str]) -> int:
    """About as much room as the longest label takes at size 12."""
    return min(7 * max(map(len, labels), default=0), 180)
