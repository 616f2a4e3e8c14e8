"""All heads at once: their pictures and their numbers, worked out once for a prompt and kept for the visitor."""

import numpy as np
import streamlit as st

from viz_model.measures import all_head_measures
from viz_ui import drawn
from viz_ui.hidden_tokens import shown_tokens
from viz_ui.models import load_model
from viz_ui.pooling import thumbnails
from viz_ui.view import View, traced


def grid_pictures(view: View, name: str, full: bool, hiding: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Thumbnails (L,H,P,R) of all heads, and what of them is not masked (P,R).

    full: on one scale from 0 to 1; else each head on its own scale, for one loud head would blank all others.
    hiding: what is done with special tokens, one of `hidden_tokens.HIDING`.
    """
    return _grid_pictures(*_passed(view), name, full, hiding)


def measured(view: View) -> dict[str, np.ndarray]:
    """`all_head_measures` of the trace, each (L,H)."""
    return _measured(*_passed(view))


def _passed(view: View) -> tuple:
    """What `traced` needs to find the trace of the view."""
    return view.name, view.prompt, view.trace.mask_name, view.part, view.target


# Keyed on strings, like the trace itself: a trace has no hash that would tell it from a later one.
@st.cache_resource(scope="session", max_entries=8, show_spinner=False)
def _grid_pictures(
    model: str, prompt: str, mask: str, part: str, target: str | None, name: str, full: bool, hiding: str
) -> tuple[np.ndarray, np.ndarray | None]:
    trace = traced(model, prompt, mask, part, target)
    shown, scale = shown_tokens(load_model(model), trace, hiding), drawn.DRAWN[name].scale
    matrices = drawn.all_values(trace, name)
    by_weight = shown.renormalised and name in (drawn.WEIGHTS, drawn.CARRIED)
    matrices = shown.scaled(matrices, drawn.all_values(trace, drawn.WEIGHTS)) if by_weight else shown.take(matrices)
    if not full:
        ends = [drawn.ends(matrix, scale)[1] for matrix in matrices.reshape(-1, *matrices.shape[2:])]
        matrices = matrices / np.reshape(ends, (*matrices.shape[:2], 1, 1)).astype(matrices.dtype)
    allowed = shown.take(_allowed(trace)) if drawn.DRAWN[name].masked else None
    return thumbnails(matrices, 0 if scale == "sequential" else -1, 1, allowed)


def _allowed(trace) -> np.ndarray:
    """The mask (T,S) where all layers have the same, else that of each layer for all its heads (L,H,T,S)."""
    masks = np.stack([trace.mask(layer).numpy() for layer in range(trace.n_layers)])  # (L,T,S)
    if (masks == masks[0]).all():
        return masks[0]
    return np.repeat(masks[:, None], trace.config.n_heads, 1)


@st.cache_resource(scope="session", max_entries=4, show_spinner=False)
def _measured(model: str, prompt: str, mask: str, part: str, target: str | None) -> dict[str, np.ndarray]:
    trace = traced(model, prompt, mask, part, target)
    return {name: table.numpy() for name, table in all_head_measures(trace).items()}
