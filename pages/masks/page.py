"""Masks: one prompt and one head under two masks, each a pass of its own, and what a changed token changes."""

from dataclasses import replace

import numpy as np
import streamlit as st

from pages.masks.sides import (
    SIDES,
    Side,
    chosen_side,
    draw_controls,
    draw_words,
    keep_drawing,
    masked_trace,
    masked_traces,
)
from pages.masks.token_change import draw_token_change
from viz_model.heads.comparison import query_entropy
from viz_model.model.formula import AttentionFormula
from viz_ui.components.mask_editor import mask_editor
from viz_ui.components.panels import Bars, Matrix, Symbol, panels
from viz_ui.frame.address import bring_sidebar_along
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.view import View, choose_picked_cell, current_view
from viz_ui.look.colours import ROLES
from viz_ui.look.figures import query_lines_figure
from viz_ui.look.formulas import coloured
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain
from viz_ui.parts.next_tokens import draw_next_tokens
from viz_ui.parts.open_matrix import head_arrays, named, note_opened, of_head, open_noted_matrix, pass_words
from viz_ui.parts.weight_colours import WeightColours, choose_weight_colours


def draw() -> None:
    view = current_view()
    st.title("Masks")
    draw_question(view)
    *places, colours_place = st.columns([3, 3, 2], gap="small")
    for name, place in zip(SIDES, places, strict=True):
        with place:
            draw_controls(view, name)
            draw_words(view, chosen_side(view, name))
    with colours_place:
        colours = choose_weight_colours(view.trace.key_length, width="stretch")
    # Here, where a click can stop it; what is drawn below finds the passes made.
    masked_traces(view, [chosen_side(view, name) for name in SIDES], can_stop=True)
    with main_picture():
        draw_sides(colours)
    with st.container(horizontal=True, gap="medium"):
        with st.container(key="next_side"):
            draw_prediction(view)
        with st.container(key="entropy_side"):
            draw_entropy(view)
    draw_token_change(view)
    st.caption(
        "M: Vaswani et al. 2017, “Attention Is All You Need”, §3.2.3. Prefix: Raffel et al. 2020 (T5), §3.2.1. Sliding "
        "window: Beltagy et al. 2020, “Longformer”, §3.1. Every number comes from passes under these masks. The mask "
        "in the sidebar is not used on this page."
    )


def draw_question(view: View) -> None:
    st.markdown(
        "**What does a mask change?** The model runs once under mask A and once under mask B: "
        + coloured(rf"$\mathrm{{weights}} = {AttentionFormula.of(view.trace, view.layer).latex_weights}$")
        + ". M is the mask: 0 in open cells and −∞ in closed ones.",
        help=explained("attention weight", "softmax", "score"),
    )


@st.fragment
def draw_sides(colours: WeightColours) -> None:
    """The masks that are drawn by hand, and the weights under A and B: a fragment, so that a stroke shows at once."""
    view = current_view()
    sides = [chosen_side(view, name) for name in SIDES]
    drawn = [side for side in sides if side.choice.kind == "drawn by hand"]
    with st.container(horizontal=True, gap="medium"):
        editors = st.container(width=340) if drawn else None
        pictures = st.container(key="masks_side")
    with pictures:
        draw_matrices(view, sides, colours)
    for side in drawn:
        with editors:
            st.markdown(
                f"**Draw mask {side.name}.** Click or drag over cells. Click a label to open or close its whole row or "
                "column."
            )
            mask_editor(
                side.allowed.numpy(),
                view.labels,
                view.key_labels,
                name=f"Mask {side.name}",
                key=f"mask_editor_{side.name}",
                cursor=(view.query, view.key),
                on_draw=keep_drawing(side.name),
            )
    bring_sidebar_along()


def draw_matrices(view: View, sides: list[Side], colours: WeightColours) -> None:
    """Weights of A and B, their difference, both masks, and the query's row of the difference; all linked."""
    items = [colours.of(item) if item.ramp else item for item in comparison_matrices(view, sides)]
    beside_editor = any(side.choice.kind == "drawn by hand" for side in sides)
    row = Bars("row", "What the query reads, mask B − mask A", of="difference")
    panels(
        [*items, row] if beside_editor else [*items[:3], Symbol("\n"), *items[3:], row],
        key="mask_panels",
        selected=(view.query, view.key),
        matrix_width=300 if beside_editor else 360,
        list_height=240,
        on_pick=choose_picked_cell,
        on_open=note_opened,
    )
    names = {
        f"mask {side.name}": named(view, f"mask {side.name}, {side.choice.words}", f"mask {side.name}")
        for side in sides
    }
    both = " and ".join(f"{side.choice.words} ({side.name})" for side in sides)
    words = {"difference": both} | {f"weights {side.name}": side.choice.words for side in sides}
    names |= {name: of_head(view, name, pass_words(view.trace, mask)) for name, mask in words.items()}
    open_noted_matrix(
        view, {matrix.name: matrix for matrix in items}, lambda: both_heads(view, sides), "masks", names=names
    )


