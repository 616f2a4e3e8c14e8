"""What the reader compares with: A is the pass of the sidebar, B another prompt, model, head or mask, or no edits."""

from dataclasses import dataclass, replace

import streamlit as st

import viz_model as vm
from viz_model.model.prompts import Tokens
from viz_ui.frame.address import choose, chosen_value, held, linked
from viz_ui.frame.forms import PairOfNumbers
from viz_ui.frame.loaded_models import model_names
from viz_ui.frame.view import View, edited_model, traced
from viz_ui.look.glossary import explained
from viz_ui.parts.other_prompt import with_one_token_replaced

PROMPT, MODEL, HEAD, MASK, EDITS = "another prompt", "another model", "another head", "another mask", "no edits"
KINDS = (PROMPT, MODEL, HEAD, MASK, EDITS)
LONGEST = 4000  # characters
NAMES = "A", "B"


@dataclass(frozen=True, eq=False)
class Sides:
    """The two that are compared. kind: one of KINDS; second: what B looks at, with a head only where it has one of its
    own. words: what B is."""

    kind: str
    first: View
    second: View
    words: str

    @property
    def has_own_head(self) -> bool:
        """Whether B's head is chosen for itself; else it is the one with the same numbers."""
        return self.kind in (HEAD, MODEL)

    @property
    def is_one_pass(self) -> bool:
        return self.kind == HEAD

    @property
    def key(self) -> tuple:
        """What tells these two from others: strings and numbers only."""
        return self.kind, *((side.pass_key, side.part) for side in (self.first, self.second))


def draw_choice(view: View) -> Sides:
    """The boxes, and the pass that B is. Raises VizError, with a sentence, where there is none; and Stopped."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = linked(
            st.selectbox,
            "Compare with",
            KINDS,
            key="compared",
            width=180,
            help="A is what you chose in the sidebar. B differs from it in one thing:\n\n- **another prompt**, read by "
            "the same model\n- **another model**, which reads the same prompt\n- **another head** of the same pass\n"
            "- **another mask** in the attention that you look at\n- **no edits**: the same pass without your edits\n\n"
            + explained("head", "mask"),
        )
        held("compared_head", PairOfNumbers(("compared_layer", "compared_number")))
        make = {PROMPT: _other_prompt, MODEL: _other_model, HEAD: _same, MASK: _other_mask, EDITS: _without_edits}
        return make[kind](view)


def _other_prompt(view: View) -> Sides:
    found = with_one_token_replaced(view) or ""
    typed = linked(
        st.text_input,
        "Prompt B",
        found,
        key="compared_prompt",
        max_chars=LONGEST,
        help="If this box is empty, B reads your prompt with one token replaced.",
    )
    text = typed or found
    if not text or text == st.session_state.prompt:
        raise vm.VizError("Both prompts are the same, so nothing differs. Type another prompt for B.")
    _draw_swap(prompt=text, compared_prompt=st.session_state.prompt)
    sent = view.model.chat(text) if isinstance(view.prompt, Tokens) else text
    trace = _pass(view.name, sent, view.trace.mask_name, view.part, view.target, view.edits)
    return Sides(PROMPT, view, replace(view, prompt=sent, trace=trace), "the other prompt")


def _other_model(view: View) -> Sides:
    names = [name for name in model_names() if name != view.name]
    if not names:
        raise vm.VizError("There is no other model here. Fetch one on the page Models.")
    name = linked(st.selectbox, "Model B", names, key="compared_model", width=260)
    _draw_swap(model=name, compared_model=view.name)
    model = edited_model(name, ())
    part = view.part if view.part in model.config.parts else model.config.self_part
    trace = _pass(name, view.text, model.config.mask_of(part), part, view.target if model.has_source else None)
    return Sides(MODEL, view, View(model, name, view.text, view.target, trace, 0, 0, 0, 0), model.name)


def _same(view: View) -> Sides:
    if view.trace.n_layers * view.trace.config.n_heads == 1:
        raise vm.VizError("This model has only one head, so there is no other one to compare it with.")
    return Sides(HEAD, view, view, "the same pass")


def _other_mask(view: View) -> Sides:
    names = [name for name in ("causal", "bidirectional") if name != view.trace.mask_name]
    trace = _pass(view.name, view.prompt, names[0], view.part, view.target, view.edits)
    return Sides(MASK, view, replace(view, trace=trace), f"the same pass with a {names[0]} mask")


def _without_edits(view: View) -> Sides:
    if not view.edits:
        raise vm.VizError(
            "This pass has no edits, so there is nothing to compare it with. Add an edit on the page Switch off."
        )
    trace = _pass(view.name, view.prompt, view.trace.mask_name, view.part, view.target)
    second = replace(view, model=edited_model(view.name, ()), trace=trace)
    return Sides(EDITS, view, second, "the same pass without the edits")


def _pass(name: str, prompt, mask: str, part: str, target, edits=()) -> vm.Trace:
    return traced(name, prompt, mask, part, target, edits=edits, kind="compared", can_stop=True)


def _draw_swap(**choices) -> None:
    st.button(
        "Swap A and B",
        key="swap_sides",
        icon=":material/swap_vert:",
        on_click=choose,
        kwargs=choices,
    )


def second_head(sides: Sides, closest: tuple[int, int]) -> tuple[int, int]:
    """The layer and head of B: what was chosen, within what it has; where nothing was, the closest to A's."""
    if not sides.has_own_head:
        return sides.first.layer, sides.first.head
    layer, head = chosen_value("compared_head") or closest
    trace = sides.second.trace
    return min(layer, trace.n_layers - 1), min(head, trace.config.n_heads - 1)
