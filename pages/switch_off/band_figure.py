"""An effect beside its control: a mark on the band of what the same edit does elsewhere."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from viz_ui.look.colours import ROLES
from viz_ui.look.figures import CLEAR, GRID, PAGE, TEXT, Theme
from viz_ui.look.text import number, plotly_text

HEIGHT = 104


def band_figure(name: str, effect: float, others: Mapping[str, float], title: str, *, theme: Theme) -> go.Figure:
    """name, effect: of the chosen unit; others: of each of the others by its name, at least one. title: of the axis."""
    role = ROLES["weights"]
    hue = role.on_dark if theme == "dark" else role.on_light
    numbers = np.array([*others.values()])
    low, high = float(numbers.min()), float(numbers.max())
    figure = go.Figure()
    figure.add_shape(
        type="rect", x0=low, x1=high, y0=-0.45, y1=0.45, fillcolor=hue, opacity=0.22, line_width=0, layer="below"
    )
    figure.add_scatter(
        x=numbers,
        y=np.zeros(len(numbers)),
        mode="markers",
        marker={"symbol": "line-ns", "size": 20, "line": {"color": hue, "width": 2}},
        customdata=[[plotly_text(other), number(value)] for other, value in others.items()],
        hovertemplate="%{customdata[0]}: <b>%{customdata[1]}</b><extra></extra>",
    )
    figure.add_scatter(
        x=[effect],
        y=[0],
        mode="markers",
        marker={"symbol": "diamond", "size": 15, "color": TEXT[theme], "line": {"color": PAGE[theme], "width": 2}},
        customdata=[[plotly_text(name), number(effect)]],
        hovertemplate="%{customdata[0]}: <b>%{customdata[1]}</b><extra></extra>",
    )
    ends = min(low, effect, 0.0), max(high, effect, 0.0)
    room = 0.06 * ((ends[1] - ends[0]) or 1.0)
    figure.update_xaxes(
        range=[ends[0] - room, ends[1] + room],
        title={"text": plotly_text(title), "font": {"size": 13}},
        gridcolor=GRID,
        zerolinecolor=TEXT[theme],
        zerolinewidth=1,
        nticks=6,
        exponentformat="power",
        fixedrange=True,
    )
    figure.update_yaxes(range=[-1, 1], visible=False, fixedrange=True)
    figure.update_layout(
        height=HEIGHT,
        margin={"l": 12, "r": 12, "t": 6, "b": 44},
        showlegend=False,
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"color": TEXT[theme], "size": 12, "family": "Source Sans, sans-serif"},
        hoverlabel={"bgcolor": PAGE[theme], "font": {"color": TEXT[theme]}},
    )
    return figure
