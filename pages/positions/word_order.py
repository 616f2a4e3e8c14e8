"""Shuffle the words: one head on the prompt as typed and in another order, under each position scheme."""

import re

import streamlit as st

import viz_model as vm
from viz_model.model.edits import Edit
from viz_model.positions.schemes import OrderChange, change_order, possible_schemes, put_back, shuffled_order
from viz_ui.components.panels import Matrix, panels
from viz_ui.components.tokens.token_order import token_order
from viz_ui.frame.address import choose, held, linked
from viz_ui.frame.forms import Text, Whole
from viz_ui.frame.view import View, choose_cell, choose_picked_cell, current_view
from viz_ui.look.text import number
from viz_ui.parts.fitting_model import NAMES, FittingPrompt, drawn, is_ours, scheme_badge, variant
from viz_ui.parts.open_matrix import Named, note_opened, open_noted_matrix, pass_words

FIRST_SEED, LARGEST_SEED = 1, 999_999
LONGEST_ORDER = 20_000  # letters, of the places of more tokens than are drawn


def draw_word_order() -> None:
    """The whole section."""
    view = current_view()
    shown = drawn(view, is_ours, "a model of this project, whose positions can be exchanged")
    if shown.note:
        st.caption(shown.note)
    scheme, order = _choose(shown)
    token_order(shown.labels, order, key="token_order", on_move=_keep_order)
    change = _changed_order(shown, scheme, order)
    st.markdown(_finding(shown, scheme, order))
    _draw_matrices(view, shown, change)


def _choose(shown: FittingPrompt) -> tuple[str, tuple[int, ...]]:
    """The scheme and the order; both are in the address."""
    seed = held("shuffle", Whole(0, LARGEST_SEED), FIRST_SEED)
    text = held("order", Text(LONGEST_ORDER), "")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        scheme = linked(
            st.segmented_control,
            "Position scheme",
            possible_schemes(shown.model.config),
            default="none",
            required=True,
            format_func=NAMES.get,
            key="scheme",
            label_visibility="collapsed",
        )
        st.button("Shuffle again", icon=":material/shuffle:", on_click=_shuffle, args=(seed + 1,))
        st.button("As typed", icon=":material/undo:", on_click=_keep_order, args=(tuple(range(len(shown.ids))),))
        st.caption(
            f"{'Your order' if text else f'Seed {seed}'}. Drag a word, or move it with Shift + arrow keys.",
            width="content",
        )
    order = read_order(text, len(shown.ids))
    if text and order is None:
        st.caption("The order in the link belongs to another prompt, so this prompt is shuffled by its seed.")
    return scheme, order or shuffled_order(len(shown.ids), seed)


def read_order(text: str | None, length: int) -> tuple[int, ...] | None:
    """An order as the address has it, "2-0-1"; None where it is not an order of so many tokens."""
    if not re.fullmatch(r"[0-9]{1,6}(-[0-9]{1,6})*", text or ""):
        return None
    order = tuple(map(int, text.split("-")))
    return order if sorted(order) == list(range(length)) else None


def _keep_order(order: tuple[int, ...]) -> None:
    choose(order="-".join(map(str, order)))


def _shuffle(seed: int) -> None:
    choose(shuffle=min(seed, LARGEST_SEED), order="")


def _changed_order(shown: FittingPrompt, scheme: str, order: tuple[int, ...]) -> OrderChange:
    return _change_order(shown.model, shown.name, shown.prompt, scheme, order, shown.edits)


@st.cache_resource(scope="session", max_entries=8, show_spinner="Running the prompt in both orders …")
def _change_order(
    _model: vm.Model, name: str, prompt: str, scheme: str, order: tuple[int, ...], edits: tuple[str, ...]
) -> OrderChange:
    model = variant(name, scheme).under_edits_of(_model)
    return change_order(model, model.encode(prompt), order)


def _finding(shown: FittingPrompt, scheme: str, order: tuple[int, ...]) -> str:
    found = []
    for name in possible_schemes(shown.model.config):
        change = _changed_order(shown, name, order).weights_change
        words = f"{'no positions' if name == 'none' else NAMES[name]} {number(change, 2)}"
        found.append(f"**{words}**" if name == scheme else words)
    return (
        f"{scheme_badge(shown.model, scheme)} How much does the new order change the weight from one token to "
        f"another? The largest change with each kind of positions: {' · '.join(found)}"
        f"{_at_its_place(shown)}"
    )


