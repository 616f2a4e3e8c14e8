"""The view: what every page looks at, made from the reader's choice."""

import gc
from dataclasses import dataclass, replace
from functools import cached_property

import streamlit as st

import viz_model as vm
from viz_ui.state import NUMBERS, chosen_number
from viz_ui.text import labels


@dataclass(frozen=True)
class View:
    """A traced prompt, and the layer, head, query token and key token that are chosen in it."""

    model: vm.Model
    prompt: str
    trace: vm.Trace
    layer: int
    head: int
    query: int
    key: int

    @cached_property
    def labels(self) -> list[str]:
        """One label a token."""
        return labels(self.trace.token_bytes)

    def file_name(self, what: str) -> str:
        """A name for a saved file, without its ending."""
        return f"{self.model.name}_layer{self.layer}_head{self.head}_{what}".replace(" ", "-")


@st.cache_resource(max_entries=2, show_spinner="Loading the model …")
def load_model(name: str) -> vm.Model:
    """A model, shared by all visitors; at most two stay loaded."""
    model = vm.load(name)
    # Streamlit collects garbage after every run, and would walk through all of torch each time: about 90 ms in
    # which no message leaves the server. What is loaded by now stays, so the collector need not look at it.
    gc.freeze()
    return model


@st.cache_resource(scope="session", max_entries=2, show_spinner=False)
def traced(model_name: str, prompt: str, mask: str) -> vm.Trace:
    """The trace of a prompt, kept for this visitor; with it a head change runs no model."""
    return load_model(model_name).trace(prompt, mask)


def current_view() -> View:
    """The view of this run; inside a fragment, with what was clicked since the sidebar ran."""
    view = st.session_state["view"]
    return replace(view, **{name: chosen_number(name) for name in NUMBERS})
