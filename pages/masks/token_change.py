"""Change one token, run both masks again, and see which places of the stream and which weights changed."""

from dataclasses import replace

import numpy as np
import streamlit as st

import viz_model as vm
from pages.masks.sides import SIDES, Side, chosen_side, masked_trace, masked_traces, own_pass
from viz_model.heads.comparison import ROUNDING, likely_tokens, predicts, single_token, stream_change, with_token
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.address import choose, linked
from viz_ui.frame.view import View, choose_picked_cell
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain, sentence, shown
from viz_ui.parts.open_matrix import Named, named, note_opened, of_head, open_noted_matrix, pass_words

SUGGESTIONS = 12

TYPED = {"·": " ", "⏎": "\n", "⇥": "\t"}  # as labels show them, so that they can be typed as they are seen


def draw_token_change(view: View) -> None:
    """The whole section: which token, which replacement, what changed under A and under B."""
    st.subheader("Change a token")
    st.markdown(
        "**Does the past depend on the future?** Replace one token, and the model runs again under both masks. A dot "
        "marks a cell that the replacement did not change at all.",
        help=explained("residual stream", "embedding"),
    )
    position, ids = _choose(view)
    if ids is None:
        return
    label, new = view.labels[position], shown(view.model.token_bytes([ids[position]])[0])
    st.markdown(f"With **{plain(new)}** in place of **{plain(label)}**:")
    sides = [chosen_side(view, name) for name in SIDES]
    masked_traces(view, sides, ids, can_stop=True)
    matrices: list[Matrix] = []
    for side, place in zip(sides, st.columns(2, gap="medium"), strict=True):
        before, after = masked_trace(view, side), masked_trace(view, side, ids)
        change = stream_change(before, after).numpy()
        with place:
            st.markdown(_finding(side, change, position))
        matrices += [_stream(view, side, change, position), _weights(view, side, before, after)]
    shared = {"sequential": max(m.values.max() for m in matrices if m.scale == "sequential") or 1.0}
    shared["diverging"] = max(np.abs(m.values).max() for m in matrices if m.scale == "diverging") or 1.0
    matrices = [_on_scale(matrix, shared[matrix.scale]) for matrix in matrices]
    panels(
        [matrices[0], matrices[2], matrices[1], matrices[3]],
        key="change_panels",
        selected=(view.query, view.key),
        matrix_width=460,
        on_pick=choose_picked_cell,
        on_open=note_opened,
    )
    open_noted_matrix(
        view,
        {matrix.name: matrix for matrix in matrices},
        lambda: (
            {"tokens": view.labels, "ids": list(view.trace.ids), "changed_ids": list(ids)}
            | {matrix.name.replace(" ", "_"): matrix.values for matrix in matrices}
        ),
        "token_change",
        names=_names(view, sides, matrices, f"Position {position} then has {new}"),
    )
    st.caption(
        "The change of the residual stream at a token is ‖x′ − x‖ / ‖x‖. Here x is the token's vector before the "
        "replacement and x′ its vector after the replacement; the change is computed in float64. The pictures of masks "
        "A and B have the same colour scale." + _way_between_tokens(view)
    )


def _names(view: View, sides: list[Side], matrices: list[Matrix], replaced: str) -> dict[str, Named]:
    """What the matrices are called where they are opened large; the stream is of no head."""
    of = {side.name: f"{pass_words(view.trace, side.choice.words)}. {replaced}" for side in sides}
    return {
        m.name: named(view, m.title, m.name, of=of[m.name[-1]])
        if m.name.startswith("stream")
        else of_head(view, m.name, of[m.name[-1]])
        for m in matrices
    }


def _way_between_tokens(view: View) -> str:
    """Why both masks of cross-attention may leave the past as it was: no token of the target is read through them."""
    if view.trace.part != "cross":
        return ""
    mask = view.model.config.mask_of("decoder")
    return (
        " In cross-attention, masks A and B decide which tokens of the source are read. The tokens of the target read "
        f"one another in the decoder's self-attention, where the mask is {plain(mask)} in both passes."
    )


