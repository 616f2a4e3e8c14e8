"""What the chosen head does with one token: which tokens it raises and lowers, and which keys a query looks for."""

import re

import pandas as pd
import streamlit as st
from torch import Tensor

import viz_model as vm
from viz_model.circuit.circuits import Circuits
from viz_model.heads.comparison import single_token
from viz_ui.frame.address import linked
from viz_ui.frame.view import View
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain, sentence, shown

LISTED = 10
LONGEST_TOKEN = 60  # letters that the box takes


def draw_token_box(view: View) -> int | None:
    """The token that the reader chose; None where what they typed is none, which is said."""
    own = view.trace.ids[view.query]
    typed = linked(
        st.text_input,
        "Token",
        "",
        max_chars=LONGEST_TOKEN,
        key="circuit_token",
        placeholder=name_of(view, own),
        width=220,
        help="Type a text that is one token, or # and its id. Write · or a space for the space before a word. If the "
        "box is empty, it is the token of the chosen query.",
    )
    try:
        return own if not typed.strip() else token_of(view.model, typed)
    except vm.VizError as error:
        st.warning(plain(sentence(str(error))), icon=":material/edit:")
        return None


def token_of(model: vm.Model, typed: str) -> int:
    """The id of a token as it is typed: "#123", "·king", " king". Raises PromptError for what is no token."""
    if found := re.fullmatch(r"\s*#([0-9]{1,9})\s*", typed):
        return model.ids([int(found[1])])[0]
    return single_token(model, typed.replace("·", " "))


def draw_tokens(view: View, circuits: Circuits, token: int, distance: int) -> None:
    """Three lists of tokens beside each other, each with the chosen one in it where it belongs there."""
    name = plain(name_of(view, token))
    tables = st.container(horizontal=True, gap="medium")
    try:
        written = circuits.writes(view.layer, view.head, token)
    except vm.VizError as error:
        st.info(plain(sentence(str(error))), icon=":material/edit:")
    else:
        _draw_list(view, tables, written, token, f"If it reads {name}, it raises most", "raised")
        _draw_list(view, tables, -written, token, f"If it reads {name}, it lowers most", "lowered", sign=-1)
        st.markdown(
            f"When the head reads **{name}**, it changes the logits of all {len(written):,} tokens. In the order from "
            f"the most raised to the most lowered one, **{name}** itself has rank **{rank(written, token):,}**.",
            help=explained("OV circuit", "logit"),
        )
    try:
        scores = circuits.looks_for(view.layer, view.head, token, distance)
    except vm.VizError as error:
        st.info(plain(sentence(str(error))), icon=":material/edit:")
        return
    _draw_list(view, tables, scores, token, f"A query of {name} looks most for", "looked_for")
    st.markdown(
        f"The query of **{name}** looks most for the key of **{plain(name_of(view, int(scores.argmax())))}**. "
        f"The key of **{name}** itself has rank **{rank(scores, token):,}** of {len(scores):,}.",
        help=explained("QK circuit", "query", "key"),
    )
    st.caption(
        "Queries, keys and values are made from the embedding of one token alone. Each number is the difference from "
        "the mean over all tokens. What norms divide by is left out, and so are all biases, so compare the numbers of "
        "one list with each other, not with logits or scores of a pass."
    )


def rank(numbers: Tensor, token: int) -> int:
    """1 for the largest."""
    return 1 + int((numbers > numbers[token]).sum())


def name_of(view: View, token: int) -> str:
    return shown(view.model.token_bytes([token])[0]) or "∅"


def _draw_list(view: View, place, numbers: Tensor, token: int, title: str, key: str, *, sign: int = 1) -> None:
    """The tokens with the largest numbers; sign: what these are multiplied with before they are written."""
    top = numbers.topk(min(LISTED, len(numbers)))
    pieces = [shown(piece) or "∅" for piece in view.model.token_bytes(top.indices.tolist())]
    marked = [
        f"{piece} ← itself" if other == token else piece
        for piece, other in zip(pieces, top.indices.tolist(), strict=True)
    ]
    with place.container(key=f"third_of_row_{key}"):
        st.markdown(f"**{title}**")
        st.dataframe(
            pd.DataFrame({"token": marked, "number": [number(sign * value) for value in top.values.tolist()]}),
            hide_index=True,
            height=38 + 35 * len(pieces),
            key=f"circuit_{key}",
        )