def _at_its_place(shown: FittingPrompt) -> str:
    """What the difference without positions is: rounding, or what an edit does that stays where it is."""
    if not any(is_of_a_place(edit) for edit in shown.model.edits):
        return ". The small difference for “no positions” is rounding."
    return (
        ". An edit in the list belongs to certain positions of the prompt. In the new order, other words may stand at "
        "these positions. So weights can change even without positions."
    )


def is_of_a_place(edit: Edit) -> bool:
    """Whether an edit does something else at another token."""
    return isinstance(edit, vm.SetWeight | vm.SetValues) or getattr(edit, "position", None) is not None


def _draw_matrices(view: View, shown: FittingPrompt, change: OrderChange) -> None:
    """The head on the prompt as typed and in the new order, and their difference word by word."""
    matrices = order_matrices(shown, change)
    places = {token: place for place, token in enumerate(change.order)}
    cell = shown.query, shown.key
    with st.container(horizontal=True, gap="medium"):
        for n, (matrix, selected, pick) in enumerate(
            (
                (matrices[0], cell, choose_picked_cell),
                (matrices[1], tuple(places[token] for token in cell), lambda event: _choose_moved(event, change.order)),
                (matrices[2], cell, choose_picked_cell),
            )
        ):
            with st.container(key=f"third_of_row_{n}"):
                panels(
                    [matrix],
                    key=f"order_panel_{n}",
                    selected=selected,
                    matrix_width=420,
                    on_pick=pick,
                    on_open=note_opened,
                )
    open_noted_matrix(
        view,
        {matrix.name: matrix for matrix in matrices},
        lambda: _arrays(shown, change, matrices),
        "word_order",
        names={matrix.name: _name(shown, change, matrix) for matrix in matrices},
    )


def order_matrices(shown: FittingPrompt, change: OrderChange) -> list[Matrix]:
    typed = change.typed.weights(shown.layer, shown.head)
    shuffled = change.shuffled.weights(shown.layer, shown.head)
    names, back = shown.labels, put_back(shuffled, change.order)
    largest = max(typed.max().item(), shuffled.max().item())
    moved = [names[token] for token in change.order]
    shared = {"high": largest, "rows_are_queries": True, "columns_are_keys": True}
    weights = shared | {"low": 0.0, "role": "weights", "caption": f"layer {shown.layer}, head {shown.head}, no mask"}
    return [
        Matrix("typed", "Weights, as typed", typed.numpy(), names, names, **weights),
        Matrix("shuffled", "Weights, new order", shuffled.numpy(), moved, moved, **weights),
        Matrix(
            "difference",
            "Difference, word by word",
            (back - typed).numpy(),
            names,
            names,
            caption=f"new order − as typed; largest {number((back - typed).abs().max().item(), 2)}",
            role="stream",
            scale="diverging",
            low=-largest,
            **shared,
        ),
    ]


def _choose_moved(event: dict, order: tuple[int, ...]) -> None:
    """A cell of the shuffled matrix: its row and column are places, the sidebar's numbers are tokens."""
    choose_cell(*(None if event[name] is None else order[event[name]] for name in ("query", "key")))


def _name(shown: FittingPrompt, change: OrderChange, matrix: Matrix) -> Named:
    where = f"layer{shown.layer}_head{shown.head}"
    return Named(
        f"{shown.model.name}, layer {shown.layer}, head {shown.head}: {matrix.title}",
        f"{shown.model.name}_{where}_{matrix.name}",
        pass_words(change.shuffled if matrix.name == "shuffled" else change.typed),
    )


def _arrays(shown: FittingPrompt, change: OrderChange, matrices: list[Matrix]) -> dict:
    """Everything of the section for one NPZ file."""
    return {
        "description": "weights (T,T) of one head: typed, as typed; shuffled, with token order[p] at place p; "
        "difference, shuffled with its rows and columns put back, minus typed",
        "tokens": shown.labels,
        "ids": list(shown.ids),
        "order": list(change.order),
        **{matrix.name: matrix.values for matrix in matrices},
    }
