"""The largest number of each column that enters a matrix, against the threshold of LLM.int8."""

import numpy as np
import plotly.graph_objects as go

from viz_ui.look.colours import ROLES
from viz_ui.look.figures import CLEAR, GRID, PAGE, TEXT, Theme
from viz_ui.look.text import counted, number


def outliers_figure(largest: np.ndarray, threshold: float, *, theme: Theme, height: int = 230) -> go.Figure:
    """largest (N,): one point a column; those that reach the threshold are larger and orange."""
    is_outlier = largest >= threshold
    grey = ROLES["stream"].on_dark if theme == "dark" else ROLES["stream"].on_light
    orange = ROLES["key"].on_dark if theme == "dark" else ROLES["key"].hue
    figure = go.Figure()
    for name, chosen, colour, size in (("int8", ~is_outlier, grey, 4), ("16 bits", is_outlier, orange, 8)):
        figure.add_scatter(
            x=np.nonzero(chosen)[0],
            y=largest[chosen],
            name=f"{name}: {counted(chosen.sum(), 'column')}",
            mode="markers",
            marker={"color": colour, "size": size, "symbol": "circle" if name == "int8" else "diamond"},
            customdata=[number(value) for value in largest[chosen]],
            hovertemplate="input %{x}: %{customdata}<extra></extra>",
        )
    figure.add_hline(y=threshold, line={"color": TEXT[theme], "width": 1, "dash": "dash"})
    figure.update_xaxes(title="input column", range=[-1, len(largest)], showgrid=False, zeroline=False)
    figure.update_yaxes(title="largest |x| in the prompt", rangemode="tozero", gridcolor=GRID, nticks=5)
    figure.update_layout(
        height=height,
        margin={"l": 50, "r": 6, "t": 24, "b": 44},
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"color": TEXT[theme], "size": 12},
        hoverlabel={"bgcolor": PAGE[theme], "font": {"color": TEXT[theme]}},
    )
    return figure
