"""Plotly curves of the page Positions: wavelengths of rotary pairs, rows by distance, loss and weights by position."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from viz_ui.look.colours import ROLES
from viz_ui.look.figures import GRID, TEXT, Theme, curves_layout
from viz_ui.look.text import plotly_text


@dataclass(frozen=True, eq=False)
class Curve:
    """Means over runs of positions, each at the middle of its run."""

    middles: np.ndarray
    means: np.ndarray


def wavelength_figure(waves: dict[str, np.ndarray], *, trained: int, theme: Theme, height: int = 300) -> go.Figure:
    """Tokens until a pair has turned once, by pair, on a logarithmic axis; `trained` is a horizontal line."""
    figure = go.Figure()
    for n, ((name, values), role) in enumerate(zip(waves.items(), ("weights", "stream"), strict=True)):
        figure.add_scatter(
            x=np.arange(len(values)),
            y=values,
            name=name,
            mode="lines+markers",
            line={"color": _colour(role, theme), "width": 2, "dash": "dash" if n else "solid"},
            marker={"size": 7, "symbol": "circle-open" if n else "circle"},
            hovertemplate="one turn in %{y:,.4~g} tokens",
        )
    figure.add_hline(y=trained, line={"color": TEXT[theme], "width": 1.5, "dash": "dot"})
    # an annotation on a logarithmic axis is placed by its exponent
    words = f"trained length {trained:,}"
    figure.add_annotation(
        x=0, y=np.log10(trained), xanchor="left", yanchor="bottom", text=words, showarrow=False, font_size=12
    )
    _lay_out(figure, theme, height)
    pairs = len(next(iter(waves.values())))
    figure.update_xaxes(title="pair p", dtick=1 if pairs <= 32 else 8, range=[-0.5, pairs - 0.5])
    figure.update_yaxes(type="log", title="tokens for one turn, 2π/θ", dtick=1, exponentformat="power")
    return figure


def distance_figure(
    curves: dict[str, tuple[np.ndarray, tuple[np.ndarray, np.ndarray] | None]],
    *,
    trained: int,
    theme: Theme,
    height: int = 330,
) -> go.Figure:
    """Curves over the distance of two rows: for each name the mean, and (least, largest) or None if all are equal."""
    figure = go.Figure()
    for (name, (mean, band)), role in zip(curves.items(), ("weights", "key"), strict=False):
        colour, distances = _colour(role, theme), np.arange(len(mean))
        if band is not None:
            least, largest = band
            figure.add_scatter(
                x=np.concatenate([distances, distances[::-1]]),
                y=np.concatenate([largest, least[::-1]]),
                fill="toself",
                fillcolor=GRID,
                line={"width": 0},
                name=f"{name}: least to largest",
                hoverinfo="skip",
            )
        figure.add_scatter(
            x=distances,
            y=mean,
            name=name,
            line={"color": colour, "width": 2},
            hovertemplate="%{y:.4~g}",
        )
    figure.add_vline(x=trained - 1, line={"color": TEXT[theme], "width": 1.5, "dash": "dot"})
    figure.add_annotation(
        x=trained - 1, y=1, yref="paper", yanchor="top", xanchor="left", showarrow=False, text=f" row {trained - 1}"
    )
    _lay_out(figure, theme, height)
    figure.update_xaxes(title="distance j − i")
    figure.update_yaxes(title="cosine of two rows")
    return figure


def bias_figure(
    distances: list[int], by_distance: np.ndarray, head: int, *, theme: Theme, height: int = 330
) -> go.Figure:
    """What each head adds at each distance (H,N): the chosen one in colour, the others thin."""
    figure = go.Figure()
    for other in [*(n for n in range(len(by_distance)) if n != head), head]:
        is_chosen = other == head
        figure.add_scatter(
            x=distances,
            y=by_distance[other],
            name=f"head {other}",
            mode="lines+markers" if is_chosen else "lines",
            showlegend=False,
            line={"color": _colour("scores", theme) if is_chosen else GRID, "width": 2 if is_chosen else 1},
            hovertemplate="%{y:.4~g}",
        )
    _lay_out(figure, theme, height)
    figure.update_xaxes(title="distance j − i, from query to key")
    figure.update_yaxes(title="bias minus the bias at distance 0")
    return figure


# Colour of a role, dash and mark of three curves: restarting, with the angles as trained, with other angles.
_LOOKS = (("stream", "dot", "x-thin-open"), ("weights", "solid", "circle"), ("value", "dash", "circle-open"))


def loss_figure(losses: dict[str, Curve], *, trained: int, theme: Theme, height: int = 350) -> go.Figure:
    """The loss by position: first restarting, then with the angles as trained, then with other angles."""
    figure = go.Figure()
    for (name, curve), look in zip(losses.items(), _LOOKS, strict=False):
        figure.add_trace(_by_position(name, curve, look, theme))
    _mark_trained(figure, trained, theme)
    figure.add_annotation(
        x=trained,
        y=1,
        yref="paper",
        yanchor="top",
        xanchor="left",
        showarrow=False,
        text=f" trained length {trained:,}",
    )
    _lay_out(figure, theme, height)
    figure.update_xaxes(title="position", rangemode="tozero")
    figure.update_yaxes(title="loss, nats per token")
    return figure


def read_weights_figure(
    weights: dict[str, dict[str, Curve]], *, trained: int, theme: Theme, height: int = 350
) -> go.Figure:
    """Weights by position, one picture for each title: with the angles as trained and with other angles."""
    titles = [plotly_text(title) for title in weights]
    figure = make_subplots(rows=len(weights), cols=1, shared_xaxes=True, vertical_spacing=0.13, subplot_titles=titles)
    figure.update_annotations(font_size=12, x=0, xanchor="left")
    for row, curves in enumerate(weights.values(), 1):
        for (name, curve), look in zip(curves.items(), _LOOKS[1:], strict=False):
            figure.add_trace(_by_position(name, curve, look, theme), row=row, col=1)
    _mark_trained(figure, trained, theme)
    _lay_out(figure, theme, height)
    figure.update_layout(showlegend=False)
    figure.update_xaxes(title="position", row=len(weights), col=1)
    figure.update_yaxes(range=[0, 1.05], dtick=0.5)
    return figure


def _by_position(name: str, curve: Curve, look: tuple[str, str, str], theme: Theme) -> go.Scatter:
    role, dash, symbol = look
    colour = _colour(role, theme)
    return go.Scatter(
        x=curve.middles,
        y=curve.means,
        name=plotly_text(name),
        mode="lines+markers",
        line={"color": colour, "width": 2, "dash": dash},
        marker={"size": 7, "symbol": symbol, "color": colour},
        hovertemplate="%{y:.4~g}",
    )


def _mark_trained(figure: go.Figure, trained: int, theme: Theme) -> None:
    """Where the trained length ends, in every picture of the figure."""
    figure.add_vline(x=trained - 0.5, line={"color": TEXT[theme], "width": 1.5, "dash": "dot"})


def _colour(role: str, theme: Theme) -> str:
    return ROLES[role].on_dark if theme == "dark" else ROLES[role].on_light


def _lay_out(figure: go.Figure, theme: Theme, height: int) -> None:
    figure.update_xaxes(zeroline=False, gridcolor=GRID, automargin=True, tickformat=",")
    figure.update_yaxes(zeroline=False, gridcolor=GRID, automargin=True)
    figure.update_layout(margin={"l": 10, "r": 10, "t": 30, "b": 10}, **curves_layout(theme, height))
