"""“Measured here” on the page FlashAttention: a measurement that runs beside the page, drawn as it comes."""

from collections.abc import Callable

import numpy as np
import streamlit as st

from viz_model.flash.measuring import Measuring
from viz_model.flash.timing import Call, Shapes, Timing
from viz_model.jobs import MEASURING
from viz_ui.frame.jobs import draw_bar, turns, visitor
from viz_ui.look.growth_figure import growth_figure
from viz_ui.look.text import milliseconds, plain, size_words

POLL_SECONDS = 0.7


def draw_measured(shapes: Shapes, length: int) -> None:
    """Button, progress and curves; `length` is the T of the prompt, marked in the curves."""
    measuring: Measuring | None = st.session_state.get("measuring")
    running = measuring is not None and measuring.is_under_way
    with st.container(horizontal=True, vertical_alignment="center"):
        if running:
            st.button("Stop", key="stop_measuring", icon=":material/stop:", on_click=measuring.stop, width=170)
        else:
            word = "Measure" if measuring is None else "Measure again"
            st.button(word, key="measure", icon=":material/timer:", on_click=_begin, args=(shapes,), width=170)
        words = st.container()
    if measuring is not None and measuring.problem:
        st.info(plain(measuring.problem), icon=":material/timer_off:")
    timings = [] if measuring is None else measuring.timings
    if timings:
        _draw_curves(timings, length)
    with words:
        if running:
            st.fragment(_watch, run_every=POLL_SECONDS)(measuring, len(timings))
        else:
            st.caption(_state_words(measuring, shapes))


def _watch(measuring: Measuring, drawn: int) -> None:
    """Look again and again. Draw the page again when another length is done, or when all of it has ended."""
    draw_bar(measuring, _state_words(measuring, measuring.shapes))
    if len(measuring.timings) > drawn or not measuring.is_under_way:
        st.rerun(scope="app")


def _begin(shapes: Shapes) -> None:
    st.session_state.measuring = visitor().start(Measuring(shapes), turns(MEASURING))


def _state_words(measuring: Measuring | None, shapes: Shapes) -> str:
    if measuring is None:
        return (
            f"This runs {_shape_words(shapes)}, on this machine. T starts at 64 and doubles, until half a minute has "
            "passed or 1 GB of memory is used. You can stop the measurement at any time."
        )
    if measuring.is_under_way:
        done = f": {measuring.progress.words}" if measuring.has_begun else ""
        return f"Measuring {_shape_words(measuring.shapes)}{done}"
    ended = "Stopped. " if measuring.was_stopped else ""
    other = "" if measuring.shapes == shapes else " The model or the mask has changed since then. Measure again."
    where = measuring.machine
    here = f" on {plain(where.processor)}, {where.threads} thread, torch {plain(where.torch)}" if where else ""
    return f"{ended}Measured for {_shape_words(measuring.shapes)}{here}.{other}"


def _shape_words(shapes: Shapes) -> str:
    groups = "" if shapes.groups == shapes.heads else f" (G = {shapes.groups})"
    attention = "causal attention" if shapes.causal else "attention without a mask"
    heads = "head" if shapes.heads == 1 else "heads"
    return f"one layer of {attention}, with H = {shapes.heads} {heads}{groups} of D = {shapes.width}, in float32"


def _draw_curves(timings: list[Timing], length: int) -> None:
    lengths = np.array([timing.length for timing in timings])
    with st.container(horizontal=True):
        for name, unit, value in (
            ("seconds", "milliseconds a call", lambda call: 1e3 * call.seconds),
            ("bytes", "peak bytes", lambda call: call.nbytes),
        ):
            figure = growth_figure(lengths, _curves(timings, value), length=length, unit=unit)
            with st.container(key=f"flash_side_{name}"):
                st.plotly_chart(figure, key=f"measured_{name}", config={"displaylogo": False})
    st.markdown(_comparison_words(timings))


def _curves(timings: list[Timing], value: Callable[[Call], float]) -> dict[str, np.ndarray]:
    """A number of both ways over T; NaN where the machine has too little memory or time."""
    return {
        name: np.array([np.nan if call is None else value(call) for call in calls])
        for name, calls in (
            ("full matrix", [timing.written_out for timing in timings]),
            ("fused", [timing.fused for timing in timings]),
        )
    }


def _comparison_words(timings: list[Timing]) -> str:
    """Both ways at the longest T that both can do, and how far the fused one goes."""
    both = [timing for timing in timings if timing.written_out]
    last, farthest = both[-1], timings[-1]
    words = (
        f"At T = {last.length:,}, the full-matrix method takes {milliseconds(last.written_out.seconds)} and "
        f"{size_words(last.written_out.nbytes)}. The fused function takes {milliseconds(last.fused.seconds)} and "
        f"{size_words(last.fused.nbytes)}."
    )
    if farthest is not last:
        words += (
            f" Only the fused function went on to T = {farthest.length:,}, where it takes "
            f"{milliseconds(farthest.fused.seconds)} and {size_words(farthest.fused.nbytes)}. At this T, the two full "
            "matrices, each with H·T² numbers, would take too much memory or time."
        )
    return words
