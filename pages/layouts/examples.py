"""The models that the page Layouts compares, each traced on a text that it can read."""

from dataclasses import dataclass

import streamlit as st

import viz_model as vm
from viz_model.checkpoints.shelf import Shelf
from viz_ui.frame.address import linked
from viz_ui.frame.loaded_models import offered
from viz_ui.frame.view import current_view

ENCODER, DECODER, BOTH = "tiny-bert", "tiny-gpt", "tiny-seq2seq"
FIRST_SOURCE, LONGEST_SOURCE = "Friday, 3 May 2024", 100  # characters


@dataclass(frozen=True, eq=False)
class Example:
    """A model and its trace; of an encoder-decoder, `text` is the source, and what it writes is its own."""

    model: vm.Model
    text: str
    trace: vm.Trace


def example(name: str) -> Example:
    """The model of that name on the sidebar's prompt, or on the source of this page where it reads dates.

    Raises VizError with a sentence: the model is not here, or cannot read the text.
    """
    text = source_text() if name == BOTH else current_view().text
    return Example(example_model(name), text, _traced(name, text))


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
def _traced(name: str, text: str) -> vm.Trace:
    return example_model(name).trace(text)
