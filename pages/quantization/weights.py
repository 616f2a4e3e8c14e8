"""One matrix before and after: its levels, a part of its numbers, the arithmetic of one weight; all in a table."""

import numpy as np
import pandas as pd
import streamlit as st
from torch import Tensor

from pages.quantization.choice import bytes_words, quantized_trace, stack_of
from pages.quantization.levels_figure import levels_figure
from pages.quantization.outliers_figure import outliers_figure
from viz_model.quantization.cells import QuantizedCell, level_counts, quantized_cell
from viz_model.quantization.codes import NF4Blocks
from viz_model.quantization.twin import LLM_INT8, Quantized, QuantizedTensor, outlier_bytes
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.address import choose_pair, chosen_value, half_of_pair, held, hold, linked
from viz_ui.frame.forms import PairOfNumbers
from viz_ui.frame.view import View, choose_head
from viz_ui.look.text import number, percent, plain
from viz_ui.parts.open_matrix import named, note_opened, open_noted_matrix
from viz_ui.parts.written_arithmetic import n

ROWS, COLUMNS = 8, 64  # what is drawn of a matrix; 64 weights of a row are a block of NF4 where N is a multiple of 64


def draw_weights(view: View, quantized: Quantized) -> None:
    """The section: one matrix before and after, and the bytes of all."""
    _, largest = quantized_trace(view, quantized)
    st.markdown(bytes_words(view, quantized, outlier_bytes(quantized, largest)))
    with st.container(horizontal=True, gap="medium"):
        levels_place, cells_place = st.container(width=390, key="levels_side"), st.container(key="cells_side")
    with levels_place:
        tensor = chosen_tensor(view, quantized)
        row, column = chosen_cell(tensor)
        cell = quantized_cell(tensor, row, column)
        draw_levels(tensor, cell)
        draw_arithmetic(tensor, row, column, cell)
    with cells_place:
        draw_cells(view, tensor, row, column)
    if quantized.choice.scheme == LLM_INT8:
        draw_outliers(quantized, tensor, largest[tensor.place.name])
    draw_table(quantized, largest)


def chosen_tensor(view: View, quantized: Quantized) -> QuantizedTensor:
    """The matrix that the reader chose, by its name in the block of the sidebar's layer."""
    stack = stack_of(view)
    here = {
        tensor.place.local: tensor
        for tensor in quantized.tensors.values()
        if (tensor.place.layer, tensor.place.stack) == (view.layer, stack)
    }
    first = next(iter(here))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        local = linked(
            st.selectbox,
            f"Matrix of {stack} layer {view.layer}" if stack else f"Matrix of layer {view.layer}",
            list(here),
            index=None,
            placeholder=_short(first),
            format_func=_short,  # the end of "attention.self.query" must be seen
            key="matrix",
            width=150,
        )
        tensor = here[local or first]
        held("matrix_cell", PairOfNumbers(("matrix_row", "matrix_column")), (0, 0))
        hold(matrix_cell=chosen_cell(tensor))
        for half, (name, axis) in enumerate((("matrix_row", "Output"), ("matrix_column", "Input"))):
            half_of_pair(st, axis, "matrix_cell", half, tensor.after.shape[half] - 1, key=name, width=104)
    return tensor


def chosen_cell(tensor: QuantizedTensor) -> tuple[int, int]:
    """Row and column of the weight that the reader chose."""
    row, column = chosen_value("matrix_cell")
    return min(row, tensor.after.shape[0] - 1), min(column, tensor.after.shape[1] - 1)


def draw_levels(tensor: QuantizedTensor, cell: QuantizedCell) -> None:
    counts = level_counts(tensor)
    first_code = tensor.after.first_code
    figure = levels_figure(
        *(part.numpy() for part in (counts.edges, counts.before, counts.levels, counts.after)),
        first_code=first_code,
        marked=cell.code - first_code,
        theme=st.context.theme.type or "light",
    )
    st.plotly_chart(figure, key="levels", theme=None, config={"displayModeBar": False})
    used = int((counts.after > 0).sum())
    share = "group of 64" if isinstance(tensor.after, NF4Blocks) else "row"
    st.caption(
        f"The charts count all {tensor.before.numel():,} weights of the matrix, each divided by the largest |w| of its "
        f"{share}. {used} of {len(counts.levels)} levels are used. The framed weight takes the orange level."
    )


