"""Is FlashAttention approximate? Its difference from the full softmax, beside what another order of summing changes."""

import streamlit as st
import torch

from pages.misconceptions.matrices import draw_matrices
from viz_model.misconceptions.approximate import Exactness, exactness
from viz_model.transformer.attention import mix
from viz_ui.components.panels import Matrix
from viz_ui.frame.address import linked
from viz_ui.frame.view import View
from viz_ui.look.text import number
from viz_ui.parts.open_matrix import pass_words

SIDE = 4  # rows and columns of a tile to begin with


def draw(view: View) -> None:
    queries, keys = view.trace.length, view.trace.key_length
    with st.container(horizontal=True, vertical_alignment="bottom"):
        rows = linked(st.number_input, "Rows of a tile", 1, 4096, SIDE, key="exact_rows", width=160)
        columns = linked(st.number_input, "Columns of a tile", 1, 4096, SIDE, key="exact_columns", width=160)
    written_out = mix(
        view.trace.weights(view.layer, view.head)[None],
        view.trace.v(view.layer)[view.trace.config.kv_head(view.head)][None],
    )[0]
    found = exactness(view.trace, view.layer, view.head, min(rows, queries), min(columns, keys), written_out)
    st.markdown(answer(found))
    difference = (found.tiled - written_out).numpy()
    largest = float(max(abs(difference).max(), torch.finfo(torch.float32).tiny))
    draw_matrices(
        view,
        "exact",
        [
            Matrix(
                "tiled",
                "A·V in tiles (T, D)",
                found.tiled.numpy(),
                view.labels,
                [str(n) for n in range(difference.shape[1])],
                column_axis="feature",
                role="value",
                scale="diverging",
                rows_are_queries=True,
            ),
            Matrix(
                "difference",
                f"tiles − full matrix, at most {number(largest, 2)}",
                difference,
                view.labels,
                [str(n) for n in range(difference.shape[1])],
                column_axis="feature",
                scale="diverging",
                low=-largest,
                high=largest,
                mark_zeros=True,
                rows_are_queries=True,
            ),
        ],
        width=440,
        selected=(view.query, None),
        of=dict.fromkeys(("tiled", "difference"), pass_words(view.trace)),
    )
    st.caption(
        f"Layer {view.layer}, head {view.head} is computed in tiles of {min(rows, queries)} × {min(columns, keys)} "
        "cells, in 32 bits. To go through the tiles one by one, open the page “FlashAttention”. Dao et al. 2022, "
        "“FlashAttention”, theorem 1: the algorithm returns softmax(QKᵀ)V. Only the rounding differs, as it does when "
        "the same numbers are added in another order."
    )


def answer(found: Exactness) -> str:
    alike = found.difference <= 10 * max(found.reordered, found.written_out_error)
    verdict = "**No.**" if alike else "**Here rounding does not explain the difference.**"
    return (
        f"{verdict} The result in tiles and the result from the full matrix differ by at most "
        f"**{number(found.difference, 2)}**. Even the full-matrix result changes by {number(found.reordered, 2)} "
        "when the sum over the keys is taken in reverse order. Compared with a computation in 64 bits, the "
        f"full-matrix result is off by {number(found.written_out_error, 2)}, and the tiled one by "
        f"{number(found.tiled_error, 2)}."
    )
