"""A small app around the component `panels`, for test_panels.py, which checks it against the same arrays.

The address chooses: ?tokens=6 (how many), &empty=3 (a query that may attend to nothing),
&lines=raw (whose lines are drawn), &even=true (every query reads its keys evenly), &zoom=true (the weights alone, which
can be zoomed where they are many).
"""

import json

import numpy as np
import streamlit as st

from viz_ui.components.panels import Bars, Lines, Matrix, Symbol, panels

WIDTH = 4
WORDS = ["Once", "·<b>bold</b>", "*a*", "שלום", "·internationalisation", "*a*", r"\xe2\x80"]


def labels(tokens):
    return [f"{i} {WORDS[i % len(WORDS)]}" for i in range(tokens)]


def attention(tokens, seed=0, empty=None, even=False):
    """q, k, raw = QKᵀ, mask, weights of a causal head with random q and k, in float32; even: with queries of 0."""
    q, k = np.random.default_rng(seed).normal(0, 1.5, size=(2, tokens, WIDTH)).astype(np.float32)
    q = q * (not even)
    mask = np.tril(np.ones((tokens, tokens), bool))
    if empty is not None:
        mask[empty] = False
    raw = q @ k.T
    exponentials = np.where(mask, np.exp(raw / np.sqrt(WIDTH)), 0)
    sums = exponentials.sum(1, keepdims=True)
    weights = np.divide(exponentials, sums, out=np.zeros_like(exponentials), where=sums > 0)
    return q, k, raw, mask, weights


def main():
    tokens = int(st.query_params.get("tokens", 6))
    empty = st.query_params.get("empty")
    seed = int(st.number_input("Head", 0, 99))
    q, k, raw, mask, weights = attention(tokens, seed, None if empty is None else int(empty), "even" in st.query_params)
    names, dims = labels(tokens), [str(d) for d in range(WIDTH)]
    state = st.session_state
    state.setdefault("selected", (min(4, tokens - 1), min(2, tokens - 1)))

    def picked(event):
        query, key = state.selected
        state.selected = (
            query if event["query"] is None else event["query"],
            key if event["key"] is None else event["key"],
        )
        state.event = event

    def opened(event):
        state.event = event

    by_feature = {"row_labels": names, "column_labels": dims, "column_axis": "feature", "scale": "diverging"}
    square = {
        "row_labels": names,
        "column_labels": names,
        "caption": f"(T, S) = ({tokens}, {tokens})",
        "rows_are_queries": True,
        "columns_are_keys": True,
    }
    items = [
        Matrix("q", "Q", q, role="query", rows_are_queries=True, **by_feature),
        Matrix("k", "K", k, role="key", rows_are_keys=True, row_axis="key", **by_feature),
        Matrix("raw", "QKᵀ", raw, scale="diverging", **square),
        Symbol("÷ √D + M"),
        Matrix(
            *("scores", "QKᵀ/√D + M", None),
            same_as="raw",
            factor=1 / np.sqrt(WIDTH),
            scale="diverging",
            allowed=mask,
            **square,
        ),
        Symbol("softmax"),
        Matrix("weights", "A", weights, role="weights", allowed=mask, **square),
        Lines("lines", "Who reads whom", of=st.query_params.get("lines", "weights")),
        Bars("bars", "Weights of one query"),
    ]
    panels(
        items[-3:] if "zoom" in st.query_params else items,
        key="head",
        selected=state.selected,
        can_zoom="zoom" in st.query_params,
        on_pick=picked,
        on_open=opened,
    )
    st.text(f"event {json.dumps(state.get('event'), sort_keys=True)}")


if __name__ == "__main__":
    main()