def draw_cells(view: View, tensor: QuantizedTensor, row: int, column: int) -> None:
    """A part of the matrix around the chosen weight: before, codes, after, error."""
    top, left = row // ROWS * ROWS, column // COLUMNS * COLUMNS
    rows, columns = slice(top, top + ROWS), slice(left, left + COLUMNS)
    before, codes, after = (
        part[rows, columns].float().numpy()
        for part in (tensor.before, tensor.after.codes(), tensor.after.dequantized())
    )
    height, width = before.shape
    ends = max(float(np.abs(part).max()) for part in (before, after)) or 1.0
    weights = {"low": -ends, "high": ends, "scale": "diverging"}
    last_code = tensor.after.first_code + len(tensor.after.levels) - 1
    coded = {"low": tensor.after.first_code, "high": last_code}
    coded["scale"] = "diverging" if tensor.after.first_code else "sequential"
    shared = {
        "row_labels": [str(index) for index in range(top, top + height)],
        "column_labels": [str(index) for index in range(left, left + width)],
        "row_axis": "output",
        "column_axis": "input",
        "role": "stream",
    }
    where = f"{height} of {tensor.after.shape[0]:,} rows, {width} of {tensor.after.shape[1]:,} columns"
    items = [
        Matrix("before", "W, before", before, caption=where, **weights, **shared),
        Matrix(
            "codes",
            "Codes, as stored",
            codes,
            caption=f"{len(tensor.after.levels)} levels: {tensor.after.first_code} … {last_code}".replace("-", "−"),
            **coded,
            **shared,
        ),
        Matrix("after", "Ŵ, after", after, caption="constant · level", **weights, **shared),
        Matrix("error", "Ŵ − W", after - before, caption="the error", scale="diverging", **shared),
    ]
    panels(
        items,
        key="quantized_panels",
        marked={"output": row - top, "input": column - left},
        matrix_width=540,
        feature_width=470,
        on_pick=lambda event: take_cell(event, top, left),
        on_open=note_opened,
    )
    scheme, place = "NF4" if isinstance(tensor.after, NF4Blocks) else "int8", tensor.place
    names = {item.name: named(view, f"{place.name}, {item.title}, {scheme}", f"{place.name}_{item.name}_{scheme}")
             for item in items}  # fmt: skip
    open_noted_matrix(view, {item.name: item for item in items}, names=names)


def take_cell(event: dict, top: int, left: int) -> None:
    """A weight was clicked, or the label of a row or column."""
    row, column = event["row"], event["column"]
    choose_pair("matrix_cell", None if row is None else top + row, None if column is None else left + column)


def draw_arithmetic(tensor: QuantizedTensor, row: int, column: int, cell: QuantizedCell) -> None:
    """How the framed weight gets its code, and what number the code stands for."""
    first, last = (f"w_{{{place[0]},{place[1]}}}" for place in (cell.first, cell.last))
    in_blocks = isinstance(tensor.after, NF4Blocks)
    lines = [
        ("weight", f"w_{{{row},{column}}} = {n(cell.weight)}"),
        (
            f"largest |w| of its {'group' if in_blocks else 'row'}",
            f"c = \\max \\lvert {first} \\dots {last} \\rvert = {n(cell.maximum)}",
        ),
        ("divided by c", f"w / c = {n(cell.scaled)}"),
    ]
    if in_blocks:
        lines += [
            ("nearest level", f"{n(cell.level)}, \\text{{ code }} {cell.code}"),
            ("c, kept in 8 bits", f"\\hat c = {n(cell.constant)}"),
            ("dequantized", f"\\hat w = {n(cell.constant)} \\cdot {factor(cell.level)} = {n(cell.after)}"),
        ]
    else:
        lines += [
            ("rounded", f"\\mathrm{{round}}(127 \\cdot {factor(cell.scaled)}) = {cell.code}"),
            ("dequantized", f"\\hat w = {n(cell.constant)} \\cdot {factor(cell.code)} / 127 = {n(cell.after)}"),
        ]
    lines.append(("error", f"\\hat w - w = {n(cell.error)}"))
    rows = [f"| {words} | ${formula}$ |" for words, formula in lines]
    st.markdown("\n".join(["| step | the framed weight |", "|--|--|", *rows]))


