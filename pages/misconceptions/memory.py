"""Is the attention matrix the model's memory? One decode step with keys and values, and without."""

import streamlit as st

from viz_model.misconceptions.memory import Memory, what_is_kept
from viz_ui.frame.view import View
from viz_ui.look.text import number, plain, size_words
from viz_ui.parts.next_tokens import draw_next_tokens

FLOAT_ERROR = 1e-3


def draw(view: View) -> None:
    memory = _memory(view)
    st.markdown(answer(memory))
    last = plain(view.labels[-1])
    columns = st.columns(3)
    columns[0].metric("Keys and values, kept", size_words(memory.cache_bytes), border=True)
    columns[1].metric("Weights of the tokens before, kept", "0 B", border=True)
    columns[2].metric("Weights, made and dropped", size_words(memory.weights_bytes), border=True)
    draw_next_tokens(
        view, memory.kept, memory.forgotten, ("keys and values kept", "set to zero"), f"One step with **{last}**"
    )
    st.caption(
        "All tokens but the last are read once; then the last one is read as one decode step. Its weights are made "
        "anew from its query and the kept keys: no earlier row of the matrix is looked at, and none is there. Another "
        "prompt begins with an empty cache. What the model knows in general is in its learned numbers. Pope et al. "
        "2022, “Efficiently Scaling Transformer Inference”."
    )


def answer(memory: Memory) -> str:
    kept, forgotten = memory.difference("kept"), memory.difference("forgotten")
    size = memory.whole.abs().max().item()
    verdict = "**No.**" if kept <= FLOAT_ERROR * size < forgotten else "**Not clear on this prompt:**"
    return (
        f"{verdict} With the weights gone and keys and values kept, the next token's logits differ from those of a "
        f"whole pass by at most **{number(kept, 2)}**; with both at zero by up to **{number(forgotten, 3)}**."
    )


@st.cache_resource(scope="session", max_entries=2, show_spinner=False)
def _kept(_model, name: str, ids: tuple[int, ...]) -> Memory:
    return what_is_kept(_model, ids)


def _memory(view: View) -> Memory:
    return _kept(view.model, view.name, view.trace.ids)