def comparison_matrices(view: View, sides: list[Side]) -> list[Matrix]:
    """The weights under A and B with their difference, and the two masks, which have no ramp of colours."""
    allowed = [side.allowed.numpy() for side in sides]
    weights = [masked_trace(view, side).weights(view.layer, view.head).numpy() for side in sides]
    shared = {"rows_are_queries": True, "columns_are_keys": True}
    items = [
        Matrix(
            f"weights {side.name}",
            f"Weights under mask {side.name}",
            values,
            view.labels,
            view.key_labels,
            caption=f"{side.choice.words} · {view.where}",
            role="weights",
            allowed=cells,
            **shared,
        )
        for side, values, cells in zip(sides, weights, allowed, strict=True)
    ]
    items.append(
        Matrix(
            "difference",
            "Difference, mask B − mask A",
            weights[1] - weights[0],
            view.labels,
            view.key_labels,
            caption="of the weights · hatched: closed in both masks",
            role="stream",
            scale="diverging",
            allowed=allowed[0] | allowed[1],
            mark_zeros=True,
            **shared,
        )
    )
    items += [
        Matrix(
            f"mask {side.name}",
            f"Mask {side.name}",
            np.where(cells, 0.0, -np.inf),
            view.labels,
            view.key_labels,
            caption=f"{cells.sum():,} cells open (0), {(~cells).sum():,} closed (−∞)",
            scale="diverging",
            low=-1,
            high=1,
            allowed=cells,
            ramp=False,
            **shared,
        )
        for side, cells in zip(sides, allowed, strict=True)
    ]
    return items


def both_heads(view: View, sides: list[Side]) -> dict:
    """The whole head under both masks, for one NPZ file: the names of `head_arrays` with A_ or B_ before them."""
    return {
        f"{side.name}_{name}": array
        for side in sides
        for name, array in head_arrays(replace(view, trace=masked_trace(view, side))).items()
    }


def draw_prediction(view: View) -> None:
    """What the model makes of the query under both masks: the next token, or in an encoder the token itself."""
    reads_itself = view.model.config.layout == "encoder-only"
    st.subheader("The token at the query" if reads_itself else "The next token")
    if view.part == "encoder":
        st.caption(
            "An encoder predicts no token. In the sidebar, choose **decoder** or **cross** to see how the predictions "
            "change."
        )
        return
    if not view.model.config.has_unembedding:
        st.caption("This model gives a vector for each token and predicts no token.", help=explained("unembedding"))
        return
    first, second = (masked_trace(view, chosen_side(view, name)).logits_at(view.query) for name in SIDES)
    place = f"For the token {'at' if reads_itself else 'that follows'} query **{plain(view.labels[view.query])}**"
    draw_next_tokens(view, first, second, tuple(f"mask {name}" for name in SIDES), place)


def draw_entropy(view: View) -> None:
    """Entropy of each query's weights under both masks."""
    st.subheader("How evenly each query spreads its weights", help=explained("entropy", "bit"))
    theme = st.context.theme.type or "light"
    lines, means = {}, []
    for side, role in zip((chosen_side(view, name) for name in SIDES), ("stream", "weights"), strict=True):
        weights = masked_trace(view, side).weights(view.layer, view.head)
        entropies = query_entropy(weights, side.allowed).numpy()
        colour = ROLES[role].on_dark if theme == "dark" else ROLES[role].on_light
        lines[f"{side.name}, {side.choice.words}"] = entropies, colour
        measured = entropies[~np.isnan(entropies)]
        chosen = entropies[view.query]
        means.append(
            f"Under mask {side.name}, the mean entropy is **{number(measured.mean())} bits**, and query {view.query} "
            + ("may read no token." if np.isnan(chosen) else f"has **{number(chosen)} bits**.")
            if measured.size
            else f"Under mask {side.name}, no query may read a token."
        )
    st.markdown(" ".join(means))
    figure = query_lines_figure(view.labels, lines, axis="entropy, bits", theme=theme, height=388)
    st.plotly_chart(figure, key="entropy", theme=None, config={"displayModeBar": False})
    st.caption(
        "The entropy is 0 for a query that reads one token, and log₂ n for a query that reads n tokens equally. A "
        "query that is not allowed to read any token is left out of the chart."
    )


draw()
