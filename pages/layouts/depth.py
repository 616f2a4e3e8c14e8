"""The length of the residual stream through depth: pre-norm, the same weights post-norm, a model trained post-norm."""

import numpy as np
import streamlit as st

import viz_model as vm
from pages.layouts.depth_figure import depth_figure
from pages.layouts.examples import BOTH, DECODER, draw_source, example, example_model, say_edits
from viz_model.layouts.depth import next_token_bits, stream_lengths, with_norms_placed
from viz_ui.frame.address import linked
from viz_ui.look.glossary import explained
from viz_ui.look.text import labels, number

PRE = r"**Pre-norm** $x + f(\mathrm{norm}(x))$"
POST = r"**Post-norm** $\mathrm{norm}(x + f(x))$"

AXES = ("logarithmic axis", "linear axis")


def draw_norms() -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        bound = {"required": True}
        scale = linked(st.segmented_control, "Axis", AXES, default=AXES[0], key="axis", **bound)
        part = linked(
            st.segmented_control, f"Part of {BOTH}", ("encoder", "decoder"), default="decoder", key="stack", **bound
        )
        draw_source(width=240)
    gpt, seq2seq = example(DECODER), example(BOTH)
    say_edits([gpt, seq2seq])
    moved = _moved_trace(gpt.model, gpt.text, gpt.edits)
    columns = [
        (PRE, f"{gpt.model.name} as trained", gpt.trace),
        (POST, f"{gpt.model.name} with its norms moved", moved),
        (POST, f"{seq2seq.model.name} as trained, {part}", seq2seq.trace.of(part)),
    ]
    found = [{place: values.numpy() for place, values in stream_lengths(trace).items()} for *_, trace in columns]
    highest = max(values.max() for lengths in found for values in lengths.values())
    lowest = min(values.min() for lengths in found for values in lengths.values())
    for n, (place, (formula, words, trace), lengths) in enumerate(zip(_thirds(), columns, found, strict=True)):
        with place:
            st.markdown(f"{formula}  \n{words}")
            figure = depth_figure(
                lengths,
                labels(trace.token_bytes),
                low=float(lowest),
                high=float(highest),
                width=trace.config.d_model,
                logarithmic=scale == AXES[0],
                theme=st.context.theme.type or "light",
            )
            st.plotly_chart(figure, key=f"depth_{n}", theme=None, config={"displayModeBar": False})
            first, *_, last = (np.mean(values) for values in lengths.values())
            words = (
                f"The mean length is **{number(first, 3)}** after the embedding and **{number(last, 3)}** after the "
                "last layer."
            )
            if trace.part == "self" and trace.length > 1:
                words += f" The mean surprise is **{number(next_token_bits(trace).mean().item(), 3)} bits** per token."
            st.markdown(words)
    st.caption(
        "Each thin line is a token, and the thick line is the mean of all tokens. Length is ‖x‖ = √Σx² over the C "
        "numbers of the residual stream. Surprise is −log₂ p of a token; the mean is over all tokens of the prompt "
        f"except the first. {gpt.model.name} was not trained with its norms moved. So this shows how the place of the "
        "norms changes the lengths; it does not show how well a post-norm model can predict. Pre-norm: Xiong et al. "
        "2020, “On Layer Normalization in the Transformer Architecture”, §3. Post-norm: Vaswani et al. 2017, §3.1.",
        help=explained("embedding", "surprise", "bit"),
    )


def _thirds() -> list:
    """Three places beside each other, below each other where the window is narrow."""
    with st.container(horizontal=True, gap="medium"):
        return [st.container(key=f"third_of_row_{n}") for n in range(3)]


@st.cache_resource(scope="session", max_entries=2, show_spinner=False)
def _moved_trace(_model: vm.Model, text: str, edits: tuple[str, ...]) -> vm.Trace:
    return _moved().under_edits_of(_model).trace(text)


@st.cache_resource(max_entries=1, show_spinner=False)
def _moved() -> vm.Model:
    return with_norms_placed(example_model(DECODER), "post")
