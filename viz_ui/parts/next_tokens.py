"""The predictions of two passes side by side: the likeliest tokens of both, and how far they are apart."""

import pandas as pd
import streamlit as st
from torch import Tensor

from viz_model.heads.comparison import compare_next_tokens
from viz_ui.frame.view import View
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, number, plain, shown

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
            f"The logit of **{plain(pieces[-1])}** changes most, by {number(found.logit_change)}."
            if found.logit_change
            else "No logit changes."
        ),
        help=explained("KL divergence", "bit", "logit"),
    )
    difference = f"{names[1]} − {names[0]}"
    columns = [found.first.numpy(), found.second.numpy()]
    table = pd.DataFrame({"token": pieces[:-1], names[0]: columns[0], names[1]: columns[1]})
    table[difference] = columns[1] - columns[0]
    probability = {"min_value": 0.0, "max_value": 1.0, "format": "%.4g"}
    st.dataframe(
        table,
        hide_index=True,
        height=388,
        key="next_tokens",
        column_config={
            name: st.column_config.ProgressColumn(name, help=f"Probability of the token, {name}", **probability)
            for name in names
        }
        | {difference: st.column_config.NumberColumn(format="%+.4g")},
    )
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
