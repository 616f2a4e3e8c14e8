"""The two masks that the page Masks compares: their controls, what was chosen, and the pass under each."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st
from torch import Tensor

import viz_model as vm
from viz_model.masking.choice import (
    KINDS,
    MaskChoice,
    blind_queries,
    opened_and_closed,
    parse_positions,
    position_words,
)
from viz_model.masking.drawn_mask import drawn_shape, encode_mask
from viz_model.model.edits import Edit
from viz_model.transformer import masks
from viz_ui.frame.address import choose, chosen_value, linked
from viz_ui.frame.edits import fitting_pass, left_out_words
from viz_ui.frame.passes import kept_passes
from viz_ui.frame.view import View, edited_model, traced
from viz_ui.look.text import counted, plain

SIDES = ("A", "B")

WIDEST = 4096  # a window or a prefix may be longer than the prompt

EXPLAINED = {
    "causal": "Each query reads itself and the tokens before it.",
    "bidirectional": "Each query reads every token.",
    "sliding window": "Each query reads itself and the nearest tokens. A cell that is closed in the training mask "
    "stays closed.",
    "prefix": "The prefix is the first n tokens, and every query reads the whole prefix. After the prefix, a query "
    "also reads itself and the tokens before it.",
    "padding": "Padding is filler that makes texts equally long. No query reads the padded positions, but the padded "
    "positions still read other tokens.",
    "drawn by hand": "Open and close cells below.",
}

# Between two texts, where positions have no distance.
IN_CROSS = {
    "causal": "The query at position i reads the keys at positions 0 to i.",
    "bidirectional": EXPLAINED["bidirectional"],
    "padding": EXPLAINED["padding"],
    "drawn by hand": EXPLAINED["drawn by hand"],
}


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two masks: its name (A or B), the choice, booleans (T,S), and why a part of the choice is not used."""

    name: str
    choice: MaskChoice
    allowed: Tensor
    problem: str


def draw_controls(view: View, name: str) -> None:
    """The kind of mask and what belongs to it, all of it in the address."""
    side, kinds = name.lower(), _kinds(view)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = linked(
            st.selectbox,
            f"Mask {name}",
            kinds,
            index=SIDES.index(name),  # A begins with the model's own mask, B with the other one
            key=f"mask_{side}",
            help="This mask is used on this page only. All other pages use the mask in the sidebar.\n"
            + "\n".join(f"- **{kind}**: {words}" for kind, words in _explained(view).items()),
        )
        if kind == "sliding window":
            linked(
                st.number_input,
                "Width in tokens",
                1,
                WIDEST,
                3,
                key=f"width_{side}",
                help="The query itself is one of them.",
                width=170,
            )
        elif kind == "prefix":
            linked(st.number_input, "Prefix in tokens", 0, WIDEST, 3, key=f"prefix_{side}", width=170)
        elif kind == "padding":
            linked(
                st.text_input,
                "Padded positions",
                "0",
                max_chars=200,
                key=f"padding_{side}",
                placeholder="0-2, 5",
                width=170,
            )
        elif kind == "drawn by hand":
            text = "This text stands for the mask that you draw. Paste the text of another mask to use that mask."
            linked(
                st.text_input, "The mask as text", key=f"cells_{side}", placeholder="draw below", help=text, width=170
            )


def chosen_side(view: View, name: str) -> Side:
    """What is chosen for A or B. A choice that makes no sense is not used, and `problem` says why."""
    side, kinds = name.lower(), _kinds(view)
    keys, kind = view.trace.key_length, chosen_value(f"mask_{side}")
    kind = kind if kind in kinds else kinds[SIDES.index(name)]
    try:
        choice = MaskChoice(
            kind,
            width=chosen_value(f"width_{side}") or 3 if kind == "sliding window" else 1,
            length=_or(chosen_value(f"prefix_{side}"), 3) if kind == "prefix" else 0,
            padded=parse_positions(_or(chosen_value(f"padding_{side}"), "0"), keys) if kind == "padding" else (),
            cells=(chosen_value(f"cells_{side}") or "").strip() if kind == "drawn by hand" else "",
        )
        allowed = own_cells(view) if kind == view.own_mask else choice.allowed(own_cells(view))
        return Side(name, choice, allowed, "")
    except vm.MaskError as error:
        choice = MaskChoice(kind)  # no padding, nothing drawn
        return Side(name, choice, choice.allowed(own_cells(view)), str(error))


def own_pass(view: View) -> vm.Trace:
    """The pass under the model's own mask, without edits: it may forbid a cell that an edit is of."""
    if not view.edits:
        return view.under(view.own_mask)
    target = view.trace.read.ids if view.model.has_source else None  # what the edited model writes
    return traced(view.name, view.prompt, view.own_mask, view.part, target, edits=())


def own_cells(view: View) -> Tensor:
    """The model's own mask in the chosen layer, as the pass has it; some layers have a window."""
    return own_pass(view).mask(view.layer)


def fitting_edits(view: View, side: Side) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    """The edits that can be made under this mask, and why others cannot: only one of a cell depends on the mask."""
    if not any(isinstance(edit, vm.SetWeight) for edit in view.edits):
        return view.edits, ()
    own = own_pass(view)
    if side.choice.kind == view.own_mask:
        return fitting_pass(view.edits, own)
    masks_ = {
        f"{own.config.attention_name(own.part, layer)}.mask": side.choice.allowed(own.mask(layer))
        for layer in range(own.n_layers)
    }
    return fitting_pass(view.edits, replace(own, tensors=own.tensors | masks_))


