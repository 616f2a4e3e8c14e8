"""Heads: every head at a glance, and the chosen one as a matrix, as lines and as bars."""

from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st

import viz_model as vm
from pages.heads import head_values
from pages.heads.grid import grid_pictures, measured
from pages.heads.head_values import CARRIED, DRAWN, WEIGHTS
from viz_model.heads.finder import weight_on
from viz_model.heads.names import HeadNames
from viz_ui.components.head_grid import head_grid
from viz_ui.components.panels import Bars, Lines, Matrix, panels
from viz_ui.frame.address import bring_sidebar_along, linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.sent_messages import note_sent
from viz_ui.frame.view import View, choose_head_to_read, current_view
from viz_ui.look.colours import diverging_lut, sequential_lut
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, number
from viz_ui.look.thumbnails import pooling_words
from viz_ui.parts.cell import draw_cell
from viz_ui.parts.edit_form import draw_cell_edits
from viz_ui.parts.head_names import draw_names_source, kept_names, where_from
from viz_ui.parts.open_matrix import note_opened, open_noted_matrix
from viz_ui.parts.special_tokens import Shown, choose_shown, say_hidden
from viz_ui.parts.weight_colours import WeightColours, choose_weight_colours

# What a checkpoint's figures say of a head: where its mean weight goes. An encoder-decoder has them of cross-attention.
# Then by name of the figure: on which texts it was measured.
MEASURED = {
    "mean weight on the previous token": {
        "previous_text": "on text not used in training",
        "previous_random": "on repeated random tokens",
    },
    "mean weight on the next token": {"next_text": "on text not used in training"},
    "mean weight on the token right after an earlier copy of the query's token": {
        "induction": "on repeated random tokens",
        "induction_text": "on repeated text that was not used in training",
    },
    "mean weight on the characters of the year while the model writes it": {
        "year_letters": "on dates not used in training"
    },
    "mean weight on the characters of the month while the model writes it": {
        "month_letters": "on dates not used in training"
    },
    "mean weight on the characters of the day while the model writes it": {
        "day_letters": "on dates not used in training"
    },
}

SHORT = 40  # tokens, up to which matrix and lines stand side by side

WIDTHS = {"entropy": 60, "previous": 64}  # pixels that these column names need

COLUMNS = {
    "layer": "Layer",
    "head": "Head",
    "cell": "The weight of the chosen query on the chosen key: sort by it to see which heads read this key",
    "entropy": "How evenly a query spreads its weights, in bits: 0 if it reads one token, log₂ n if it reads n equally",
    "first": "The weight on the first key",
    "itself": "The weight of a token on itself",
    "previous": "The weight on the token right before the query. The first query has no such token and is left out",
}

NAME = (
    "The patterns that get most of the head's attention over a text, and the share that they get. A head is mixed if "
    "they get less than half"
)


def draw() -> None:
    st.title("Heads")
    st.markdown(
        "**Which tokens does each head read?** A row of a matrix is a query, a token that reads. A column is a key, a "
        "token that is read. Click a head in the grid, then click a cell to see its arithmetic below.",
        help=explained("attention weight", "score", "softmax", "value"),
    )
    draw_heads(*draw_switches())
    view = current_view()
    draw_cell(view)
    draw_cell_edits(view)


@st.fragment
def draw_heads(drawn: head_values.HeadQuantity, colours: WeightColours, shown: Shown) -> None:
    """The grid, the chosen head and the table: a fragment, so that another head is on screen at once."""
    note_sent()
    view = current_view()
    names = kept_names(view)
    with st.container(horizontal=True, gap="medium"):
        heads_side, head_side = st.container(width=340), st.container(key="head_side")
    with head_side, main_picture():  # first, so that it is drawn while the rest is still under way
        draw_head(view, drawn, colours, shown)
    with heads_side:
        draw_grid(view, drawn, colours, shown, names)
        draw_names_source(view, names)
        draw_table(view, names)
    bring_sidebar_along()


def draw_switches() -> tuple[head_values.HeadQuantity, WeightColours, Shown]:
    """What is drawn, how weights are coloured, and which tokens are shown."""
    view = current_view()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = linked(
            st.segmented_control,
            "What is drawn",
            list(DRAWN),
            default=WEIGHTS,
            required=True,
            key="drawn",
            help="\n".join(
                f"- **{kind.name}**: {head_values.in_words(kind, view.trace, view.layer)}" for kind in DRAWN.values()
            ),
        )
        colours = choose_weight_colours(view.trace.key_length) if name == WEIGHTS else WeightColours("linear", True)
        shown = choose_shown(view)
    return DRAWN[name], colours, shown


def draw_grid(
    view: View, drawn: head_values.HeadQuantity, colours: WeightColours, shown: Shown, names: HeadNames | None
) -> None:
    small, seen = grid_pictures(view, drawn.name, colours, shown.hiding)
    head_grid(
        small,
        seen,
        sequential_lut() if drawn.scale == "sequential" else diverging_lut(),
        layer=view.layer,
        head=view.head,
        labels=notes(view, names),
        labels_from="" if names is None else f"name from {where_from(names)}",
        key_heads=key_heads(view),
        key="head_grid",
        on_pick=pick_head,
    )
    config = view.trace.config
    law = "" if colours.law == "linear" else f"{colours.law} "
    scale = (
        "Each thumbnail has a scale of its own."
        if colours.is_own
        else f"All thumbnails share one {law}scale, from 0 to 1."
    )
    pooled = pooling_words((len(shown.queries), len(shown.keys)), small.shape[-2:])
    shared, terms = "", []
    if key_heads(view):
        shared = f"The {config.n_heads} heads of a layer share {counted(config.n_kv_heads, 'key/value head')}."
        terms.append("grouped heads")
    st.caption(" ".join(filter(None, (scale, pooled, shared))), help=explained(*terms) or None)


