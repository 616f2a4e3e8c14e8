"""Plotly figures of the page Circuits: eigenvalues, scores by distance, and lines between heads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz_ui.look.colours import ROLES
from viz_ui.look.figures import CLEAR, GRID, PAGE, TEXT, Theme, curves_layout
from viz_ui.look.text import number, plotly_text

HEAD_PIXELS, WIDEST, THINNEST = 30, 7.0, 1.0
PER_LINE = 5  # places of a line that say its number
MOST_NAMES = 12  # of columns that have room beside each other


@dataclass(frozen=True)
class HeadLine:
    """From a head to a head that reads what it writes: (column, head) of both, and the number that is drawn."""

    first: tuple[int, int]
    second: tuple[int, int]
    over: float


def eigenvalue_figure(values: np.ndarray, *, theme: Theme) -> go.Figure:
    """Complex numbers (D,) in the plane: those to the right raise what is read, those to the left lower it."""
    figure = go.Figure(
        go.Scatter(
            x=values.real,
            y=values.imag,
            mode="markers",
            marker={"color": colour_of("value", theme), "size": 7},
            customdata=[[number(value.real), number(value.imag)] for value in values],
            hovertemplate="real part %{customdata[0]}<br>imaginary part %{customdata[1]}<extra></extra>",
        )
    )
    reach = 1.15 * (float(np.abs(values).max()) or 1.0)
    axis = {"range": [-reach, reach], "gridcolor": GRID, "zerolinecolor": TEXT[theme], "fixedrange": True, "nticks": 5}
    figure.update_layout(
        **curves_layout(theme, 230) | {"hovermode": "closest"},
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        xaxis=axis | {"title": "real part", "automargin": True},
        yaxis=axis | {"title": "imaginary part", "scaleanchor": "x", "automargin": True},
    )
    return figure


def distance_figure(curves: dict[str, np.ndarray], *, theme: Theme) -> go.Figure:
    """Scores by the distance from query to key, (N,) each, from 0 on."""
    figure = go.Figure()
    for (name, scores), role, dash in zip(curves.items(), ("key", "stream"), ("solid", "dot"), strict=False):
        figure.add_scatter(
            x=np.arange(len(scores)),
            y=scores,
            name=plotly_text(name),
            mode="lines",
            line={"color": colour_of(role, theme), "width": 2, "dash": dash},
            hovertemplate="%{y:.4~g}",
        )
    figure.update_layout(**curves_layout(theme, 300), margin={"l": 10, "r": 10, "t": 30, "b": 10})
    figure.update_xaxes(
        title="how many tokens the key stands before the query", gridcolor=GRID, zeroline=False, automargin=True
    )
    figure.update_yaxes(title="score", gridcolor=GRID, zeroline=False, automargin=True)
    return figure


def line_figure(
    columns: Sequence[str],
    heads: int,
    lines: Sequence[HeadLine],
    chosen: Sequence[tuple[int, int]],
    *,
    role: str,
    names: Sequence[str],
    theme: Theme,
) -> go.Figure:
    """Heads as points, a column for each layer; each line as wide as its number is large.

    chosen: the points of the chosen head; its lines are drawn fully, and a ring is around it. names: of the points,
    column by column. A click on a point gives [column, head], and on a line [column, head, column, head].
    """
    colour, figure = colour_of(role, theme), go.Figure()
    most = max((line.over for line in lines), default=1.0)
    is_of_chosen = {line: bool({line.first, line.second} & set(chosen)) for line in lines}
    for line in sorted(lines, key=lambda one: one.over):
        share = max(line.over, 0.0) / most if most > 0 else 0.0
        figure.add_scatter(
            x=[line.first[0], line.second[0]],
            y=[line.first[1], line.second[1]],
            mode="lines",
            line={"color": colour, "width": THINNEST + (WIDEST - THINNEST) * share},
            opacity=0.35 if any(is_of_chosen.values()) and not is_of_chosen[line] else 0.9,
            hoverinfo="skip",
        )
    places = np.linspace(0, 1, PER_LINE + 2)[1:-1]
    on_lines = [(line, place) for line in lines for place in places]
    figure.add_scatter(
        x=[line.first[0] + place * (line.second[0] - line.first[0]) for line, place in on_lines],
        y=[line.first[1] + place * (line.second[1] - line.first[1]) for line, place in on_lines],
        mode="markers",
        marker={"size": 12, "color": colour, "opacity": 0},
        selected={"marker": {"opacity": 0}},
        unselected={"marker": {"opacity": 0}},
        customdata=[
            [*line.first, *line.second, names[line.first[0] * heads + line.first[1]],
             names[line.second[0] * heads + line.second[1]], number(line.over)]
            for line, _ in on_lines
        ],
        hovertemplate="%{customdata[4]} → %{customdata[5]}<br>"
        "<b>%{customdata[6]}</b> above the baseline<extra></extra>",
    )  # fmt: skip
    points = [(column, head) for column in range(len(columns)) for head in range(heads)]
    figure.add_scatter(
        x=[column for column, _ in points],
        y=[head for _, head in points],
        mode="markers",
        marker={
            "size": [15 if point in chosen else 11 for point in points],
            "color": [colour if point in chosen else PAGE[theme] for point in points],
            "line": {"width": 2, "color": colour_of("stream", theme)},
            "opacity": 1,
        },
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 1}},
        customdata=[[*point, name] for point, name in zip(points, names, strict=True)],
        hovertemplate="%{customdata[2]}<extra></extra>",
    )
    axis = {"showgrid": False, "zeroline": False, "fixedrange": True, "automargin": True}
    every = -(-len(columns) // MOST_NAMES)
    shown = range(0, len(columns), every)
    figure.update_layout(
        showlegend=False,
        hovermode="closest",
        height=90 + HEAD_PIXELS * heads,
        margin={"l": 10, "r": 10, "t": 10, "b": 10},
        xaxis=axis
        | {
            "tickvals": [*shown],
            "ticktext": [plotly_text(columns[column]) for column in shown],
            "range": [-0.5, len(columns) - 0.5],
            "side": "top",
            "tickangle": 0,
        },
        yaxis=axis
        | {
            "tickvals": [*range(heads)],
            "ticktext": [f"head {head}" for head in range(heads)],
            "range": [heads - 0.5, -0.5],
        },
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"color": TEXT[theme], "size": 12},
        hoverlabel={"bgcolor": PAGE[theme], "font": {"color": TEXT[theme]}},
    )
    return figure


def colour_of(role: str, theme: Theme) -> str:
    return ROLES[role].on_dark if theme == "dark" else ROLES[role].on_light
