"""Compare: two passes side by side, or two heads of one, on the tokens that belong together."""

from dataclasses import replace

import streamlit as st

import viz_model as vm
from pages.compare.choice import NAMES, Sides, draw_choice, second_head
from pages.compare.heads import closest_head, divergence_table, draw_answer, draw_grid, draw_matrices, most_changed_head
from pages.compare.predictions import draw_predictions
from viz_model.heads.divergence import ComparedPasses, compare
from viz_ui.frame.address import bring_sidebar_along
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.jobs import Stopped
from viz_ui.frame.view import begin_with_head, choose_cell, current_view
from viz_ui.look.glossary import explained
from viz_ui.look.text import plain, sentence
from viz_ui.parts.aligned import draw_aligned_texts


def draw() -> None:
    view = current_view()
    st.title("Compare")
    st.markdown(
        "**What differs between two passes, or between two heads?** A is what you chose in the sidebar. You choose B "
        "here. A cell of the grid is a head: the brighter it is, the more its attention weights differ.",
        help=explained("attention weight", "Jensen–Shannon divergence", "head"),
    )
    try:
        sides = draw_choice(view)
        signs = tuple(side.model.signs for side in (sides.first, sides.second))
        comparison = compare(sides.first.trace, sides.second.trace, signs)
        table = divergence_table(sides, comparison)
        if not sides.has_own_head:
            begin_with_head(lambda: most_changed_head(table))
    except Stopped:
        return
    except vm.VizError as error:
        main_picture("refused").info(plain(sentence(str(error))), icon=":material/edit:")
        return
    draw_texts(sides, comparison)
    draw_picture(sides, comparison, table)
    draw_sources()


def draw_texts(sides: Sides, comparison: ComparedPasses) -> None:
    """Both texts, where they are not the same tokens, and how they are aligned."""
    traces, queries = (sides.first.trace, sides.second.trace), comparison.queries
    if queries.are_tokens and queries.by_characters:
        return
    draw_aligned_texts(
        queries,
        tuple(trace.token_bytes for trace in traces),
        NAMES,
        chosen=sides.first.query,
        key="compared_texts",
        on_pick=lambda token: choose_cell(query=token),
    )
    if queries.by_characters:
        st.caption(
            "The two models cut the text into different tokens. What stands in one column is the same text. Where a "
            "column holds several tokens of a model, they count as one token. As a query, it has the mean of the "
            "weights that they give. As a key, it gets the sum of the weights that they get."
        )
    elif len(queries) < max(trace.length for trace in traces):
        st.caption(
            f"The texts have {traces[0].length} and {traces[1].length} tokens. Only the tokens that both texts begin "
            "with, and those that both end with, are compared."
        )


@st.fragment
def draw_picture(sides: Sides, comparison: ComparedPasses, table) -> None:
    """The grid, what its chosen head says, and below it the matrices and predictions: a click is answered at once."""
    view = current_view()
    sides = replace(sides, first=replace(sides.first, layer=view.layer, head=view.head, query=view.query, key=view.key))
    if sides.has_own_head:
        table = divergence_table(sides, comparison)
    other = second_head(sides, closest_head(sides, table))
    found = comparison.weights((view.layer, view.head), other)
    with main_picture(), st.container(horizontal=True, gap="medium"):
        with st.container(key="effect_side"):
            draw_grid(sides, table, other)
        with st.container(width=430):
            draw_answer(sides, comparison, table, found, other)
    st.subheader("Cell by cell")
    draw_matrices(sides, comparison, found, other)
    draw_predictions(sides, comparison)
    bring_sidebar_along()


def draw_sources() -> None:
    st.caption(
        "If weights differ and predictions differ, the weights need not be the cause. The page Patching shows which "
        "values carry an answer. Lin 1991, “Divergence Measures Based on the Shannon Entropy”."
    )


draw()