def _choose(view: View) -> tuple[int, tuple[int, ...] | None]:
    """The position, and the ids with the new token there. Says why and gives None where there is no such token."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = linked(
            st.number_input,
            f"Position (0–{view.trace.length - 1})",
            0,
            view.trace.length - 1,
            value=None,
            step=1,
            key="changed",
            placeholder=str(view.trace.length // 2),
            width=170,
        )
        position = view.trace.length // 2 if chosen is None else chosen
        own = own_pass(view)  # whatever the sidebar's mask is
        likely = likely_tokens(own, position, SUGGESTIONS, view.model.signs)
        names = [shown(piece) for piece in view.model.token_bytes(likely)] or [""]
        typed = linked(
            st.text_input,
            "New token",
            key="replacement",
            max_chars=100,
            placeholder=names[0],
            width=220,
            help="Type one token. Most words begin with a space. Type the space as ·, as it stands in the labels.",
        )
        st.menu_button(
            "Likely tokens" if predicts(own) else "Tokens of this text",
            names,
            key="likely",
            format_func=plain,
            on_click=lambda: choose(replacement=st.session_state.likely),
            icon=":material/list:",
        )
    try:
        given = typed.translate(str.maketrans(TYPED))
        token = likely[0] if likely and not given else single_token(view.model, given)
    except vm.PromptError as error:
        st.info(plain(sentence(str(error))), icon=":material/edit:")
        return position, None
    if token == view.trace.ids[position]:
        st.info(f"The token there is already {plain(shown(view.trace.token_bytes[position]))}. Type another token.")
        return position, None
    return position, with_token(view.trace.ids, position, token)


def _finding(side: Side, change: np.ndarray, position: int) -> str:
    """What happened before the changed position, in words, with the measured number."""
    head = f"**Mask {side.name}, {side.choice.words}.** "
    if position == 0:
        return head + "No token stands before position 0. Change a later token."
    before = change[:, :position]
    if not before.any():
        return head + f"Nothing before position {position} changed: the largest difference there is **exactly 0**."
    if before.max() < ROUNDING:
        return head + (
            f"Before position {position}, only rounding changed the vectors, by at most **{number(before.max())}** of "
            "their length. The model multiplies several tokens in one matrix product. With another token in the text, "
            "it may add the same numbers in another order."
        )
    layer, place = np.unravel_index(before.argmax(), before.shape)
    touched = int(before.any(0).sum())
    share = f"All {position}" if touched == position else f"{touched} of the {position}"
    places = "**Position 0**" if position == 1 else f"**{share}** positions before position {position}"
    return head + (
        f"{places} changed. The residual stream changed most at position {place}, after {'the ' if layer == 0 else ''}"
        f"{_places(change)[layer]}: by **{number(100 * before.max(), 3)} %** of the length of its vector."
    )


def _places(change: np.ndarray) -> list[str]:
    """Short names for the rows of `stream_change`: the step after which the stream is taken."""
    return ["embedding", *(f"layer {layer}" for layer in range(len(change) - 1))]


def _stream(view: View, side: Side, change: np.ndarray, position: int) -> Matrix:
    return Matrix(
        f"stream {side.name}",
        f"Change of the residual stream, mask {side.name}",
        change,
        _places(change),
        view.labels,
        row_axis="after",
        column_axis="position",
        caption=f"(L + 1, T) = {change.shape}: the embedding and L layers, token {position} replaced",
        role="stream",
        low=0.0,
        mark_zeros=True,
        columns_are_keys=True,
    )


def _weights(view: View, side: Side, before: vm.Trace, after: vm.Trace) -> Matrix:
    return Matrix(
        f"change {side.name}",
        f"Change of the weights, mask {side.name}",
        (after.weights(view.layer, view.head) - before.weights(view.layer, view.head)).numpy(),
        view.labels,
        view.key_labels,
        caption=f"{view.where}: new − old",
        role="weights",
        scale="diverging",
        allowed=side.allowed.numpy(),
        mark_zeros=True,
        rows_are_queries=True,
        columns_are_keys=True,
    )


def _on_scale(matrix: Matrix, largest: float) -> Matrix:
    return replace(matrix, low=-float(largest) if matrix.scale == "diverging" else 0.0, high=float(largest))
