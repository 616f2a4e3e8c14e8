"""Does a high attention weight mean that the token mattered? Cells of the query's row are forbidden, one at a time."""

from math import isnan

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from viz_model.misconceptions.weight import HEAVIEST, Cell, Weighing, weigh
from viz_ui.frame.jobs import kept_result
from viz_ui.frame.passes import takes_a_second
from viz_ui.frame.view import View
from viz_ui.look.colours import ROLES
from viz_ui.look.figures import GRID, PAGE, TEXT, Theme, curves_layout
from viz_ui.look.text import number, plain, plotly_text

PASSES = 130  # about as many as there are cells


def draw(view: View) -> None:
    found = kept_result(
        lambda tell: weigh(view.model, view.trace, view.query, position(view), tell),
        words=f"Forbidding cells of query {view.query}, one at a time",
        name="weighing",
        of=(*view.pass_key, view.part, view.query),
        at_once=not takes_a_second(view.model, view.trace.read.ids, PASSES),
    )
    st.markdown(answer(found, view.key_labels))
    st.plotly_chart(
        scatter_figure(found, view.key_labels, theme=st.context.theme.type or "light"),
        config={"displayModeBar": False},
        key="weighing",
    )
    cells = f"All {found.of} cells" if found.of == len(found.cells) else f"{len(found.cells)} of {found.of:,} cells"
    rest = "" if found.of == len(found.cells) else f": the {HEAVIEST} heaviest, and others spread evenly over the rest"
    st.caption(
        f"A dot is a cell of the row of query {view.query}, in one of the heads of all layers. {cells} were "
        f"tried{rest}. In each pass one cell is forbidden, as by a mask, so that the other weights of its row grow. "
        "The effect is the KL divergence of the prediction: KL(all cells‖without this cell). Its scale is logarithmic. "
        f"Effects of up to {number(found.rounding, 2)} bits may be only rounding, so they are all drawn at this "
        "height. Jain & Wallace 2019, “Attention is not Explanation”; what would count as an explanation is disputed: "
        "Wiegreffe & Pinter 2019, “Attention is not not Explanation”."
    )


def position(view: View) -> int:
    """Where the prediction is compared: at the query, or where an encoder has none, at the end of the decoder."""
    return view.trace.of(view.model.config.self_part).length - 1 if view.part == "encoder" else view.query


def answer(found: Weighing, keys: list[str]) -> str:
    pair = found.pair
    heaviest = found.cells[0].weight
    if pair is None:
        verdict = (
            "**For this query, yes:** no light cell matters much more than a heavy one. “Heavy” means at least half of "
            f"the highest weight, which is {number(heaviest, 3)}. “Light” means at most half the weight of the heavy "
            "cell. “Much more” means that the prediction changes at least twice as much. Try another query or prompt."
        )
    else:
        heavy, light = pair
        verdict = (
            f"**No.** {_gives(heavy, keys)} the weight **{number(heavy.weight, 3)}**. Without this cell, the "
            f"prediction changes by **{number(heavy.effect, 3)} bits**. {_gives(light, keys)} only "
            f"**{number(light.weight, 3)}**, and without it the prediction changes by "
            f"**{number(light.effect, 3)} bits**."
        )
    all_cells, heavy_cells = found.correlation(), found.correlation(HEAVIEST)
    if isnan(all_cells):
        return verdict
    over = f"Over all {len(found.cells)} cells, the rank correlation of weight and effect is **{number(all_cells, 2)}**"
    if len(found.cells) > HEAVIEST and not isnan(heavy_cells):
        over += f"; over the {HEAVIEST} heaviest it is **{number(heavy_cells, 2)}**"
    return f"{verdict} {over}. It would be 1 if a heavier cell always mattered more."


def _gives(cell: Cell, keys: list[str]) -> str:
    return f"Head {cell.head} of layer {cell.layer} gives key {plain(keys[cell.key])}"


def scatter_figure(found: Weighing, keys: list[str], *, theme: Theme) -> go.Figure:
    """Weights and effects, and the two cells of the answer."""
    role = ROLES["weights"]
    hue = role.on_dark if theme == "dark" else role.on_light
    groups = {"cells": (found.cells, "circle", 8, hue)}
    if found.pair is not None:
        groups["high weight, small effect"] = (found.pair[:1], "diamond", 15, TEXT[theme])
        groups["lower weight, larger effect"] = (found.pair[1:], "star", 17, TEXT[theme])
    figure = go.Figure()
    for name, (cells, symbol, size, colour) in groups.items():
        figure.add_scatter(
            x=[cell.weight for cell in cells],
            y=np.maximum([cell.effect for cell in cells], found.rounding),
            name=name,
            mode="markers",
            marker={"symbol": symbol, "size": size, "color": colour, "line": {"color": PAGE[theme], "width": 1}},
            customdata=[
                [f"layer {cell.layer}, head {cell.head}, key {plotly_text(keys[cell.key])}", _effect(cell, found)]
                for cell in cells
            ],
            hovertemplate="%{customdata[0]}<br>weight <b>%{x:.4~g}</b>, effect <b>%{customdata[1]}</b><extra></extra>",
        )
    figure.update_xaxes(title="attention weight", gridcolor=GRID, range=[-0.02, 1.02], automargin=True)
    figure.update_yaxes(
        title="effect without it, bits", type="log", exponentformat="power", gridcolor=GRID, automargin=True
    )
    figure.update_layout(
        margin={"l": 10, "r": 10, "t": 30, "b": 10}, **curves_layout(theme, 330) | {"hovermode": "closest"}
    )
    return figure


def _effect(cell: Cell, found: Weighing) -> str:
    return f"{number(cell.effect)} bits" if cell.effect > found.rounding else "no more than rounding"
