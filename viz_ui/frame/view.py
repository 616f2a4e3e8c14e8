"""The view: what every page looks at, made from the reader's choice."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import streamlit as st

import viz_model as vm
from viz_model.heads.measures import telling_cell
from viz_model.model.edits import Edit
from viz_ui.frame.address import choose_pair, chosen_value, held, hold, is_picked
from viz_ui.frame.forms import PairOfNumbers
from viz_ui.frame.loaded_models import load_model
from viz_ui.frame.passes import Prompt, kept_pass
from viz_ui.look.text import labels

PART_WORDS = {"self": "", "encoder": "encoder, ", "decoder": "decoder, ", "cross": "cross-attention, "}


@dataclass(frozen=True)
class View:
    """A traced prompt, and the layer, head, query token and key token that are chosen in it.

    name: what the model is called in the sidebar; the path of a folder of the visitor's own. prompt: the text, or
    the tokens of a chat; of an encoder-decoder, the source. target: what its decoder was given to read, None for what
    it writes by itself. The trace is seen through the part that is chosen, so queries and keys may be two texts.
    """

    model: vm.Model
    name: str
    prompt: Prompt
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
        return self.prompt if isinstance(self.prompt, str) else b"".join(self.prompt.pieces).decode(errors="replace")

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
        return f"{PART_WORDS[self.part]}layer {self.layer}, head {self.head}"

    @property
    def pass_key(self) -> tuple:
        """What tells this pass from others, for what is kept of it: strings and numbers only."""
        trace, edits = self.trace, tuple(edit.written for edit in self.edits)
        return self.name, trace.read.ids, trace.source and trace.source.ids, tuple(trace.mask_names.items()), edits

    @property
    def edits(self) -> tuple[Edit, ...]:
        """What is changed in the pass, see `vm.Model.edited`."""
        return self.model.edits

    @property
    def unedited_model(self) -> vm.Model:
        """The same model without the edits."""
        return load_model(self.name) if self.edits else self.model

    @property
    def own_mask(self) -> str:
        """The name of the mask that the part is made for."""
        return self.model.config.mask_of(self.part)

    def under(self, mask: str) -> vm.Trace:
        """The trace of the same texts with another mask in this part."""
        return traced(self.name, self.prompt, mask, self.part, self.target, edits=self.edits)

    def file_name(self, what: str) -> str:
        """A name for a saved file, without its ending."""
        part = "" if self.part == "self" else f"_{self.part}"
        edited = "_edited" if self.edits else ""
        return f"{self.model.name}{part}_layer{self.layer}_head{self.head}_{what}{edited}".replace(" ", "-")


def traced(
    name: str,
    prompt: Prompt,
    mask: str,
    part: str | None = None,
    target: str | None = None,
    *,
    edits: tuple[Edit, ...] = (),
    kind: str = "trace",
    most: int = 2,
    can_stop: bool = False,
) -> vm.Trace:
    """The trace of a prompt, kept for this visitor; with it a head change runs no model.

    part: which one the mask is for, and the trace is seen through; None is self-attention (`ModelFacts.self_part`).
    edits: what is changed in it, see `edited_model`.
    kind, most, can_stop: see `passes.kept_pass`; a page with more texts of its own keeps them as another kind.
    """
    model = edited_model(name, edits)
    part = part or model.config.self_part
    masks = None if mask == model.config.mask_of(part) else {part: mask}

    def work() -> vm.Trace:
        return model.trace(prompt, masks, target)

    of = (name, prompt, mask, part if masks else None, target, edits)
    return kept_pass(kind, of, model, prompt, work, most=most, can_stop=can_stop).of(part)


def edited_model(name: str, edits: tuple[Edit, ...], *, kind: str = "edited model", most: int = 2) -> vm.Model:
    """The model in whose passes these edits are made, kept for this visitor. Raises VizError where one does not fit."""
    model = load_model(name)
    if not edits:
        return model
    texts = [edit.text for edit in edits if hasattr(edit, "text")]  # of passes that it takes to make these
    longest = max(texts, key=len, default=[0])
    return kept_pass(kind, (name, edits), model, longest, lambda: model.edited(edits), most=most)


def current_view() -> View:
    """The view of this run; inside a fragment, with what was clicked since the sidebar ran."""
    view: View = st.session_state["view"]
    (layer, head), (query, key) = (chosen_value("head"), chosen_value("cell"))
    return replace(view, layer=layer, head=head, query=query, key=key)


def hold_head_and_cell() -> None:
    """Declare the two, whether or not there is a pass to look at: an empty prompt loses neither."""
    held("head", PairOfNumbers(("layer", "head")))
    held("cell", PairOfNumbers(("query", "key")))


def fit_head_and_cell(model: vm.Model, trace: vm.Trace) -> tuple[tuple[int, int], tuple[int, int]]:
    """The chosen head (layer, head) and cell (query, key) within this pass; where none is chosen, ones that teach."""
    hold_head_and_cell()
    layer, head = chosen_value("head") or first_head(model)
    layer, head = min(layer, trace.n_layers - 1), min(head, trace.config.n_heads - 1)
    query, key = chosen_value("cell") or first_cell(model, trace, layer, head)
    query, key = min(query, trace.length - 1), min(key, trace.key_length - 1)
    hold(head=(layer, head), cell=(query, key))
    return (layer, head), (query, key)


def first_cell(model: vm.Model, trace: vm.Trace, layer: int, head: int) -> tuple[int, int]:
    """The cell to begin with: of a token that the prompt hides, with what it reads most; else a telling one."""
    if model.mask_token not in trace.ids:
        return telling_cell(trace, layer, head)
    query = trace.ids.index(model.mask_token)
    return query, int(trace.weights_of(layer, [query])[head, 0].argmax())


def first_head(model: vm.Model) -> tuple[int, int]:
    """The head that was measured to do most of what one can see at once: look at the token before; else whatever its
    checkpoint's figures are of."""
    tables = model.measured_heads
    table = np.array(tables.get("previous_text") or next(iter(tables.values()), [[0.0]]))
    layer, head = np.unravel_index(table.argmax(), table.shape)
    return int(layer), int(head)


def begin_with_head(find: Callable[[], tuple[int, int] | None]) -> None:
    """Where the reader has chosen no head: begin this run again with one that makes the page's point, if any does."""
    if is_picked("head"):
        return
    view, found = current_view(), find()
    if found is not None and found != (view.layer, view.head):
        hold(head=found, cell=first_cell(view.model, view.trace, *found))
        st.rerun()


def choose_head(layer: int | None = None, head: int | None = None) -> None:
    """Choose a head from a callback; a half that is not given stays."""
    choose_pair("head", layer, head)


def choose_head_to_read(layer: int, head: int) -> None:
    """The same where a head is chosen for what it reads: as long as the reader has chosen no cell, it becomes one that
    tells most of this head."""
    choose_head(layer, head)
    if not is_picked("cell"):
        view: View = st.session_state["view"]
        hold(cell=first_cell(view.model, view.trace, layer, head))


def choose_cell(query: int | None = None, key: int | None = None) -> None:
    """Choose a cell from a callback; a half that is not given stays."""
    choose_pair("cell", query, key)


def choose_picked_cell(event: dict) -> None:
    """Callback of `panels(on_pick=…)`: the clicked cell's query and key, where the panel has them."""
    choose_cell(event["query"], event["key"])
