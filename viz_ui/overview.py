"""All heads at once: their pictures and their numbers, worked out once for a prompt and kept for the visitor."""

import numpy as np
import streamlit as st

from viz_model.measures import all_head_measures
from viz_ui import drawn
from viz_ui.pooling import thumbnails
from viz_ui.view import View, traced


def grid_pictures(view: View, name: str, full: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Thumbnails (L,H,P,P) of all heads, and what of them is not masked (P,P).

    full: on one scale from 0 to 1; else each head on its own scale, for one loud head would blank all others.
    """
    return _grid_pictures(view.model.name, view.prompt, view.trace.mask_name, name, full)


def measured(view: View) -> dict[str, np.ndarray]:
    """`head_measures` of every head, each (L,H)."""
    return _measured(view.model.name, view.prompt, view.trace.mask_name)


# Keyed on strings, like the trace itself: a trace has no hash that would tell it from a later one.
@st.cache_resource(scope="session", max_entries=8, show_spinner=False)
def _grid_pictures(model_name: str, prompt: str, mask: str, name: str, full: bool):
    trace = traced(model_name, prompt, mask)
    matrices, scale = drawn.all_values(trace, name), drawn.DRAWN[name].scale
    if not full:
        ends = [drawn.ends(matrix, scale)[1] for matrix in matrices.reshape(-1, *matrices.shape[2:])]
        matrices = matrices / np.reshape(ends, (*matrices.shape[:2], 1, 1)).astype(matrices.dtype)
    allowed = trace.mask(0).numpy() if drawn.DRAWN[name].masked else None
    return thumbnails(matrices, 0 if scale == "sequential" else -1, 1, allowed)


@st.cache_resource(scope="session", max_entries=4, show_spinner=False)
def _measured(model_name: str, prompt: str, mask: str) -> dict[str, np.ndarray]:
    return {name: table.numpy() for name, table in all_head_measures(traced(model_name, prompt, mask)).items()}
