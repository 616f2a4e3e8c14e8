"""A grid of heads on random attention, its choice, and a matrix to open: what test_head_grid.py looks at.

Address: ?layers=4&heads=8&tokens=12&layer=0&head=0&mask=causal|each|none
&key_heads=3 (how many the heads read; left out: each its own) &deaf (picks change nothing)
"""

import numpy as np
import streamlit as st

from viz_ui.components.head_grid import head_grid
from viz_ui.look.colours import sequential_lut
from viz_ui.look.thumbnails import thumbnails
from viz_ui.parts.export import matrix_dialog


def attention(layers, heads, tokens, mask):
    """Weights (L,H,T,T) of random scores, and which cells are permitted, (T,T), (L,H,T,T) or None."""
    scores = np.random.default_rng(7).normal(0, 3, (layers, heads, tokens, tokens)).astype(np.float32)
    allowed = {"causal": np.tri(tokens, dtype=bool), "each": scores > -1, "none": None}[mask]
    raised = np.exp(scores) if allowed is None else np.where(allowed, np.exp(scores), 0)
    return raised / np.maximum(raised.sum(-1, keepdims=True), 1e-9), allowed


def labels(tokens):
    words = ["=SUM(1)", "<b>bold</b>", "·the", "</script>"]
    return [f"{index} {words[index % len(words)]}" for index in range(tokens)]


def choose(layer, head):
    st.session_state.chosen = (layer, head)
    st.session_state.picks += 1


def main():
    address = st.query_params
    layers, heads = int(address.get("layers", 4)), int(address.get("heads", 8))
    tokens, mask = int(address.get("tokens", 12)), address.get("mask", "causal")
    st.session_state.setdefault("chosen", (int(address.get("layer", 0)), int(address.get("head", 0))))
    st.session_state.setdefault("picks", 0)
    layer, head = st.session_state.chosen
    with st.sidebar:
        st.button("Run again")
        st.button("First head", on_click=choose, args=(0, 0))
        tokens += st.checkbox("One token more")
    weights, allowed = attention(layers, heads, tokens, mask)
    small, seen = thumbnails(weights, 0, 1, allowed)
    notes = [[f"strongest {weights[y, x].max():.2f}" for x in range(heads)] for y in range(layers)]
    on_pick = None if "deaf" in address else choose
    shared = int(address.get("key_heads", heads))
    key_heads = None if shared == heads else [x // (heads // shared) for x in range(heads)]
    head_grid(
        small,
        seen,
        sequential_lut(),
        layer=layer,
        head=head,
        labels=notes,
        key_heads=key_heads,
        key="grid",
        on_pick=on_pick,
    )
    st.text(f"chosen {layer} {head}, picks {st.session_state.picks}")
    if st.button("Open"):
        name = f"random_layer{layer}_head{head}"
        matrix_dialog(
            weights[layer, head],
            labels(tokens),
            labels(tokens),
            row_axis="query",
            column_axis="key",
            title=f"layer {layer}, head {head}: weights",
            scale="sequential",
            low=0,
            high=1,
            allowed=allowed if allowed is None or allowed.ndim == 2 else allowed[layer, head],
            file_name=f"{name}_weights",
            head_arrays=lambda: {"weights": weights[layer, head], "tokens": labels(tokens)},
            head_file_name=name,
        )


if __name__ == "__main__":
    main()
