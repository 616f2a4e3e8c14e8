"""The terms of a sum as bars: what each component adds, the largest first, and the rest as one bar."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from viz_model.attribution.components import HEAD, Component
from viz_ui.frame.address import choose
from viz_ui.frame.view import View
from viz_ui.look.colours import ROLES, diverging_lut
from viz_ui.look.figures import CLEAR, GRID, PAGE, TEXT
from viz_ui.look.text import number, plotly_text

MOST_BARS = 12
BAR_PIXELS = 24


@dataclass(frozen=True)
class Terms:
    """names and numbers of a sum; `places` says which components they are, those of the rest together."""

    names: tuple[str, ...]
    numbers: np.ndarray
    places: tuple[tuple[int, ...], ...]


def largest(names: Sequence[str], numbers: np.ndarray, most: int = MOST_BARS) -> Terms:
    """The terms that are largest, whatever their sign, in the order of size; what is left is summed as "the rest"."""
    order = np.argsort(-np.abs(numbers), kind="stable")
    kept = order if len(order) <= most else order[: most - 1]
    rest = order[len(kept) :]
    words, sums, places = [names[i] for i in kept], [float(numbers[i]) for i in kept], [(int(i),) for i in kept]
    if len(rest):
        words.append(f"the other {len(rest)}, together")
        sums.append(float(numbers[rest].sum()))
        places.append(tuple(map(int, rest)))
    return Terms(tuple(words), np.array(sums), tuple(places))


def draw_terms(
    terms: Terms, *, key: str, title: str, reach: float, on_pick: Callable[[int], None], role: str | None = None
) -> None:
    """Bars to the right for what raises the sum, to the left for what lowers it, with their numbers.

    reach: how far the axis goes to either side, so that bars of several pictures can be compared. on_pick: called with
    the component of a bar that is clicked; not for the rest. role: whose hue the title has, such as "key".
    """

    def picked() -> None:
        points = st.session_state[key].selection.points
        place = points[0]["point_index"] if points else None
        if place is not None and len(terms.places[place]) == 1:
            on_pick(terms.places[place][0])

    st.plotly_chart(
        _figure(terms, title, reach, role),
        key=key,
        theme=None,
        on_select=picked,
        selection_mode="points",
        config={"displayModeBar": False},
    )


def look_at_writer(view: View, component: Component, place: int) -> None:
    """Look at the head that wrote a component, at the token where it wrote it and the key that it read most there."""
    if component.kind != HEAD:
        return
    row = view.trace.of(component.part).weights(component.layer, component.head)[place]
    part = {"part": component.part} if component.part != view.part else {}
    choose(head=(component.layer, component.head), cell=(place, int(row.argmax())), **part)


def _figure(terms: Terms, title: str, reach: float, role: str | None) -> go.Figure:
    theme = st.context.theme.type or "light"
    hue = TEXT[theme] if role is None else getattr(ROLES[role], f"on_{theme}")
    table = diverging_lut()
    colours = ["rgb({},{},{})".format(*table[216 if value > 0 else 40]) for value in terms.numbers]
    places = np.arange(len(terms.names))
    figure = go.Figure(
        go.Bar(
            x=terms.numbers,
            y=places,
            orientation="h",
            marker={"color": colours, "line": {"width": 0}},
            text=[number(value, 3) for value in terms.numbers],
            textposition="outside",
            cliponaxis=False,
            customdata=[plotly_text(name) for name in terms.names],
            hovertemplate="%{customdata}<br><b>%{x:.6~g}</b><extra></extra>",
        )
    )
    figure.update_layout(
        title={"text": plotly_text(title), "x": 0, "xref": "container", "font": {"size": 15, "color": hue}},
        xaxis={"range": [-1.35 * reach, 1.35 * reach], "gridcolor": GRID, "zerolinecolor": GRID, "fixedrange": True},
        yaxis={
            "tickvals": places,
            "ticktext": [plotly_text(name) for name in terms.names],
            "range": [len(places) - 0.5, -0.5],
            "automargin": True,
            "fixedrange": True,
        },
        height=70 + BAR_PIXELS * len(places),
        margin={"l": 10, "r": 10, "t": 36, "b": 24},
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
        font={"color": TEXT[theme], "size": 13, "family": "Source Sans, sans-serif"},
        hoverlabel={"bgcolor": PAGE[theme], "font": {"color": TEXT[theme]}},
    )
    return figure