def factor(value: float | int) -> str:
    """The number as the second factor of a product: a negative one stands in parentheses."""
    words = str(value) if isinstance(value, int) else n(value)
    return f"({words})" if value < 0 else words


def draw_outliers(quantized: Quantized, tensor: QuantizedTensor, largest: Tensor) -> None:
    """The largest input of this matrix in each column, against the threshold."""
    threshold = quantized.choice.threshold
    count = int((largest >= threshold).sum())
    st.markdown(
        f"**Outlier columns.** In this pass **{count} of {len(largest):,}** input columns of the matrix "
        f"{plain(tensor.place.name)} reach the threshold {number(threshold, 2)} and stay in 16 bits. The largest input "
        f"of this matrix is **{number(largest.max().item())}**."
    )
    figure = outliers_figure(largest.numpy(), threshold, theme=st.context.theme.type or "light")
    st.plotly_chart(figure, key="outliers", theme=None, config={"displayModeBar": False})


def draw_table(quantized: Quantized, largest: dict[str, Tensor]) -> None:
    """Every quantized matrix in numbers; marking a row opens it above."""
    tensors = list(quantized.tensors.values())
    table = pd.DataFrame(
        {
            "matrix": [tensor.place.name for tensor in tensors],
            "outputs": [tensor.after.shape[0] for tensor in tensors],
            "inputs": [tensor.after.shape[1] for tensor in tensors],
            "bytes before": [tensor.bytes_before for tensor in tensors],
            "bytes after": [tensor.bytes_after for tensor in tensors],
            "bits": [tensor.bits_per_weight for tensor in tensors],
            "error": [tensor.relative_error for tensor in tensors],
            "largest error": [tensor.largest_error for tensor in tensors],
        }
    )
    if largest:
        table["outliers"] = [int((largest[name] >= quantized.choice.threshold).sum()) for name in table["matrix"]]
    st.markdown(
        f"**Every matrix.** Over all matrices together, the relative error ‖Ŵ − W‖ / ‖W‖ is "
        f"**{percent(quantized.relative_error, 4)}**."
    )
    st.dataframe(
        table,
        hide_index=True,
        height=min(320, 36 + 35 * len(table)),
        key="matrices",
        on_select=lambda: take_row(tensors),
        selection_mode="single-row",
        column_config={
            "outputs": st.column_config.NumberColumn(format="localized"),
            "inputs": st.column_config.NumberColumn(format="localized"),
            "bytes before": st.column_config.NumberColumn(format="localized"),
            "bytes after": st.column_config.NumberColumn(format="localized", help="Codes and constants"),
            "bits": st.column_config.NumberColumn(format="%.3f", help="Bits per weight, with the constants"),
            "error": st.column_config.NumberColumn(format="percent", help="‖Ŵ − W‖ / ‖W‖, Frobenius norms"),
            "largest error": st.column_config.NumberColumn(format="%.5f", help="The largest |ŵ − w|"),
            "outliers": st.column_config.NumberColumn(help="Columns kept in 16 bits, in this pass"),
        },
    )
    st.caption("Click the title of a column to sort. Select a row to open its matrix above.")


def take_row(tensors: list[QuantizedTensor]) -> None:
    """Open the marked matrix: its layer in the sidebar, its name here."""
    for row in st.session_state.matrices["selection"]["rows"]:
        st.session_state.matrix = tensors[row].place.local
        choose_head(layer=tensors[row].place.layer)


def _short(name: str) -> str:
    return name.replace("attention", "attn")
