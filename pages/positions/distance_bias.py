"""Positions as a bias: what each head adds to a score for the distance from query to key."""

import math

import pandas as pd
import streamlit as st

import viz_model as vm
from pages.positions.figures import bias_figure
from viz_model.model.formula import AttentionFormula
from viz_model.positions.biases import DistanceBias, distance_bias
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.view import View, choose_picked_cell, current_view
from viz_ui.look.formulas import coloured_formulas
from viz_ui.look.text import labels, number
from viz_ui.parts.open_matrix import Named, note_opened, open_noted_matrix
from viz_ui.parts.written_arithmetic import n


def has_distance_bias(view: View) -> bool:
    """Whether the model adds a bias to its scores; cross-attention has none, so another part shows it."""
    return _trace(view) is not None


def draw_distance_bias() -> None:
    """The whole section."""
    view = current_view()
    trace = _trace(view)
    layer, head = min(view.layer, trace.n_layers - 1), view.head
    bias = distance_bias(trace, layer)
    st.markdown(coloured_formulas(_formula(trace, layer, head, bias)))
    matrix = bias_matrix(trace, layer, head, bias)
    with st.container(horizontal=True):
        with st.container(key="third_of_row_bias"):
            panels(
                [matrix],
                key="bias_panel",
                selected=(min(view.query, trace.length - 1), min(view.key, trace.length - 1)),
                matrix_width=420,
                on_pick=choose_picked_cell if trace.part == view.part else None,
                on_open=note_opened,
            )
        with st.container(key="third_of_row_by_distance"):
            theme = st.context.theme.type or "light"
            figure = bias_figure(bias.distances.tolist(), bias.by_distance.numpy(), head, theme=theme)
            st.plotly_chart(figure, key="bias_by_distance", theme=None, config={"displayModeBar": False})
        with st.container(key="third_of_row_slopes"):
            _draw_heads(bias)
    st.caption(_source(trace, bias))
    name = f"{view.model.name}, layer {layer}, head {head}"
    words = f"{view.model.name}_layer{layer}_head{head}_bias"
    open_noted_matrix(view, {matrix.name: matrix}, names={matrix.name: Named(f"{name}: {matrix.title}", words)})


def bias_matrix(trace: vm.Trace, layer: int, head: int, bias: DistanceBias) -> Matrix:
    tokens = labels(trace.token_bytes)
    return Matrix(
        "bias",
        "Bias minus the bias at j = i",
        bias.rows[head].float().numpy(),
        tokens,
        tokens,
        caption=f"layer {layer}, head {head}: b_ij − b_ii, added to the scores",
        role="scores",
        scale="diverging",
        allowed=trace.mask(layer).numpy(),
        rows_are_queries=True,
        columns_are_keys=True,
    )


def _trace(view: View) -> vm.Trace | None:
    """The pass through the part that is looked at, or of a part that reads itself; None where neither has a bias."""
    parts = [view.trace.part, *(part for part in view.trace.config.parts if part != "cross")]
    seen = (view.trace.of(part) for part in parts)
    return next((one for one in seen if one.bias(0, 0) is not None), None)


def _formula(trace: vm.Trace, layer: int, head: int, bias: DistanceBias) -> str:
    formula = rf"$A = {AttentionFormula.of(trace, layer).latex_weights}$"
    if bias.slopes is None:
        return (
            f"{formula}. The model learned one number b for each head and each group of distances; far distances share "
            "a number. Softmax ignores what is the same in a whole row, so only differences within a row count."
        )
    slope = bias.slopes[head]
    return (
        rf"{formula}. In this model $b_{{ij}}$ grows by a slope $m_h$ from each key to the next. This is called ALiBi. "
        r"Softmax ignores what is the same in a whole row, so the bias acts like $-m_h\,(i - j)$. Slopes are fixed, "
        f"not learned. Head {head} has $m_h = {n(slope)}$: each further token between query and key divides the "
        f"weight by $e^{{m_h}} = {n(math.exp(slope))}$."
    )


def _draw_heads(bias: DistanceBias) -> None:
    """The slopes, and how far back a weight is halved; of other biases, where each head reads most by itself."""
    if bias.slopes is not None:
        table = {
            "head": range(len(bias.slopes)),
            "slope": [number(slope, 4) for slope in bias.slopes],
            "halved every … tokens": [number(math.log(2) / slope, 3) for slope in bias.slopes],
        }
    else:
        likeliest = bias.by_distance.argmax(1)
        table = {
            "head": range(len(bias.rows)),
            "largest bias at j − i": bias.distances[likeliest].tolist(),
            "that bias": [number(value, 3) for value in bias.by_distance.amax(1).tolist()],
        }
    st.dataframe(pd.DataFrame(table), hide_index=True, height=min(36 + 35 * len(bias.rows), 330), key="heads_of_bias")


def _source(trace: vm.Trace, bias: DistanceBias) -> str:
    found = "These are the numbers that the pass added to the scores"
    found += f"; at one distance they differ by at most {number(bias.spread, 2)}. " if bias.spread else ". "
    if bias.slopes is not None:
        return found + "ALiBi has a number for every distance: Press et al. 2022, “Train Short, Test Long”, §3."
    also = (
        "This model also adds a row for each position to the embedding. " if trace.config.position == "learned" else ""
    )
    return f"{found}{also}Raffel et al. 2020 (T5), §2.1."
