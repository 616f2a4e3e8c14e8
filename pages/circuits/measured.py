"""What the page Circuits measures of a model: kept for all visitors, for it is of the weights alone."""

from collections.abc import Callable, Hashable
from typing import TypeVar

import streamlit as st

import viz_model as vm
from viz_model.circuit.circuits import Circuits, Composition, CopyingScores
from viz_model.jobs import Tell, untold
from viz_model.latest import LatestOfEach
from viz_ui.frame.jobs import finished
from viz_ui.frame.passes import is_small
from viz_ui.frame.view import View
from viz_ui.look.text import plain

MOST_KEPT = 40  # of a model: its parts, kinds, distances and heads

Result = TypeVar("Result")


@st.cache_resource(show_spinner=False)
def kept() -> LatestOfEach[vm.Model, Hashable, CopyingScores | Composition | float]:
    """Shared by all visitors."""
    return LatestOfEach(MOST_KEPT)


def copying(view: View, circuits: Circuits) -> CopyingScores:
    """Copying scores of all heads of the chosen part."""
    words = f"Reading the parameters of {plain(view.model.name)}"
    return _measured(view, "copying", None, lambda tell: circuits.measure_copying(tell=tell), words)


def composition(view: View, circuits: Circuits, kind: str, distance: int) -> Composition:
    """Composition of all pairs of heads; where it does not depend on the distance, it is kept once for all."""
    distance = distance if depends_on_distance(view) and kind != "value" else 0
    words = f"Multiplying the heads of {plain(view.model.name)} with each other"
    of = kind, distance
    return _measured(
        view, "composition", of, lambda tell: circuits.measure_composition(kind, distance, tell=tell), words
    )


def raises_itself(view: View, circuits: Circuits) -> float:
    """The share of tokens that the chosen head raises when it reads them."""
    head = view.layer, view.head
    return kept().get(view.model, (view.part, "itself", head), lambda: circuits.raises_itself(*head))


def depends_on_distance(view: View) -> bool:
    """Whether the chosen head turns its queries and keys by their position."""
    return view.trace.equation(view.layer).rotation is not None


def _measured(view: View, name: str, of: Hashable, work: Callable[[Tell], Result], words: str) -> Result:
    """What `work` gives; name: of the widgets of the job, one for each place of the page."""
    key = view.part, name, of

    def made(tell: Tell) -> Result:
        return kept().get(view.model, key, lambda: work(tell))

    if is_small(view.model) or kept().holds(view.model, key):
        return made(untold)
    return finished(lambda job: made(job.tell), words=words, name=name, of=(view.name, key))
