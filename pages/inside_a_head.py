"""Inside a head: Q, K, V, then every step from QKᵀ to A·V, and the arithmetic of one cell."""

import numpy as np
import streamlit as st

from viz_ui.arithmetic import draw_arithmetic
from viz_ui.components.panels import Matrix, Symbol, panels
from viz_ui.formulas import ATTENTION, coloured
from viz_ui.open_matrix import note_opened, open_noted_matrix
from viz_ui.state import bring_sidebar_along, choose_cell
from viz_ui.view import View, current_view


def draw() -> None:
    view = current_view()
    st.title("Inside a head")
    st.markdown(
        f"All that layer {view.layer}, head {view.head} computes. One query row, **{view.query}**, is framed in every "
        "step; click any cell to follow another."
    )
    st.latex(coloured(ATTENTION))
    draw_steps()
    st.caption(sources(view))
    st.subheader(f"The cell of query {view.query} and key {view.key}")
    draw_arithmetic(view, products_open=True)


@st.fragment
def draw_steps() -> None:
    """Every matrix of the head: a fragment, so that another query is framed at once."""
    view = current_view()
    matrices = head_matrices(view)
    panels(
        [
            matrices["q"], Symbol("·"), matrices["k"], Symbol("ᵀ ="), matrices["raw"],
            Symbol("÷ √D"), matrices["scores"], Symbol("+ M"), matrices["masked"],
            Symbol("softmax"), matrices["weights"], Symbol("·"), matrices["v"], Symbol("="), matrices["mixed"],
        ],
        key="inside_panels",
        selected=(view.query, view.key),
        matrix_width=290,
        on_pick=choose_cell,
        on_open=note_opened,
    )  # fmt: skip
    open_noted_matrix(view, matrices)
    bring_sidebar_along()


def head_matrices(view: View) -> dict[str, Matrix]:
    """The eight matrices of a head under their names."""
    trace, layer, head = view.trace, view.layer, view.head
    group = trace.config.kv_head(head)
    raw, weights = trace.raw(layer, head).numpy(), trace.weights(layer, head).numpy()
    allowed = trace.mask(layer).numpy()
    items = (
        features(view, "q", "Q, queries", "query", trace.q(layer)[head], "T", rows_are_queries=True),
        features(view, "k", shared("K, keys", view), "key", trace.k(layer)[group], "S", rows_are_keys=True),
        features(view, "v", shared("V, values", view), "value", trace.v(layer)[group], "S", rows_are_keys=True),
        square(view, "raw", "QKᵀ", raw),
        square(view, "scores", "QKᵀ/√D", None, same_as="raw", factor=trace.scale),
        square(view, "masked", "QKᵀ/√D + M", None, same_as="raw", factor=trace.scale, allowed=allowed),
        square(view, "weights", "A = softmax", weights, role="weights", scale="sequential", allowed=allowed),
        features(view, "mixed", "A·V, mixed", "stream", trace.mixed(layer)[head], "T", rows_are_queries=True),
    )
    return {item.name: item for item in items}


def features(view: View, name: str, title: str, role: str, values, rows: str, **which) -> Matrix:
    """A matrix of tokens × the D numbers of the head."""
    values = values.numpy()
    return Matrix(
        name,
        title,
        values,
        view.labels,
        [str(d) for d in range(values.shape[1])],
        row_axis="key" if which.get("rows_are_keys") else "query",
        column_axis="feature",
        caption=f"({rows}, D) = {values.shape}",
        role=role,
        scale="diverging",
        **which,
    )


def square(view: View, name: str, title: str, values: np.ndarray | None, **choices) -> Matrix:
    """A matrix of queries × keys."""
    length = view.trace.length
    choices = {"role": "scores", "scale": "diverging"} | choices
    return Matrix(
        name,
        title,
        values,
        view.labels,
        view.labels,
        caption=f"(T, S) = ({length}, {length})",
        rows_are_queries=True,
        columns_are_keys=True,
        **choices,
    )


def shared(title: str, view: View) -> str:
    """The title of K or V, which says when several query heads share it."""
    config = view.trace.config
    if config.n_kv_heads == config.n_heads:
        return title
    return f"{title} (head {config.kv_head(view.head)} of {config.n_kv_heads}, shared)"


def sources(view: View) -> str:
    kept = "as they were computed in the pass" if view.trace.stored else "derived from the held Q, K and mask"
    return (
        f"Scores and weights {kept}; QKᵀ/√D is drawn as QKᵀ × {view.trace.scale:.4g}. "
        "Vaswani et al. 2017, “Attention Is All You Need”, §3.2.1."
    )


draw()
