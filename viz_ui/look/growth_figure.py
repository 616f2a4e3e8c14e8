"""Curves over the length of the prompt: what grows with T, what with T²."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from viz_ui.look.colours import ROLES
from viz_ui.look.figures import CLEAR

HUES = ("query", "value", "key", "stream", "scores")


def growth_figure(
    lengths: np.ndarray,
    curves: dict[str, np.ndarray],
    squared: str = "",
    *,
    length: int,
    unit: str,
    crossing: float | None = None,
) -> go.Figure:
    """Curves over T on two logarithmic axes; the one named `squared` is thick, and T itself a vertical line.

    A value of None or NaN is left out.

    crossing: the T at which the squared curve meets the sum of all others, marked where it lies on the axis.
    """
    dark = st.context.theme.type == "dark"
    figure = go.Figure()
    hues, grey = iter(HUES), ROLES["stream"].on_dark if dark else ROLES["stream"].on_light
    for name, values in curves.items():
        role = ROLES["weights" if name == squared else next(hues)]
        colour = role.on_dark if dark else role.on_light
        words = f"{name} ∝ T²" if name == squared else name
        figure.add_scatter(
            x=lengths,
            y=values,
            name=words,
            line={"color": colour, "width": 4 if name == squared else 1.8},
            hovertemplate=f"{words}<br>T = %{{x:,}}<br>%{{y:.4s}} {unit}<extra></extra>",
        )
    figure.add_vline(x=length, line={"width": 1.5, "dash": "dot", "color": grey})
    figure.add_annotation(
        x=np.log10(length), y=1, yref="paper", yanchor="bottom", text=f"T = {length:,}", showarrow=False
    )
    if crossing is not None and lengths[0] < crossing < lengths[-1]:
        others = [values for name, values in curves.items() if name != squared]
        height = np.interp(crossing, lengths, np.sum(others, axis=0))
        figure.add_scatter(
            x=[crossing],
            y=[height],
            mode="markers",
            marker={"size": 10, "color": ROLES["weights"].on_dark if dark else ROLES["weights"].hue},
            name=f"T² exceeds the rest from T = {crossing:,.0f}",
            hovertemplate=f"T = {crossing:,.0f}: as much as everything else<extra></extra>",
        )
    figure.update_xaxes(type="log", title="T, tokens", tickvals=[16, 128, 1024, 8192, 65536], tickformat=",")
    figure.update_yaxes(type="log", title=unit, exponentformat="power", nticks=6)
    figure.update_layout(
        height=270,
        margin={"l": 10, "r": 10, "t": 20, "b": 10},
        legend=_free_corner(lengths, length) | {"bgcolor": CLEAR},
    )
    return figure


def _free_corner(lengths: np.ndarray, length: int) -> dict:
    """Where the legend stands: every curve rises, so above at the left or below at the right, away from T's line."""
    if length > np.sqrt(float(lengths[0]) * float(lengths[-1])):
        return {"x": 0.01, "y": 1}
    return {"x": 0.99, "xanchor": "right", "y": 0.01, "yanchor": "bottom"}
