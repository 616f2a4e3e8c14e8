"""A number of every token through depth: a thin line a token, and their mean."""

import numpy as np
import plotly.graph_objects as go

from viz_ui.look.colours import ROLES
from viz_ui.look.figures import CLEAR, GRID, PAGE, TEXT, Theme
from viz_ui.look.text import plotly_text


def depth_figure(
    values: dict[str, np.ndarray],
    token_labels: list[str],
    *,
    low: float,
    high: float,
    width: int,
    logarithmic: bool,
    theme: Theme,
    height: int = 300,
) -> go.Figure:
    """values: {place: (T,)} in the order of depth. low, high: what the axis of numbers shows at least.

    width: C; a vector whose numbers have a mean square of 1, as a norm makes it, is √C long: a dotted line.
    """
    places = list(values)
    table = np.stack([values[place] for place in places])  # (places, T)
    steps = np.arange(len(places))
    thin, thick = ROLES["stream"], ROLES["weights"]
    colours = [role.on_dark if theme == "dark" else role.on_light for role in (thin, thick)]
    gap = np.full((1, table.shape[1]), np.nan)  # one trace for all tokens: lines broken between them
    figure = go.Figure()
    figure.add_scatter(
        x=np.tile(np.append(steps, np.nan), table.shape[1]),
        y=np.concatenate([table, gap]).T.ravel(),
        text=np.repeat([plotly_text(label) for label in token_labels], len(places) + 1),
        mode="lines+markers",
        marker={"size": 3},
        line={"color": colours[0], "width": 1},
        opacity=0.55,
        name="a token",
        hovertemplate="%{text}: %{y:.4~g}<extra></extra>",
    )
    figure.add_scatter(
        x=steps,
        y=table.mean(1),
        mode="lines+markers",
        line={"color": colours[1], "width": 3},
        marker={"size": 7},
        name="mean",
        hovertemplate="mean %{y:.4~g}<extra></extra>",
    )
    figure.add_hline(
        y=width**0.5,
        line={"color": TEXT[theme], "width": 1, "dash": "dot"},
    )
    figure.add_annotation(  # on a logarithmic axis, Plotly places a line by its number and a text by the logarithm
        x=1.01,
        xref="paper",
        xanchor="left",
        y=np.log10(width) / 2 if logarithmic else width**0.5,
        text=f"√C = {width**0.5:.1f}",
        showarrow=False,
        font_size=12,
    )
    room = 1.15
    ends = [np.log10(low / room), np.log10(high * room)] if logarithmic else [0, high * room]
    names = [plotly_text(place.removeprefix("block ")) for place in places]
    figure.update_xaxes(tickvals=steps, ticktext=names, tickangle=-90, showgrid=False, automargin=True)
    figure.update_yaxes(title="length ‖x‖", range=ends, gridcolor=GRID, zeroline=False, automargin=True)
    if logarithmic:
        figure.update_yaxes(type="log", tickvals=[digit * 10**power for power in range(-3, 6) for digit in (1, 2, 5)])
    figure.update_layout(
        height=height,
        margin={"l": 10, "r": 62, "t": 24, "b": 105},
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "bgcolor": CLEAR, "itemwidth": 30},
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"color": TEXT[theme], "size": 12},
        hoverlabel={"bgcolor": PAGE[theme], "font": {"color": TEXT[theme]}},
    )
    return figure
