"""Why a cell has its score: the terms that the parts of the query's and of the key's stream make with each other."""

import numpy as np
import streamlit as st

from viz_model.attribution.components import HEAD, Component
from viz_model.attribution.scores import ScoreTerms
from viz_model.errors import VizError
from viz_model.heads.measures import telling_cell
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.address import choose, held, linked
from viz_ui.frame.forms import Whole
from viz_ui.frame.jobs import Stopped, kept_result
from viz_ui.frame.passes import is_small
from viz_ui.frame.view import View, choose_cell
from viz_ui.look.glossary import explained
from viz_ui.look.text import labels, number, plain
from viz_ui.parts.open_matrix import named, note_opened, open_noted_matrix, pass_words
from viz_ui.parts.term_bars import draw_terms, largest, look_at_writer

ROW, ALONE, KEY = "the mean of its row", "nothing", "another key"
MOST_PAIRED = 10  # components on a side of the matrix of pairs
LONG = 256  # tokens, from which on the terms of a small model, too, may take a second
SWITCH_OFF = "../../pages/switch_off/page.py"


def draw_why_here(view: View) -> None:
    """Below a clicked cell: its score as a sum, and which heads wrote what it is made of."""
    than = _compared(view)
    try:
        terms = kept_result(
            lambda tell: view.trace.score_terms(view.layer, view.head, view.query, view.key, than, tell=tell),
            words="Reading what each component of the keys adds",
            name="why_here",
            of=(*view.pass_key, view.part, view.layer, view.head, view.query, view.key, than),
            at_once=is_small(view.model) and view.trace.key_length < LONG,
        )
    except Stopped:
        return
    except VizError as error:
        st.info(plain(str(error)))
        return
    _say_what_it_is_made_of(view, terms)
    reach = float(max(terms.of_key.abs().max(), terms.of_query.abs().max())) or 1.0
    with st.container(horizontal=True, gap="small"):  # below one another in a narrow window
        for side in ("key", "query"):
            with st.container(width=462):
                _draw_side(view, terms, side, reach)
    _draw_sum(view, terms)
    if linked(st.toggle, "Show the terms pair by pair", key="pairs"):
        _draw_pairs(view, terms)


def _compared(view: View) -> int | str | None:
    """What the score is compared with, as the reader chose it: by a word, or by a click on another key of the row."""
    than = linked(
        st.segmented_control,
        "Compare the score with",
        [ROW, ALONE, KEY],
        default=ROW,
        key="than",
        required=True,
        help="Softmax looks only at differences within a row: a number added to every score of the row changes no "
        "weight. So a score says something only when it is compared with other scores of its row.",
    )
    first = 0 if view.key else min(1, view.trace.key_length - 1)
    other = held("than_key", Whole(0, view.trace.key_length - 1), first)
    if than == KEY:
        _draw_row(view, other)
    return {ROW: "row", ALONE: None}.get(than, other)


def _draw_row(view: View, other: int) -> None:
    """The scores of the query, one a key; a click takes another key to compare with."""
    scores = view.trace.scores(view.layer, view.head)[view.query : view.query + 1].numpy()
    row = Matrix(
        "row",
        f"Scores of query {view.query}",
        scores,
        [view.labels[view.query]],
        view.key_labels,
        row_axis="query",
        column_axis="other key",
        caption=f"The other key is {other}, and its score is {number(float(scores[0, other]))}. Click a cell to choose "
        "another one.",
        role="scores",
        scale="diverging",
        allowed=view.trace.mask(view.layer)[view.query : view.query + 1].numpy(),
    )
    panels(
        [row],
        key="why_row",
        marked={"other key": other},
        on_pick=lambda event: None if event["column"] is None else choose(than_key=event["column"]),
        on_open=note_opened,
    )
    open_noted_matrix(view, {"row": row})


