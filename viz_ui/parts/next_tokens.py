"""The predictions of two passes side by side: the likeliest tokens of both, and how far they are apart."""

import streamlit as st
from torch import Tensor

from viz_model.heads.comparison import compare_next_tokens
from viz_ui.frame.view import View
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, number, plain, shown
from viz_ui.parts.token_table import draw_token_table

SHOWN = 10  # of the likeliest tokens of each pass


def draw_next_tokens(view: View, first: Tensor, second: Tensor, names: tuple[str, str], place: str) -> None:
    """A table of the likeliest tokens of two passes, from their logits (V,), and what differs most.

    names: of the two passes; place: where the prediction is made, as Markdown.
    """
    found = compare_next_tokens(first, second, SHOWN)
    pieces = [shown(piece) for piece in view.model.token_bytes([*found.ids, found.logit_change_id])]
    st.markdown(
        f"{place}, the two predictions are KL({names[0]}‖{names[1]}) = **{number(found.divergence)} bits** apart. "
        + (
            f"The logit of “**{plain(pieces[-1])}**” changes most, by {number(found.logit_change)}."
            if found.logit_change
            else "No logit changes."
        ),
        help=explained("KL divergence", "bit", "logit"),
    )
    difference = f"{names[1]} − {names[0]}"
    shares = {names[0]: found.first.numpy(), names[1]: found.second.numpy()}
    change = {difference: shares[names[1]] - shares[names[0]]}
    draw_token_table(pieces[:-1], shares, key="next_tokens", changes=change)
    listed = min(SHOWN, len(first))
    shared = 2 * listed - len(found.ids)
    if shared == listed:
        together = "Both lists have the same tokens."
    else:
        both = f", because {shared} {'is' if shared == 1 else 'are'} in both lists" * bool(shared)
        together = f"Together these are {counted(len(found.ids), 'token')}{both}."
    st.caption(
        f"The table has the {listed} likeliest tokens of “{names[0]}” and the {listed} likeliest of “{names[1]}”. "
        f"{together} The vocabulary has {len(first):,} tokens."
    )
