"""The view: what every page looks at, made from the reader's choice."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

import streamlit as st

import viz_model as vm
from viz_ui.models import load_model
from viz_ui.state import NUMBERS, chosen_number
from viz_ui.text import labels, plain

A_SECOND_OF_OPERATIONS = 20e9  # multiplications and additions, on two busy cores of a laptop

PLACES = {"self": "", "encoder": "encoder, ", "decoder": "decoder, ", "cross": "cross-attention, "}


@dataclass(frozen=True)
class View:
    """A traced prompt, and the layer, head, query token and key token that are chosen in it.

    name: what the model is called in the sidebar; the path of a folder of the visitor's own. prompt: the text, or
    the ids of a chat; of an encoder-decoder, the source. target: what its decoder was given to read, None for what
    it writes by itself. The trace is seen through the part that is chosen, so queries and keys may be two texts.
    """

    model: vm.Model
    name: str
    prompt: str | tuple[int, ...]
    target: str | None
    trace: vm.Trace
    layer: int
    head: int
    query: int
    key: int

    @property
    def part(self) -> str:
        """The attention that is looked at: "self", or "encoder", "decoder" or "cross"."""
        return self.trace.part

    @property
    def text(self) -> str:
        """The prompt for a model with another tokenizer; of a chat, with the signs of its template."""
        return self.prompt if isinstance(self.prompt, str) else self.model.tokenizer.decode(list(self.prompt))

    @cached_property
    def labels(self) -> list[str]:
        """One label a query."""
        return labels(self.trace.token_bytes)

    @cached_property
    def key_labels(self) -> list[str]:
        """One label a key: the same, except in cross-attention."""
        return labels(self.trace.key_token_bytes) if self.part == "cross" else self.labels

    @property
    def where(self) -> str:
        """ "layer 1, head 2", or "cross-attention, layer 1, head 2"."""
        return f"{PLACES[self.part]}layer {self.layer}, head {self.head}"

    @property
    def own_mask(self) -> str:
        """The name of the mask that the part is made for."""
        return self.model.config.mask_of(self.part)

    def under(self, mask: str) -> vm.Trace:
        """The trace of the same texts with another mask in this part."""
        with sign_of_a_pass(self.model, self.prompt):
            return traced(self.name, self.prompt, mask, self.part, self.target)

    def file_name(self, what: str) -> str:
        """A name for a saved file, without its ending."""
        part = "" if self.part == "self" else f"_{self.part}"
        return f"{self.model.name}{part}_layer{self.layer}_head{self.head}_{what}".replace(" ", "-")


def traced(
    name: str, prompt: str | tuple[int, ...], mask: str, part: str | None = None, target: str | None = None
) -> vm.Trace:
    """The trace of a prompt, kept for this visitor; with it a head change runs no model.

    part: which one the mask is for, and the trace is seen through; None is self-attention (`Layout.self_part`).
    """
    config = load_model(name).config
    part = part or config.self_part
    is_own = mask == config.mask_of(part)
    return _traced(name, prompt, None if is_own else part, mask, target).of(part)


def sign_of_a_pass(model: vm.Model, prompt: str | tuple[int, ...]) -> AbstractContextManager:
    """A spinner around a pass that may run, where it takes about a second or more: a shorter one would only flash."""
    if 2 * model.transformer.n_parameters() * len(model.ids(prompt)) < A_SECOND_OF_OPERATIONS:
        return nullcontext()
    return st.spinner(f"{plain(model.name)} reads the prompt …", show_time=True)


@st.cache_resource(scope="session", max_entries=2, show_spinner=False)
def _traced(
    name: str, prompt: str | tuple[int, ...], masked_part: str | None, mask: str, target: str | None
) -> vm.Trace:
    return load_model(name).trace(prompt, {masked_part: mask} if masked_part else None, target)


def current_view() -> View:
    """The view of this run; inside a fragment, with what was clicked since the sidebar ran."""
    view = st.session_state["view"]
    return replace(view, **{name: chosen_number(name) for name in NUMBERS})