def keep_drawing(name: str) -> Callable[[np.ndarray], None]:
    """Callback of `mask_editor(on_draw=…)` for A or B."""
    return lambda allowed: choose(**{f"cells_{name.lower()}": encode_mask(allowed)})


def draw_words(view: View, side: Side) -> None:
    """What the mask is to this model: its own or not, how many cells are open, which queries may read nothing."""
    cells = own_cells(view)
    opened, closed = opened_and_closed(side.allowed, cells)
    count = f"{side.allowed.sum():,} of {side.allowed.numel():,} cells are open"
    own = f"the {view.own_mask} mask that {plain(view.model.name)} was trained with"
    if (reach := masks.window_in(cells, view.own_mask)) is not None:
        own += f" (in layer {view.layer} with a window of {reach:,} tokens)"
    if opened or closed:
        changes = " and ".join(
            f"{words} **{n:,}** cell{'s' * (n != 1)}" for n, words in ((opened, "opens"), (closed, "closes")) if n
        )
        st.markdown(f":orange-badge[not the training mask] {count}. Compared with {own}, mask {side.name} {changes}.")
    else:
        same = "This is" if side.choice.kind == view.own_mask else "The open cells are the same as in"
        st.markdown(f":green-badge[training mask] {count}. {same} {own}.")
    for sentence in _notes(view, side):
        st.markdown(f":orange[{plain(sentence)}]")
    for words in fitting_edits(view, side)[1]:
        st.markdown(left_out_words(words, f" under mask {side.name}"))


def _notes(view: View, side: Side) -> list[str]:
    """Sentences that a reader needs about this mask."""
    notes = []
    if side.problem:
        instead = "No position is padded." if side.choice.kind == "padding" else "The model's own mask is used instead."
        notes.append(f"{side.problem} {instead}")
    here = view.trace.length, view.trace.key_length
    if side.choice.cells and (drawn := drawn_shape(side.choice.cells)) != here:
        has_more = here[0] > drawn[0] or here[1] > drawn[1]
        notes.append(
            f"This mask was drawn for {_tokens_words(*drawn)}, but here there are {_tokens_words(*here)}. The cells "
            "that fit are kept" + ("; all other cells follow the model's own mask." if has_more else ".")
        )
    if blind := blind_queries(side.allowed):
        one = len(blind) == 1
        which = f"Query {view.labels[blind[0]]}" if one else f"Queries {position_words(blind)}"
        notes.append(
            f"{which} may read no token. The weights of {'this query' if one else 'these queries'} are all 0, so "
            f"attention gives {'it' if one else 'them'} nothing."
        )
    return notes


def masked_trace(view: View, side: Side, ids: tuple[int, ...] | None = None) -> vm.Trace:
    """The pass under that mask over the same texts. ids: read in place of the queries' tokens, as many as these."""
    return masked_traces(view, [side], ids)[0]


def masked_traces(
    view: View, sides: Sequence[Side], ids: tuple[int, ...] | None = None, *, can_stop: bool = False
) -> list[vm.Trace]:
    """The passes under all these masks, see `masked_trace`. can_stop: see `passes.kept_pass`."""
    passes, kind = dict(_pass(view, side, ids) for side in sides), "masked" if ids is None else "changed"
    return kept_passes(kind, passes, view.model, view.trace.read.ids, most=len(SIDES), can_stop=can_stop)


def _pass(view: View, side: Side, ids: tuple[int, ...] | None) -> tuple[Hashable, Callable[[], vm.Trace]]:
    """What a pass is of, and the pass."""
    read, source = view.trace.read.ids, view.trace.source.ids if view.trace.source else None
    if ids and view.part == "encoder":
        source = ids
    elif ids:
        read = ids
    sites = f"{view.model.config.attention_name(view.part, '*')}.mask"
    masked = {} if side.choice.kind == view.own_mask else {sites: _as_edit(side.choice)}
    edits, _ = fitting_edits(view, side)
    prompt, target = (read, None) if source is None else (source, read)

    def work() -> vm.Trace:
        model = view.model if edits == view.edits else edited_model(view.name, edits, kind="masked model")
        with vm.edit(masked):
            return model.trace(prompt, target=target).of(view.part).renamed(side.choice.words)

    return (view.name, read, source, view.part, side.choice, edits), work


def _as_edit(choice: MaskChoice) -> Callable[[Tensor], Tensor]:
    """A function from a layer's own mask, which may have a window, to the chosen mask; both are (…,T,S)."""
    return lambda own: choice.allowed(own[(0,) * (own.ndim - 2)]).expand_as(own)


def _explained(view: View) -> dict[str, str]:
    """The kinds of masks that there are for this part, in words."""
    return IN_CROSS if view.part == "cross" else EXPLAINED


def _kinds(view: View) -> list[str]:
    """The model's own mask first."""
    return sorted((kind for kind in KINDS if kind in _explained(view)), key=lambda kind: kind != view.own_mask)


def _tokens_words(queries: int, keys: int) -> str:
    if queries == keys:
        return counted(queries, "token")
    return f"{counted(queries, 'query', 'queries')} and {counted(keys, 'key')}"


def _or(value, default):
    return default if value is None else value
