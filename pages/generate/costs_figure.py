"""What steps cost, as curves over steps: FLOPs, bytes, time, and how far the logits of both ways differ.

FLOPs come first: the time of a step of a small model is mostly what any call costs, and can be longer with the cache.
"""

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

import viz_model as vm
from viz_model.shapes import costs

WITH, WITHOUT = "with the cache", "without"

PANELS = ("FLOPs of a step, millions", "bytes of the cache", "time of a step, ms", "largest difference of logits")


def cost_figure(steps: Sequence[vm.Step], step: int, *, dark: bool) -> go.Figure:
    """Four plots side by side with the step as their x axis; `step` is marked."""
    figure = make_subplots(rows=1, cols=4, subplot_titles=PANELS, horizontal_spacing=0.08)
    blue, orange, green = ("#56B4E9", "#F2935C", "#34C79A") if dark else ("#0072B2", "#D55E00", "#009E73")
    cached, uncached = {"color": blue}, {"color": orange, "dash": "dash"}
    curves = [
        (1, WITH, [costs.flops_cached(one) / 1e6 for one in steps], cached),
        (1, WITHOUT, [costs.flops_uncached(one) / 1e6 for one in steps], uncached),
        (2, "reserved", [one.cache.allocated_bytes for one in steps], {"color": green, "dash": "dot"}),
        (2, "used", [one.cache.nbytes for one in steps], {"color": blue, "width": 6}),
        (2, "by formula", [costs.step_cache_bytes(one) for one in steps], {"color": orange, "dash": "dash"}),
        (3, WITH, [one.seconds * 1e3 for one in steps], cached),
        (3, WITHOUT, [one.seconds_uncached * 1e3 for one in steps], uncached),
        (4, "at most", [one.largest_difference for one in steps], {"color": green}),
    ]
    numbers = [one.number for one in steps]
    for column, name, values, line in curves:
        figure.add_scatter(
            x=numbers,
            y=values,
            name=name,
            line=line,
            mode="lines+markers" if len(steps) < 40 else "lines",
            marker_size=4,
            legend=f"legend{column}" if column > 1 else "legend",
            hovertemplate=f"step %{{x}}<br>{name} %{{y:.6~g}}<extra></extra>",
            row=1,
            col=column,
        )
    for column in range(1, 5):
        left, _ = figure.layout[f"xaxis{column if column > 1 else ''}"].domain
        figure.add_vline(x=step, line={"color": "rgba(128,128,128,0.8)", "width": 1, "dash": "dot"}, row=1, col=column)
        place = {"x": left, "y": -0.18, "xanchor": "left", "yanchor": "top", "orientation": "v"}
        figure.update_layout({f"legend{column if column > 1 else ''}": place | {"font": {"size": 12}}})
    figure.update_xaxes(title=None, rangemode="tozero", tickformat="d", nticks=6)
    figure.update_yaxes(rangemode="tozero", nticks=5)
    figure.update_yaxes(exponentformat="power", row=1, col=4)
    figure.update_annotations(font_size=13)
    figure.update_layout(height=290, margin={"l": 10, "r": 10, "t": 30, "b": 100})
    return figure