def _say_what_it_is_made_of(view: View, terms: ScoreTerms) -> None:
    """The answer in sentences: the score, its largest part on either side, and the head that wrote the key."""
    side = "above" if terms.score >= 0 else "below"
    against = {None: "", "row": f" {side} the mean score of the keys that the query may read"}.get(
        terms.than, f" {side} the score of key {terms.than}"
    )
    score = terms.score if terms.than is None else abs(terms.score)
    if not view.trace.mask(view.layer)[view.query, view.key]:
        st.markdown(
            f"The mask closes this cell: query {view.query} may not read key {view.key}, so the weight is 0 whatever "
            "the score is."
        )
    else:
        _offer_telling_cell(view)
    what = "The score" if terms.than is None else f"This difference ({number(terms.score)})"
    of_key, of_query = int(terms.of_key.argmax()), int(terms.of_query.argmax())
    st.markdown(
        f"The score is **{number(score)}**{against}. "
        f"{what} can be split into one part for each component of the key. The largest part is that of "
        f"**{terms.names_key[of_key]}**: {number(float(terms.of_key[of_key]))}. It can also be split into one part "
        "for each component of the query. Then the largest part is that of "
        f"**{terms.names_query[of_query]}**: {number(float(terms.of_query[of_query]))}. Parts can be negative.",
        help=explained("score", "component", "residual stream", "embedding", "feed-forward"),
    )


def _offer_telling_cell(view: View) -> None:
    """Where the head hardly reads the chosen key, a way to the cell that says most of what it does."""
    weight = float(view.trace.weights(view.layer, view.head)[view.query, view.key])
    even = 1 / int(view.trace.mask(view.layer)[view.query].sum())
    best = telling_cell(view.trace, view.layer, view.head)
    if weight >= even or best == (view.query, view.key):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"This head hardly reads this key: its weight is {number(weight, 2)}, less than an even share "
            f"({number(even, 2)}).",
            width="content",
        )
        st.button(
            f"Go to where it reads most: query {best[0]}, key {best[1]}",
            key="why_telling",
            on_click=choose_cell,
            args=best,
        )


def _draw_side(view: View, terms: ScoreTerms, side: str, reach: float) -> None:
    """The components of the query or of the key as bars, and the head that wrote the largest one, with its ways on."""
    components = terms.key_components if side == "key" else terms.query_components
    names = terms.names_key if side == "key" else terms.names_query
    numbers = (terms.of_key if side == "key" else terms.of_query).numpy()
    place, token = (view.key, view.key_labels[view.key]) if side == "key" else (view.query, view.labels[view.query])
    draw_terms(
        largest(names, numbers),
        key=f"why_{side}",
        title=f"The {side}'s side: token {token}",
        reach=reach,
        role=side,
        on_pick=lambda at: look_at_writer(view, components[at], place),
    )
    heads = [at for at in np.argsort(-numbers) if components[at].kind == HEAD]
    if heads and numbers[heads[0]] > 0:
        _draw_best_head(view, components[heads[0]], float(numbers[heads[0]]), side, place)


def _draw_best_head(view: View, best: Component, adds: float, side: str, place: int) -> None:
    trace = view.trace.of(best.part)
    row = trace.weights(best.layer, best.head)[place]
    read = int(row.argmax())
    token = plain(labels(trace.key_token_bytes)[read])
    st.markdown(
        f"Of all heads, **{best.name}** adds most on the {side}'s side: {number(adds)}. At token {place}, "
        f"this head reads token **{token}** most, with the weight {number(float(row[read]), 2)}."
    )
    with st.container(horizontal=True):
        st.button(
            f"Open {best.name} where it reads this",
            key=f"why_open_{side}",
            on_click=look_at_writer,
            args=(view, best, place),
            help="The weights of that head show which tokens it read to write this.",
        )
        if st.button(
            "Switch it off",
            key=f"why_off_{side}",
            help="A term says what the score is made of. Only another pass can say what happens without the head.",
        ):
            look_at_writer(view, best, place)
            st.switch_page(SWITCH_OFF)


def _draw_sum(view: View, terms: ScoreTerms) -> None:
    cap = view.trace.equation(view.layer).softcap
    st.markdown(
        f"Sum of all {terms.terms.shape[0]} × {terms.terms.shape[1]} terms: **{number(terms.terms.sum().item())}**. "
        f"The same number from the matrix of scores: **{number(terms.score)}**. "
        f"Remainder: **{number(terms.remainder)}**."
        + (f" The model then caps each score x: it turns it into {cap:g}·tanh(x/{cap:g})." if cap else "")
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
    panels([pairs], key="why_pairs", matrix_width=720, feature_width=440, on_open=note_opened)
    names = {"pairs": named(view, "terms of the score", "score_terms", view.where, of=pass_words(view.trace))}
    open_noted_matrix(view, {"pairs": pairs}, names=names)
