"""The logit lens as a table of coloured words: layers × tokens, each cell the token that would come next."""

import numpy as np
import plotly.graph_objects as go

from viz_ui.look.colours import sequential_lut
from viz_ui.look.figures import CLEAR, PAGE, TEXT, Theme, colour_scale
from viz_ui.look.text import plotly_text

CELL_HEIGHT = 34  # pixels
LONGEST_WORD = 7


def lens_figure(
    words: list[list[str]],
    numbers: np.ndarray,
    rows: list[str],
    columns: list[str],
    *,
    chosen: tuple[int, int],
    quantity: str,
    high: float,
    theme: Theme,
) -> go.Figure:
    """words and numbers (L,T): what each cell says, and what its colour is. chosen: the framed cell.

    Every cell is a square mark with its word in it, so that it can be clicked; its number is `row · T + column`.
    """
    layers, count = numbers.shape
    y, x = (axis.ravel() for axis in np.mgrid[0:layers, 0:count])
    steps = np.clip(np.round(255 * numbers.ravel() / high), 0, 255).astype(int)
    ground = sequential_lut()[steps]
    figure = go.Figure(
        go.Scatter(
            x=x,
            y=y,
            mode="markers+text",
            marker={
                "symbol": "square",
                "size": CELL_HEIGHT - 2,
                "color": numbers.ravel(),
                "colorscale": colour_scale("sequential"),
                "cmin": 0,
                "cmax": high,
                "opacity": 0,
                "showscale": True,
                "colorbar": {
                    "thickness": 14,
                    "outlinewidth": 0,
                    "title": {"text": plotly_text(quantity), "side": "right"},
                },
            },
            text=[plotly_text(_short(word)) for row in words for word in row],
            textfont={"color": [_readable(colour) for colour in ground], "size": 12},
            customdata=[plotly_text(word) for row in words for word in row],
            hovertemplate=f"%{{customdata}}<br>{plotly_text(quantity)}: <b>%{{marker.color:.4~g}}</b><extra></extra>",
            selected={"marker": {"opacity": 0}},
            unselected={"marker": {"opacity": 0}},
        )
    )
    shapes = [
        {
            "type": "rect", "layer": "below", "line": {"width": 1, "color": PAGE[theme]},
            "x0": column - 0.5, "x1": column + 0.5, "y0": row - 0.5, "y1": row + 0.5,
            "fillcolor": "rgb({},{},{})".format(*colour),
        }
        for row, column, colour in zip(y, x, ground, strict=True)
    ]  # fmt: skip
    frame = {"type": "rect", "line": {"width": 3, "color": "#D55E00"}, "x0": chosen[1] - 0.5, "x1": chosen[1] + 0.5}
    shapes.append(frame | {"y0": chosen[0] - 0.5, "y1": chosen[0] + 0.5})
    axis = {"showgrid": False, "zeroline": False, "fixedrange": True, "automargin": True}
    figure.update_layout(
        shapes=shapes,
        xaxis=axis
        | {"tickvals": np.arange(count), "ticktext": [plotly_text(c) for c in columns], "side": "top", "tickangle": -60}
        | {"range": [-0.5, count - 0.5]},
        yaxis=axis
        | {
            "tickvals": np.arange(layers),
            "ticktext": [plotly_text(row) for row in rows],
            "range": [layers - 0.5, -0.5],
        },
        height=110 + CELL_HEIGHT * layers,
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"color": TEXT[theme], "size": 12, "family": "Source Sans, sans-serif"},
        hoverlabel={"bgcolor": PAGE[theme], "font": {"color": TEXT[theme]}},
    )
    return figure


def _short(word: str) -> str:
    return word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 1] + "…"


def _readable(colour: np.ndarray) -> str:
    """Black or white, whichever is told apart from a ground more easily (WCAG 2.2, relative luminance)."""
    channels = colour / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return "#000000" if linear @ (0.2126, 0.7152, 0.0722) > 0.179 else "#ffffff"
