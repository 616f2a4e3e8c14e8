"""Why a cell has its score: the terms that the parts of the query's and of the key's stream make with each other."""

import numpy as np
import streamlit as st

from viz_model.attribution.components import HEAD, Component
from viz_model.attribution.scores import ScoreTerms
from viz_model.errors import VizError
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.address import choose, linked
from viz_ui.frame.view import View
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain
from viz_ui.parts.open_matrix import named, note_opened, open_noted_matrix, pass_words
from viz_ui.parts.term_bars import draw_terms, largest

ROW, ALONE, KEY = "the mean of its row", "nothing", "another key"
MOST_PAIRED = 10  # components on a side of the matrix of pairs


def draw_why_here(view: View) -> None:
    """The section below a clicked cell."""
    st.subheader(f"Why does query {view.query} give key {view.key} this score?")
    try:
        terms = view.trace.score_terms(view.layer, view.head, view.query, view.key, _compared(view))
    except VizError as error:
        st.info(str(error))
        return
    _say_what_it_is_made_of(view, terms)
    reach = float(max(terms.of_query.abs().max(), terms.of_key.abs().max())) or 1.0
    for place, side in zip(st.columns(2), ("key", "query"), strict=True):
        with place:
            _draw_side(view, terms, side, reach)
    _draw_sum(terms)
    if linked(st.toggle, "Show the terms pair by pair", key="pairs"):
        _draw_pairs(view, terms)


def _compared(view: View) -> int | str | None:
    """What the score is compared with, as the reader chose it."""
    place, box = st.columns([3, 1])
    with place:
        than = linked(
            st.segmented_control,
            "Compare the score with",
            [ROW, ALONE, KEY],
            default=ROW,
            key="than",
            required=True,
            help="Softmax looks only at differences within a row: a number added to every score of the row changes no "
            "weight. So it is the difference from the mean of the row that moves the weight.",
        )
    if than != KEY:
        return "row" if than == ROW else None
    with box:
        other = 0 if view.key else min(1, view.trace.key_length - 1)
        return linked(st.number_input, "The other key", 0, view.trace.key_length - 1, other, key="than_key")


def _say_what_it_is_made_of(view: View, terms: ScoreTerms) -> None:
    """The answer in a sentence."""
    side = "above" if terms.score >= 0 else "below"
    against = {None: "", "row": f" {side} the mean of the scores that the query may read"}.get(
        terms.than, f" {side} the score of key {terms.than}"
    )
    score = terms.score if terms.than is None else abs(terms.score)
    if not view.trace.mask(view.layer)[view.query, view.key]:
        st.markdown(
            f"The mask closes this cell: query {view.query} may not read key {view.key}, so the weight is 0 whatever "
            "the score is."
        )
    of_key, of_query = int(terms.of_key.argmax()), int(terms.of_query.argmax())
    st.markdown(
        f"The score is **{number(score)}**{against}. "
        "One can split this number into one part for each component of the key. The largest part is that of "
        f"**{terms.names_key[of_key]}**: {number(float(terms.of_key[of_key]))}. If it is split by the components of "
        "the query instead, the largest part is that of "
        f"**{terms.names_query[of_query]}**: {number(float(terms.of_query[of_query]))}. "
        "Other parts can be negative.",
        help=explained("score", "component", "residual stream", "embedding", "feed-forward"),
    )


def _draw_side(view: View, terms: ScoreTerms, side: str, reach: float) -> None:
    components = terms.key_components if side == "key" else terms.query_components
    names = terms.names_key if side == "key" else terms.names_query
    numbers = (terms.of_key if side == "key" else terms.of_query).numpy()
    label = plain((view.key_labels[view.key] if side == "key" else view.labels[view.query]).strip())
    token = view.key_labels[view.key] if side == "key" else view.labels[view.query]
    bars = largest(names, numbers)
    draw_terms(
        bars,
        key=f"why_{side}",
        title=f"The {side}'s side: token {token}",
        reach=reach,
        on_pick=lambda at: _open(view, components[at], side),
    )
    heads = [at for at in np.argsort(-numbers) if components[at].kind == HEAD]
    if heads and numbers[heads[0]] > 0:
        best = components[heads[0]]
        st.button(
            f"Open {best.name} where it reads for token {label}",
            key=f"why_open_{side}",
            on_click=_open,
            args=(view, best, side),
            help="Of all heads, this one wrote the component that adds most to this score. Its own "
            "weights show which tokens it took that from.",
        )


def _open(view: View, component: Component, side: str) -> None:
    """Look at the head that wrote a component, at the token where it wrote it."""
    if component.kind != HEAD:
        return
    place = view.key if side == "key" else view.query
    row = view.trace.of(component.part).weights(component.layer, component.head)[place]
    part = {"part": component.part} if component.part != view.part else {}
    choose(head=(component.layer, component.head), cell=(place, int(row.argmax())), **part)


def _draw_sum(terms: ScoreTerms) -> None:
    st.markdown(
        f"Sum of all {terms.terms.shape[0]} × {terms.terms.shape[1]} terms: **{number(terms.terms.sum().item())}**. "
        f"The score in the matrix above, compared with the same number: **{number(terms.score)}**. "
        f"Remainder: **{number(terms.remainder)}**."
        + (f" The model then adds a bias of {number(terms.bias)}, which is no part of the sum." if terms.bias else "")
    )
    st.caption(
        "The sum is exact for this pass, with its norms frozen. It says what the score is made of. It does not say "
        "what would happen without a component. "
        "Elhage et al. 2021, “A Mathematical Framework for Transformer Circuits”.",
        help=explained("frozen norm", "norm"),
    )


def _draw_pairs(view: View, terms: ScoreTerms) -> None:
    """The strongest components of both sides, pair by pair, and the rest of each side summed."""
    rows, columns = (
        largest(names, numbers.abs().numpy(), MOST_PAIRED)
        for names, numbers in (
            (terms.names_query, terms.terms.abs().sum(1)),
            (terms.names_key, terms.terms.abs().sum(0)),
        )
    )
    values = np.array(
        [[terms.terms[list(row)][:, list(column)].sum().item() for column in columns.places] for row in rows.places]
    )
    pairs = Matrix(
        "pairs",
        "Terms of the score",
        values,
        rows.names,
        columns.names,
        row_axis="the query's side",
        column_axis="the key's side",
        caption=f"All cells add up to {number(values.sum())}.",
        role="scores",
        scale="diverging",
    )
    panels([pairs], key="why_pairs", matrix_width=560, on_open=note_opened)
    names = {"pairs": named(view, "terms of the score", "score_terms", view.where, of=pass_words(view.trace))}
    open_noted_matrix(view, {"pairs": pairs}, names=names)
