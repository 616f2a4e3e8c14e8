"""The arithmetic of the chosen cell, written out with its numbers."""

import numpy as np
import pandas as pd
import streamlit as st

from viz_model.heads.cell_arithmetic import CellArithmetic, cell_arithmetic
from viz_ui.frame.edits import queries_with_set_weights
from viz_ui.frame.view import View
from viz_ui.look.formulas import coloured
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain


def draw_arithmetic(view: View, *, products_open: bool = False) -> None:
    """How the chosen query and key come to their weight: every step with its real numbers."""
    i, j = view.query, view.key
    cell = cell_arithmetic(view.trace, view.layer, view.head, i, j)
    reads = "reads" if cell.allowed else "may not read"
    st.markdown(f"**{plain(view.labels[i])}** {reads} **{plain(view.key_labels[j])}** in {view.where}:")
    st.markdown(
        "\n".join(
            [
                "| step | with the numbers of this cell |",
                "|--|--|",
                *(f"| {words} | ${formula}$ |" for words, formula in lines(cell, i, j)),
            ]
        )
    )
    own = f"The model's own weight is {number(cell.drawn_weight, 6)}"
    if i in queries_with_set_weights(view.edits, view.part, view.layer, view.head):
        st.markdown(
            f":orange-badge[edited pass] An edit changes the weights of this row after the softmax: here the weight is "
            f"**{number(cell.drawn_weight, 6)}** instead of {number(cell.weight, 6)}.",
            help=explained("edited pass"),
        )
        checked = f"{own}, after the edit."
    else:
        difference = number(abs(cell.weight - cell.drawn_weight), 2)
        checked = f"{own}, and the recomputed weight differs from it by {difference}."
    st.caption(
        f"These steps are recomputed in 64 bits from Q, K{'' if cell.bias is None else ', the bias'} and the mask. "
        f"{checked} m is the largest score of the row. m is subtracted so that exp cannot overflow; the division by "
        "the row's sum cancels m again."
    )
    with st.expander(f"The {len(cell.products)} products of q · k", expanded=products_open):
        draw_products(cell)


def lines(cell: CellArithmetic, i: int, j: int) -> list[tuple[str, str]]:
    """The steps from q·k to the share of v: words, and LaTeX in the colours of the roles."""
    width = len(cell.products)
    first = " + ".join(f"({n(q)})({n(k)})" for q, k in zip(cell.query[:2], cell.key[:2], strict=True))
    entering, more = n(cell.entering), r" + \dots" if width > 2 else ""
    steps = [
        (
            f"{width} products, added",
            coloured(rf"Q_{{{i}}} \cdot K_{{{j}}} = {first}{more} = ") + f"{n(cell.raw)}",
        ),
        _scaled(cell),
        *_before_the_mask(cell),
    ]
    if not cell.allowed:
        return [
            *steps,
            ("plus the mask", rf"{entering} + M = {entering} + (-\infty) = -\infty"),
            (
                "softmax",
                coloured("A = ") + r"e^{-\infty} / \textstyle\sum = 0, \text{ the mask forbids this cell}",
            ),
        ]
    return [
        *steps,
        ("plus the mask", rf"{entering} + M = {entering} + 0 = {entering}"),
        ("exp", rf"e^{{{entering} - m}} = e^{{{entering} - ({n(cell.row_maximum)})}} = {n(cell.exponential, 6)}"),
        *_of_sink(cell),
        (
            "divided by the row's sum",
            coloured(rf"A_{{{i},{j}}} = ") + rf"{n(cell.exponential, 6)} / {n(cell.row_sum, 6)} = {n(cell.weight, 6)}",
        ),
        (
            "times the length of v",
            coloured(r"A \cdot \lVert V \rVert = ")
            + rf"{n(cell.weight)} \cdot {n(cell.value_length)} = {n(cell.carried)}",
        ),
    ]


def _scaled(cell: CellArithmetic) -> tuple[str, str]:
    width = len(cell.products)
    if np.isclose(cell.scale, width**-0.5):
        return "divided by √D", coloured("S = ") + rf"{n(cell.raw)} / \sqrt{{{width}}} = {n(cell.score)}"
    return "times this model's scale", coloured("S = ") + rf"{n(cell.raw)} \cdot {n(cell.scale)} = {n(cell.score)}"


def _before_the_mask(cell: CellArithmetic) -> list[tuple[str, str]]:
    """What some models do to a score: a soft cap (Gemma 2), a bias by distance (T5)."""
    steps = []
    if cell.softcap is not None:
        cap, score = n(cell.softcap), n(cell.score)
        steps.append(("capped", rf"{cap} \tanh({score} / {cap}) = {n(cell.capped)}"))
    if cell.bias is not None:
        steps.append(("plus the bias", rf"{n(cell.capped)} + ({n(cell.bias)}) = {n(cell.entering)}"))
    return steps


def _of_sink(cell: CellArithmetic) -> list[tuple[str, str]]:
    """The sink (gpt-oss): one more number in the row's sum. Its share of the weight carries no value."""
    if cell.sink is None:
        return []
    formula = rf"e^{{{n(cell.sink)} - m}} = {n(cell.of_sink, 6)}"
    return [("exp of the sink, part of the row's sum", formula)]


def draw_products(cell: CellArithmetic) -> None:
    """The D products as a table that adds up to q · k."""
    table = pd.DataFrame(
        {
            "d": np.arange(len(cell.products)),
            "q": cell.query,
            "k": cell.key,
            "q·k": cell.products,
            "sum so far": np.cumsum(cell.products),
        }
    )
    formats = {name: st.column_config.NumberColumn(format="%.6f") for name in table.columns[1:]}
    st.dataframe(table, hide_index=True, column_config=formats, height=280, key="products")
    st.text(f"Sum of the {len(cell.products)} products: {number(cell.products.sum(), 7)}")


def n(value: float, digits: int = 4) -> str:
    """A number as LaTeX, of so many significant digits."""
    text = number(value, digits).replace("−", "-").replace(",", "{,}")  # a bare comma would leave a gap
    if "×10" in text:
        mantissa, power = text.split("×10")
        power = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
        return rf"{mantissa} \times 10^{{{power}}}"
    return text
