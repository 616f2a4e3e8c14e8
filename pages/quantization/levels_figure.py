"""How many weights take each level of a quantization, below how they were spread before."""

from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from viz_ui.look.colours import ROLES
from viz_ui.look.figures import CLEAR, GRID, PAGE, TEXT, Theme
from viz_ui.look.text import number


def levels_figure(
    edges: np.ndarray,
    before: np.ndarray,
    levels: np.ndarray,
    after: np.ndarray,
    *,
    first_code: int,
    marked: int | None,
    theme: Theme,
    height: int = 320,
) -> go.Figure:
    """Two histograms over one axis from −1 to 1: any number, and one bar a level.

    edges (n+1,), before (n,): how many lie in each stretch; levels (K,), after (K,): how many take each level.
    first_code: the code of the lowest level; marked: the number of a level in another colour.
    """
    grey = ROLES["stream"].on_dark if theme == "dark" else ROLES["stream"].on_light
    chosen = ROLES["key"].on_dark if theme == "dark" else ROLES["key"].hue
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.16)
    figure.update_layout(
        annotations=[
            {"text": words, "x": 0, "y": y, "xref": "paper", "yref": "paper", "showarrow": False}
            | {"xanchor": "left", "yanchor": "bottom", "font_size": 13}
            for words, y in ((f"before: {before.sum():,} weights", 1.0), (f"after: {len(levels)} levels", 0.43))
        ]
    )
    middles = (edges[:-1] + edges[1:]) / 2
    figure.add_bar(
        x=middles,
        y=before,
        width=np.diff(edges),
        marker={"color": grey, "line_width": 0},
        customdata=[[number(edge, 3) for edge in pair] for pair in pairwise(edges)],
        hovertemplate="%{customdata[0]} to %{customdata[1]}: %{y:,} weights<extra></extra>",
        row=1,
        col=1,
    )
    few = len(levels) <= 32
    figure.add_bar(
        x=levels,
        y=after,
        width=0.022 if few else 2 / len(levels),
        marker={"color": [chosen if n == marked else grey for n in range(len(levels))], "line_width": 0},
        customdata=[[first_code + n, number(level)] for n, level in enumerate(levels)],
        hovertemplate="code %{customdata[0]}, level %{customdata[1]}: %{y:,} weights<extra></extra>",
        row=2,
        col=1,
    )
    figure.update_xaxes(range=[-1.04, 1.04], showgrid=False, zeroline=False)
    figure.update_xaxes(title={"text": "weight / largest of its row or group", "standoff": 6}, row=2, col=1)
    if few:
        figure.update_xaxes(ticks="outside", tickvals=levels, ticktext=[""] * len(levels), row=1, col=1)
    figure.update_yaxes(rangemode="tozero", gridcolor=GRID, nticks=4, zeroline=False, tickformat=",")
    figure.update_layout(
        height=height,
        bargap=0,
        showlegend=False,
        margin={"l": 46, "r": 6, "t": 24, "b": 44},
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"color": TEXT[theme], "size": 12},
        hoverlabel={"bgcolor": PAGE[theme], "font": {"color": TEXT[theme]}},
    )
    return figure