def key_heads(view: View) -> list[int] | None:
    """The key/value head that each head reads, where several read one (Ainslie et al. 2023, “GQA”)."""
    config = view.trace.config
    if config.n_kv_heads == config.n_heads:
        return None
    return [config.kv_head(head) for head in range(config.n_heads)]


def longest(view: View) -> int:
    """Tokens of the longer axis."""
    return max(view.trace.length, view.trace.key_length)


def pick_head(layer: int, head: int) -> None:
    """Take the head that was clicked in the grid, and the tick off a row of the table, which names another head."""
    choose_head_to_read(layer, head)
    st.session_state.head_tables = st.session_state.get("head_tables", 0) + bool(marked_rows())


def table_key() -> str:
    """The key of the table. A new key makes a new table, without ticks."""
    return f"head_table_{st.session_state.get('head_tables', 0)}"


def marked_rows() -> list[int]:
    return st.session_state.get(table_key(), {}).get("selection", {}).get("rows", [])


def notes(view: View, names: HeadNames | None) -> list[list[str]] | None:
    """A short note for each head: its name, and what it was found to do when the checkpoint was measured."""
    is_measured = view.model.measured_heads and view.part in ("self", "cross")
    if names is None and not is_measured:
        return None

    def of(layer: int, head: int) -> str:
        name = "" if names is None else str(names.name(layer, head))
        return "; ".join(filter(None, (name, note(view.model, layer, head) if is_measured else "")))

    return [[of(layer, head) for head in range(view.trace.config.n_heads)] for layer in range(view.trace.n_layers)]


def note(model: vm.Model, layer: int, head: int) -> str:
    measured, found = model.measured_heads, []
    for what, texts in MEASURED.items():
        shares = [
            f"{number(measured[name][layer][head], 2)} {words}"
            for name, words in texts.items()
            if name in measured and measured[name][layer][head] >= 0.3
        ]
        if shares:
            found.append(f"{what}: {', '.join(shares)}")
    return "; ".join(found)


def draw_head(view: View, drawn: head_values.HeadQuantity, colours: WeightColours, shown: Shown) -> None:
    values = head_values.values(view.trace, drawn.name, view.layer, view.head)
    allowed = view.trace.mask(view.layer).numpy()
    matrix = Matrix(
        drawn.name,
        f"{view.where.capitalize()}: {drawn.name}",
        values,
        view.labels,
        view.key_labels,
        caption=f"{head_values.formula(view.trace, drawn.name, view.layer)}   (T, S) = {values.shape}",
        role=drawn.role,
        scale=drawn.scale,
        allowed=allowed if drawn.masked else None,
        rows_are_queries=True,
        columns_are_keys=True,
    )
    by_weight = view.trace.weights(view.layer, view.head).numpy() if drawn.name in (WEIGHTS, CARRIED) else None
    matrix = shown.matrix(matrix, by_weight)
    if drawn.name == WEIGHTS:
        matrix = colours.of(matrix)
    else:
        low, high = head_values.ends(matrix.values, drawn.scale)
        matrix = replace(matrix, low=low, high=high)
    panels(
        [
            matrix,
            Lines("lines", "Who reads whom", of=drawn.name),
            Bars("bars", "What the query reads", of=drawn.name),
        ],
        key="head_panels",
        selected=shown.selected(view.query, view.key),
        matrix_width=400 if longest(view) <= SHORT else 660,  # a long prompt takes the whole width
        can_zoom=True,
        on_pick=shown.choose_cell,
        on_open=note_opened,
    )
    say_hidden(view, shown, "The table and the arithmetic")
    open_noted_matrix(view, {drawn.name: matrix})


def draw_table(view: View, names: HeadNames | None) -> None:
    """What every head does on this prompt, in numbers; and its name."""
    measures = measured(view)
    layers, heads = np.indices(measures["entropy"].shape)
    cell = np.zeros((view.trace.length, view.trace.key_length), bool)
    cell[view.query, view.key] = True
    table = pd.DataFrame({"layer": layers.ravel(), "head": heads.ravel(), "cell": weight_on(view.trace, cell).ravel()})
    for name, values in measures.items():
        table[name] = values.ravel()
    if names is not None:
        table["name"] = [str(name) for of_layer in names.names for name in of_layer]
    st.dataframe(
        table,
        hide_index=True,
        height=250,
        key=table_key(),
        on_select=lambda: take_row(table),
        selection_mode="single-row",
        column_config={
            name: st.column_config.NumberColumn(
                name, format="%d" if name in ("layer", "head") else "%.2f", width=WIDTHS.get(name, 46), help=words
            )
            for name, words in COLUMNS.items()
        }
        | {"name": st.column_config.TextColumn(help=NAME)},
    )
    st.caption(
        "“cell” is the weight of the chosen cell; every other number is a mean over the queries. Click the name of a "
        "column to sort, or tick a row to choose its head.",
        help=explained("entropy", "bit"),
    )
    if not view.trace.stored:
        st.caption("The weights of a head are computed when the head is drawn, from the Q, K and mask of the pass.")


def take_row(table: pd.DataFrame) -> None:
    for row in marked_rows():
        choose_head_to_read(int(table["layer"][row]), int(table["head"][row]))


draw()
