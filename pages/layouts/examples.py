"""The models that the page Layouts compares, each traced on a text that it can read."""

from collections.abc import Collection
from dataclasses import dataclass

import streamlit as st

import viz_model as vm
from viz_model.checkpoints.shelf import Shelf
from viz_ui.frame.address import linked
from viz_ui.frame.edits import fitting_pass, left_out_words
from viz_ui.frame.loaded_models import offered
from viz_ui.frame.navigation import COMPARED
from viz_ui.frame.view import View, current_view
from viz_ui.look.text import plain

ENCODER, DECODER, BOTH = COMPARED
FIRST_SOURCE, LONGEST_SOURCE = "Friday, 3 May 2024", 100  # characters


@dataclass(frozen=True, eq=False)
class Example:
    """A model and its trace; of an encoder-decoder, `text` is the source, and what it writes is its own.

    left_out: why edits of the list are not made in it.
    """

    model: vm.Model
    text: str
    trace: vm.Trace
    left_out: tuple[str, ...] = ()

    @property
    def edits(self) -> tuple[str, ...]:
        """What is changed in its passes, as it is written: for what is kept of them."""
        return tuple(edit.written for edit in self.model.edits)


def example(name: str) -> Example:
    """The model of that name on the sidebar's prompt, or on the source of this page where it reads dates.

    Raises VizError with a sentence: the model is not here, or cannot read the text.
    """
    view = current_view()
    text, model = source_text() if name == BOTH else view.text, example_model(name)
    unedited = _traced(model, name, text, ())
    if not view.edits or view.name != name:
        return Example(model, text, unedited)
    edits, left_out = fitting_pass(view.edits, unedited)
    edited = model.edited(edits)
    return Example(edited, text, _traced(edited, name, text, tuple(edit.written for edit in edits)), left_out)


def say_edits(examples: Collection[Example]) -> None:
    """Which of the models are under the edits of the list, and which of these cannot be made here."""
    view: View = current_view()
    if not view.edits:
        return
    others = [one.model.name for one in examples if one.model.name != view.model.name]
    if others:
        are = "is" if len(others) == 1 else "are"
        st.caption(f"The edits are of {plain(view.model.name)}. {' and '.join(others)} {are} shown without them.")
    for one in examples:
        for why in one.left_out:
            st.markdown(left_out_words(why))


def example_model(name: str) -> vm.Model:
    """The model of that name, shared by all visitors; raises CheckpointError where it is not here."""
    if name not in {entry.name for entry in vm.catalogue() if entry.folder}:
        command = f"python -m viz_model.training {name}" + (" --text FILE" if name != BOTH else "")
        raise vm.CheckpointError(f"{name} is not here. Restore checkpoints/{name}, or train it: {command}")
    return offered(name, _shelf())


def draw_source(**look) -> None:
    """The text box of what tiny-seq2seq reads; in every section that shows it, so that a link brings it along."""
    linked(
        st.text_input,
        "A written date",
        key="source",
        max_chars=LONGEST_SOURCE,
        placeholder=FIRST_SOURCE,
        **({"width": 300} | look),
    )


def source_text() -> str:
    """What stands in the text box, or the first source; a link may hold more than the box allows."""
    return (st.session_state.get("source") or FIRST_SOURCE)[:LONGEST_SOURCE]


@st.cache_resource(show_spinner=False)
def _shelf() -> Shelf:
    """The three of them; another shelf than the sidebar's, so that its model stays loaded."""
    return Shelf(most=3)


@st.cache_resource(scope="session", max_entries=4, show_spinner=False)
def _traced(_model: vm.Model, name: str, text: str, edits: tuple[str, ...]) -> vm.Trace:
    return _model.trace(text)
