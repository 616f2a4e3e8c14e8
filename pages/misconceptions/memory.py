"""Is the attention matrix the model's memory? One decode step with the kept keys and values, and one without."""

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
    columns[0].metric("Kept: keys and values", size_words(memory.cache_bytes), border=True)
    columns[1].metric("Kept: earlier attention weights", "0 B", border=True)
    columns[2].metric("Used once: new attention weights", size_words(memory.weights_bytes), border=True)
    draw_next_tokens(
        view,
        memory.kept,
        memory.forgotten,
        ("cache kept", "cache set to zero"),
        f"For the token that follows **{last}**",
    )
    st.caption(
        "The model first reads all tokens except the last one. It then reads the last token in one decode step. This "
        "step computes its attention weights from its own query and the kept keys. The earlier rows of the attention "
        "matrix no longer exist. Every prompt begins with an empty cache. What the model has learned is in its "
        "parameters. Pope et al. 2022, “Efficiently Scaling Transformer Inference”."
    )


def answer(memory: Memory) -> str:
    kept, forgotten = memory.difference(memory.kept), memory.difference(memory.forgotten)
    size = memory.whole.abs().max().item()
    verdict = "**No.**" if kept <= FLOAT_ERROR * size < forgotten else "**Not clear on this prompt:**"
    return (
        f"{verdict} When the model adds one token (a decode step), the earlier attention weights are gone. Only keys "
        "and values were kept. The logits of this step differ from those of a whole pass by at most "
        f"**{number(kept, 2)}**. If the kept keys and values are set to zero, the logits differ by up to "
        f"**{number(forgotten, 3)}**."
    )


@st.cache_resource(scope="session", max_entries=2, show_spinner=False)
def _kept(_model, name: str, ids: tuple[int, ...]) -> Memory:
    return what_is_kept(_model, ids)


def _memory(view: View) -> Memory:
    return _kept(view.model, view.name, view.trace.ids)
