"""Figures of the page Over a text: the weights of a head by distance, and two patterns against each other."""

import numpy as np
import plotly.graph_objects as go

from viz_ui.look.colours import ROLES
from viz_ui.look.figures import CLEAR, GRID, PAGE, TEXT, Theme
from viz_ui.look.text import number, plotly_text

CURVE_HEIGHT, SCATTER_HEIGHT = 190, 380


def curve_figure(k: np.ndarray, mean: np.ndarray, uniform: np.ndarray, *, theme: Theme) -> go.Figure:
    """Mean weights on the token k places before the query, a bar each, beside those of uniform attention."""
    figure = go.Figure()
    figure.add_bar(
        x=k,
        y=mean,
        marker_color=_hue(theme),
        customdata=[[number(value)] for value in mean],
        hovertemplate="k = %{x}: <b>%{customdata[0]}</b><extra></extra>",
        name="this head",
    )
    figure.add_scatter(
        x=k,
        y=uniform,
        mode="lines",
        line={"color": TEXT[theme], "width": 1.5, "dash": "dot"},
        customdata=[[number(value)] for value in uniform],
        hovertemplate="uniform, k = %{x}: %{customdata[0]}<extra></extra>",
        name="uniform",
    )
    _lay_out(figure, theme, CURVE_HEIGHT, "k: tokens before the query", "mean weight")
    figure.update_layout(legend={"x": 1, "xanchor": "right", "y": 1}, showlegend=True)
    figure.update_yaxes(rangemode="tozero", nticks=4)
    return figure


def scatter_figure(
    x: np.ndarray, y: np.ndarray, names: list[str], chosen: int, *, x_title: str, y_title: str, theme: Theme
) -> go.Figure:
    """A point a head; the chosen one is a large diamond."""
    is_chosen = np.arange(len(names)) == chosen
    figure = go.Figure()
    figure.add_scatter(
        x=x,
        y=y,
        mode="markers",
        marker={
            "color": np.where(is_chosen, TEXT[theme], _hue(theme)),
            "size": np.where(is_chosen, 15, 9),
            "symbol": np.where(is_chosen, "diamond", "circle"),
            "line": {"color": PAGE[theme], "width": 1},
        },
        customdata=[
            [plotly_text(name), number(one), number(other)] for name, one, other in zip(names, x, y, strict=True)
        ],
        hovertemplate="<b>%{customdata[0]}</b><br>%{customdata[1]}, %{customdata[2]}<extra></extra>",
    )
    _lay_out(figure, theme, SCATTER_HEIGHT, x_title, y_title)
    return figure


def _lay_out(figure: go.Figure, theme: Theme, height: int, x_title: str, y_title: str) -> None:
    for update, title in ((figure.update_xaxes, x_title), (figure.update_yaxes, y_title)):
        update(
            title={"text": plotly_text(title), "font": {"size": 13}},
            gridcolor=GRID,
            zerolinecolor=GRID,
            exponentformat="power",
            fixedrange=True,
        )
    figure.update_layout(
        height=height,
        margin={"l": 56, "r": 12, "t": 8, "b": 44},
        showlegend=False,
        bargap=0.25,
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"color": TEXT[theme], "size": 12, "family": "Source Sans, sans-serif"},
        hoverlabel={"bgcolor": PAGE[theme], "font": {"color": TEXT[theme]}},
    )


def _hue(theme: Theme) -> str:
    return ROLES["weights"].on_dark if theme == "dark" else ROLES["weights"].on_light
