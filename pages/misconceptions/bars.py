"""Bars with their numbers: one bar for each name, or a group of several."""

from textwrap import wrap

import numpy as np
import plotly.graph_objects as go

from viz_ui.look.colours import ROLES
from viz_ui.look.figures import GRID, PAGE, TEXT, Theme, curves_layout
from viz_ui.look.text import number, plotly_text

HUES = ("weights", "query", "key", "value", "scores", "stream")
SHAPES = ("", "/", "x", "-", "+", ".")
WIDEST_NAME = 14  # characters in a line under a bar
WHOLE_WORDS = {"break_on_hyphens": False, "break_long_words": False}


def _short(value: float) -> str:
    """Two decimals, because the bars of a group are narrow. The tooltip says the number in full."""
    return "≈0" if 0 < abs(value) < 0.005 else number(value, 2) if abs(value) >= 1 else f"{value:.2f}"


def bars_figure(
    groups: dict[str, dict[str, float]], axis: str, *, theme: Theme, line: tuple[float, str] | None = None
) -> go.Figure:
    """groups: {series: {name: number}}, the names of all series the same; NaN draws no bar.

    Series are told apart by hue and hatching. line: a number to compare with, and what it is.
    """
    figure = go.Figure()
    for n, (series, values) in enumerate(groups.items()):
        role = ROLES[HUES[n % len(HUES)]]
        numbers = np.array(list(values.values()), dtype=float)
        figure.add_bar(
            x=["<br>".join(wrap(plotly_text(name), WIDEST_NAME, **WHOLE_WORDS)) for name in values],
            y=numbers,
            name=plotly_text(series),
            marker={
                "color": role.on_dark if theme == "dark" else role.on_light,
                "pattern": {"shape": SHAPES[n % len(SHAPES)], "fillmode": "overlay", "fgcolor": PAGE[theme]},
            },
            text=[
                "" if np.isnan(value) else _short(value) if len(groups) > 1 else number(value, 3) for value in numbers
            ],
            textposition="outside",
            textfont_size=12,
            textangle=0,
            constraintext="none",
            cliponaxis=False,
            hovertemplate=f"{plotly_text(series)}, %{{x}}: %{{y:.4~g}}<extra></extra>",
        )
    if line:
        figure.add_hline(
            y=line[0], line={"color": TEXT[theme], "width": 1, "dash": "dot"}, annotation_text=plotly_text(line[1])
        )
    figure.update_yaxes(title=axis, gridcolor=GRID, rangemode="tozero", automargin=True)
    figure.update_xaxes(tickfont_size=13, automargin=True)
    figure.update_layout(
        barmode="group",
        margin={"l": 10, "r": 10, "t": 30, "b": 10},
        showlegend=len(groups) > 1,
        **curves_layout(theme, 290) | {"hovermode": "closest"},  # a bar is pointed at by itself
    )
    return figure
