"""What the sections of the page Positions share: the model that each shows, and the names of the schemes."""

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

import viz_model as vm
from viz_model.positions.schemes import under_scheme
from viz_model.transformer.facts import ModelFacts
from viz_ui.frame.loaded_models import load_model
from viz_ui.frame.passes import Prompt
from viz_ui.frame.view import View, edited_model
from viz_ui.look.text import counted, labels, plain

NAMES = {"none": "none", "sinusoidal": "sinusoidal", "learned": "learned", "rotary": "RoPE"}

ADDED = ("sinusoidal", "learned")  # to the embedding; the others are not


@dataclass(frozen=True, eq=False)
class FittingPrompt:
    """The prompt in the model that a section draws, and the choices of the sidebar brought into its range.

    name: of the model in the catalogue, or its folder. model: of the sidebar's, under the edits that fit what is drawn.
    instead: why this is not the model of the sidebar, as a sentence; "" where it is. note: that, or why edits of the
    list are not made in it; "" where nothing is to be said.
    """

    name: str
    model: vm.Model
    prompt: Prompt
    ids: tuple[int, ...]
    layer: int
    head: int
    query: int
    key: int
    instead: str
    note: str

    @property
    def edits(self) -> tuple[str, ...]:
        """What is changed in its passes, as it is written: for what is kept of them."""
        return tuple(edit.written for edit in self.model.edits)

    @property
    def labels(self) -> list[str]:
        """One label a token."""
        return labels(self.model.pieces(self.prompt))


def drawn(view: View, fits: Callable[[ModelFacts], bool], needs: str) -> FittingPrompt:
    """The sidebar's model where its config `fits`, else the first of the catalogue's that does; of an encoder-decoder,
    its encoder. `needs` says in words what fits.

    Raises VizError where no model fits, or the prompt does not.
    """
    name, model, instead = fitting(view, fits, needs)
    config = model.config
    part = config.parts[0]
    note = f"{instead} The edits are of {plain(view.model.name)}." if instead and view.edits else instead
    if not instead and (others := [edit for edit in view.edits if edit.part != part]):
        model = edited_model(name, tuple(edit for edit in view.edits if edit.part == part), kind="fitting model")
        note = (
            f"This section shows the {part} alone, so {counted(len(others), 'edit')} of other parts "
            f"{'is' if len(others) == 1 else 'are'} not made here."
        )
    prompt = view.text if instead else view.prompt
    ids = tuple(model.encode(prompt)) if instead else view.trace.of(part).ids
    last = len(ids) - 1
    return FittingPrompt(
        name=name,
        model=model,
        prompt=prompt,
        ids=ids,
        layer=min(view.layer, config.layers_of(part) - 1),
        head=min(view.head, config.n_heads - 1),
        query=min(view.query, last),
        key=min(view.key, last),
        instead=instead,
        note=note,
    )


def fitting(
    view: View, fits: Callable[[ModelFacts], bool], needs: str, *, reads_text: bool = False
) -> tuple[str, vm.Model, str]:
    """Name, model and `instead` as `drawn` has them; the prompt need not fit. reads_text: it must have a tokenizer."""
    if fits(view.model.config) and (view.model.tokenizer is not None or not reads_text):
        return view.name, view.model, ""
    here = [entry for entry in vm.catalogue() if entry.folder and entry.has_tokenizer]
    name = next((entry.name for entry in here if fits(entry.config)), None)
    if name is None:
        raise vm.VizError(f"This section needs {needs}. No such model is here. Fetch one on the page Models.")
    model = load_model(name)
    return (
        name,
        model,
        f"This section shows {plain(model.name)}, because {plain(view.model.name)} does not fit: the section needs "
        f"{needs}.",
    )


def is_ours(config: ModelFacts) -> bool:
    """Whether the model is of our own skeleton: its position scheme can be exchanged, its lines be shown."""
    return config.is_skeleton


@st.cache_resource(max_entries=4, show_spinner=False)
def variant(name: str, scheme: str) -> vm.Model:
    """A model of the catalogue under another position scheme; its weights are those of the loaded one."""
    return under_scheme(load_model(name), scheme)


def scheme_badge(model: vm.Model, scheme: str) -> str:
    """Whether the weights were trained with this scheme."""
    name = plain(model.name)
    if scheme == model.config.position:
        return f":green-badge[{name}’s own]"
    if scheme == "none":
        return f":orange-badge[{name} without its positions]"
    return f":orange-badge[{name} was not trained with these positions]"
