"""Heads × tokens: how much of what a head adds to a logit it took from which token."""

from dataclasses import dataclass

import numpy as np
import streamlit as st

import viz_model as vm
from viz_model.attribution.logits import LogitTerms
from viz_model.attribution.sources import LogitSources
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.address import choose
from viz_ui.frame.view import View
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain, sentence
from viz_ui.parts.open_matrix import named, note_opened, open_noted_matrix, pass_words

MOST_HEADS = 12
MOST_COLUMNS = 24
ROUNDING = 1e-4  # of the largest share
NO_TOKEN = "no token"


@dataclass(frozen=True, eq=False)
class Strongest:
    """The strongest rows and columns of a matrix in their places; what is left of each axis is summed in one more."""

    values: np.ndarray
    rows: tuple[int, ...]
    columns: tuple[int, ...]


def strongest(terms: np.ndarray) -> Strongest:
    """terms (A,S): the heads in the order of their size, the tokens in the order of the text."""
    by_size = np.argsort(-np.abs(terms.sum(1)), kind="stable")
    rows = by_size if len(by_size) <= MOST_HEADS else by_size[: MOST_HEADS - 1]
    places = np.argsort(-np.abs(terms[rows]).sum(0), kind="stable")
    columns = np.sort(places if len(places) <= MOST_COLUMNS else places[: MOST_COLUMNS - 1])
    values = terms[np.ix_(rows, columns)]
    if len(columns) < terms.shape[1]:
        values = np.column_stack((values, terms[rows].sum(1) - values.sum(1)))
    if len(rows) < len(terms):
        rest = np.delete(terms, rows, axis=0).sum(0)
        last = rest[columns]
        values = np.vstack((values, np.append(last, rest.sum() - last.sum())[: values.shape[1]]))
    return Strongest(values, tuple(map(int, rows)), tuple(map(int, columns)))


def draw_sources(view: View, terms: LogitTerms, token: int) -> None:
    st.subheader("Which tokens the terms of the heads come from")
    try:
        found = view.trace.logit_sources(token, view.query, terms.than)
    except vm.VizError as error:
        st.info(plain(sentence(str(error))), icon=":material/edit:")
        return
    draw_answer(view, found)
    draw_matrix(view, found)
    draw_chosen(view, found)
    st.caption(
        "Each row splits what one head adds among the tokens that the head read. A cell is weight · V · W\\_O, "
        "put through the frozen final norm and the unembedding. The split is exact. The bias of the value vectors is "
        "part of each token's share. The bias after W\\_O belongs to no head: it is among the biases above."
        f"{sink_words(view)}{no_token_words(found)} Kobayashi et al. 2020, “Attention is Not Only a Weight”, §2.2.",
        help=explained("value", "attention weight", "frozen norm"),
    )


def draw_answer(view: View, found: LogitSources) -> None:
    """The largest cell in a sentence."""
    shares = found.terms.numpy()
    head, key = (int(at) for at in np.unravel_index(np.abs(shares).argmax(), shares.shape))
    does = "raises" if shares[head, key] >= 0 else "lowers"
    what = {None: "the logit", "mean": "the logit, relative to the mean of all logits,"}
    what = what.get(found.than, "the difference of the two logits")
    st.markdown(
        f"The largest share is that of **{found.names[head]}**: what it read at token "
        f"**{plain(view.key_labels[key])}** {does} {what} by **{number(abs(float(shares[head, key])))}**. "
        "Click a cell to choose its head and its token."
    )


def draw_matrix(view: View, found: LogitSources) -> None:
    """Heads × tokens; a column of its own for what is of no token, where an edit of the pass makes that more than
    rounding."""
    shares, labels = found.terms.numpy(), list(view.key_labels)
    if has_no_token(found):
        shares, labels = np.column_stack((shares, found.of_no_token.numpy())), [*labels, NO_TOKEN]
    cut = strongest(shares)
    heads, tokens = shares.shape
    rows = ["{}.{}: {}".format(*place(found, at), number(float(shares[at].sum()), 3)) for at in cut.rows]
    columns = [labels[at] for at in cut.columns]
    if len(rows) < heads:
        rows.append(f"other {heads - len(rows)}: {number(float(cut.values[-1].sum()), 3)}")
    if len(columns) < tokens:
        columns.append(f"other {tokens - len(columns)}")
    axis = "layer.head: sum"
    matrix = Matrix(
        "sources",
        "What each head took from each token",
        cut.values,
        rows,
        columns,
        row_axis=axis,
        column_axis="token",
        role="scores",
        scale="diverging",
        caption=f"All cells add up to {number(float(shares.sum()))}, which is what these heads add together.",
    )
    at_head = next((row for row, at in enumerate(cut.rows) if place(found, at) == (view.layer, view.head)), None)
    panels(
        [matrix],
        key="sources_panels",
        marked={axis: at_head, "token": cut.columns.index(view.key) if view.key in cut.columns else None},
        matrix_width=1100,
        feature_width=1000,
        on_pick=lambda event: take_cell(view, found, cut, event),
        on_open=note_opened,
    )
    names = {"sources": named(view, "what each head took from each token", "logit_sources", of=pass_words(view.trace))}
    open_noted_matrix(view, {"sources": matrix}, names=names)


def take_cell(view: View, found: LogitSources, cut: Strongest, event: dict) -> None:
    """The head and the token of a clicked cell; a row or a column of what is left chooses nothing."""
    row, column = event["row"], event["column"]
    choices = {}
    if row is not None and row < len(cut.rows):
        choices["head"] = place(found, cut.rows[row])
    if column is not None and column < len(cut.columns) and cut.columns[column] < view.trace.key_length:
        choices["cell"] = view.query, cut.columns[column]
    choose(**choices)


def draw_chosen(view: View, found: LogitSources) -> None:
    """The cell of the chosen head and key."""
    places = [place(found, at) for at in range(len(found.components))]
    if (view.layer, view.head) not in places:
        return
    at = places.index((view.layer, view.head))
    share, whole = float(found.terms[at, view.key]), float(found.of_heads[at])
    weight = float(view.trace.weights_of(view.layer, [view.query])[view.head, 0, view.key])
    st.markdown(
        f"**{found.names[at].capitalize()}** gives token **{plain(view.key_labels[view.key])}** the weight "
        f"**{number(weight)}**. The head adds {number(whole)} in all, and **{number(share)}** of this comes from that "
        "token."
    )
    st.page_link("../../pages/heads/page.py", label="See this head and this cell on Heads", icon=":material/grid_on:")


def sink_words(view: View) -> str:
    """That a part of the weight is on no token, where a model has sinks."""
    if view.trace.sink(0, 0) is None:
        return ""
    return " A part of each head's weight is on its sink, which carries no value and adds nothing."


def has_no_token(found: LogitSources) -> bool:
    """Whether more than rounding is of no token."""
    return bool(found.of_no_token.abs().max() > ROUNDING * found.terms.abs().max())


def no_token_words(found: LogitSources) -> str:
    if not has_no_token(found):
        return ""
    return (
        " An edit put other values in the place of the mixed values of a head. What they add comes from no token of "
        f"the text and is counted as “{NO_TOKEN}”."
    )


def place(found: LogitSources, at: int) -> tuple[int, int]:
    """The layer and the head of a row."""
    component = found.components[at]
    return component.layer, component.head
