"""What a training that has ended left: a head's matrices before and after it, and the model, to be kept."""

import numpy as np
import streamlit as st

import viz_model as vm
from pages.training.live import own_training
from viz_model.heads.matrices import POSITIONS, head_matrices
from viz_model.training.keep import keep
from viz_model.training.live import LiveTraining
from viz_ui.components.panels import Matrix, Symbol, panels
from viz_ui.frame.address import linked
from viz_ui.frame.loaded_models import look_at
from viz_ui.frame.visitors import may, refuse, told, why_not
from viz_ui.look.text import number, plain
from viz_ui.sharing.settings import KEEP

WORDS = {
    "positions": "Scores from positions alone, P·W_Qᵀ·W_K·Pᵀ/√D",
    "W_Q": "W_Q, D × C",
    "W_K": "W_K, D × C",
    "W_V": "W_V, D × C",
    "W_O": "W_O, C × D",
}


def draw_keep(training: LiveTraining) -> None:
    """Keep the model under a name; then a way to look at it on all pages."""
    st.subheader("Keep it")
    if not may(KEEP):
        st.caption(why_not(KEEP))
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.text_input("Name", "my-model", key="live_name", max_chars=40, width=220)
        st.button("Keep as a checkpoint", key="live_keep", icon=":material/save:", on_click=_keep)
        kept = st.session_state.get("live_kept")
        if kept:
            st.button(f"Look at {plain(kept)}", key="live_look", type="primary", on_click=look_at, args=(kept,))
    problem = st.session_state.get("live_keep_problem")
    if problem:
        st.info(plain(problem), icon=":material/edit:")
    elif kept:
        st.caption(f"The model is kept in checkpoints/{plain(kept)}, in float16. You can now choose it in the sidebar.")
    else:
        st.caption(
            f"This keeps the model of step {training.last.step:,}. You can then choose the model in the sidebar."
        )


def _keep() -> None:
    try:
        refuse(KEEP)
        st.session_state.live_kept = keep(own_training(), st.session_state.live_name).name
        st.session_state.live_keep_problem = ""
    except vm.VizError as error:
        st.session_state.live_keep_problem = told(str(error))


def draw_before_and_after(training: LiveTraining, layer: int, head: int) -> None:
    """One matrix of the chosen head before the first step and after the last."""
    st.subheader(f"Weights of layer {layer}, head {head}, before and after")
    recipe = training.plan.recipe
    length = recipe.stages[0].length
    before, after = (
        head_matrices(told.weights, recipe.config, layer, head, length) for told in (training.first, training.last)
    )
    names = [name for name in WORDS if name in before]
    name = linked(st.segmented_control, "Matrix", names, default=names[0], required=True, key="live_matrix")
    change = np.linalg.norm(after[name] - before[name]) / np.linalg.norm(before[name])
    st.markdown(f"{WORDS[name]}. Relative change: ‖after − before‖ / ‖before‖ = **{number(change, 3)}**.")
    panels(
        [
            _matrix("before", 0, before[name], name),
            Symbol("→"),
            _matrix("after", training.last.step, after[name], name),
        ],
        key="live_weights",
        matrix_width=360,
    )
    if name == POSITIONS:
        st.caption(
            "These scores leave out the norm and the biases. A stripe of high scores just below the diagonal means "
            "that the head reads the previous token."
        )


def _matrix(title: str, step: int, values: np.ndarray, name: str) -> Matrix:
    rows, columns = ("query", "key") if name == POSITIONS else ("row", "column")
    return Matrix(
        title,
        f"{title.capitalize()}, step {step:,}",
        values,
        [str(n) for n in range(len(values))],
        [str(n) for n in range(values.shape[1])],
        row_axis=rows,
        column_axis=columns,
        scale="diverging",
        role="scores" if name == POSITIONS else "stream",
    )
