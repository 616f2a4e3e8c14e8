"""The rows that are added to the embedding, learned and sinusoidal: their dot products, and where they end."""

import streamlit as st
from torch import Tensor

import viz_model as vm
from pages.positions.figures import distance_figure
from viz_model.positions.schemes import moved_on
from viz_model.positions.tables import cosines, cosines_by_distance, learned_table
from viz_model.transformer.positions import sinusoidal_table
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.address import linked
from viz_ui.frame.view import choose_picked_cell, current_view
from viz_ui.look.text import number, plain
from viz_ui.parts.fitting_model import ADDED, FittingPrompt, drawn, is_ours
from viz_ui.parts.open_matrix import Named, note_opened, open_noted_matrix


def draw_tables() -> None:
    """The whole section."""
    view = current_view()
    shown = drawn(
        view,
        lambda config: is_ours(config) and config.position in ADDED,
        "a model of this project that adds rows of positions to its embedding",
    )
    config = shown.model.config
    tables = position_tables(shown.model)
    with st.container(horizontal=True, vertical_alignment="center"):
        name = linked(
            st.segmented_control,
            "Table",
            list(tables),
            default=next(iter(tables)),
            required=True,
            key="table",
            label_visibility="collapsed",
        )
        st.markdown(_words(shown, name), width="content")
    if shown.note:
        st.caption(shown.note)
    table = tables[name]
    matrices = table_matrices(shown, name, table)
    with st.container(horizontal=True):
        with st.container(key="third_of_row_table"):
            panels([matrices[0]], key="table_panel", **_shared(shown))
        with st.container(key="third_of_row_cosines"):
            panels([matrices[1]], key="cosines_panel", **_shared(shown))
            st.caption(_pair_words(shown, table))
        with st.container(key="third_of_row_curve"):
            _draw_curve(tables, config.context_length)
    st.markdown(past_the_end(shown.model))
    open_noted_matrix(
        view,
        {matrix.name: matrix for matrix in matrices},
        names={
            matrix.name: Named(f"{shown.model.name}: {matrix.title}", f"{shown.model.name}_{name}_{matrix.name}")
            for matrix in matrices
        },
    )


def position_tables(model: vm.Model) -> dict[str, Tensor]:
    """Tables of the size of the model's own, (context length, C), its own one first."""
    config = model.config
    tables = {"learned": learned_table(model.transformer)} if config.position == "learned" else {}
    if config.d_model % 2 == 0:
        tables["sinusoidal"] = sinusoidal_table(config.context_length, config.d_model)
    return tables


def _words(shown: FittingPrompt, name: str) -> str:
    config = shown.model.config
    if name == "sinusoidal":
        own = "" if config.position == name else " The table is as large as the learned one."
        return (
            r"$p_{m,2i} = \sin(m/10000^{2i/C})$, $p_{m,2i+1} = \cos(m/10000^{2i/C})$."
            f"{own} The dot product of two rows depends only on the distance between their positions."
        )
    return (
        f"{plain(shown.model.name)} learned one row for each position. No formula says that position 7 is next to "
        "position 8. (Training of the bundled models started from sinusoidal rows.)"
    )


def table_matrices(shown: FittingPrompt, name: str, table: Tensor) -> list[Matrix]:
    rows = [str(position) for position in range(len(table))]
    columns = [str(number) for number in range(table.shape[1])]
    return [
        Matrix(
            "rows",
            f"{name.capitalize()} rows, P",
            table.numpy(),
            rows,
            columns,
            row_axis="position",
            column_axis="feature",
            caption=f"(positions, C) = {tuple(table.shape)}",
            role="stream",
            scale="diverging",
            rows_are_queries=True,
        ),
        Matrix(
            "cosines",
            "How similar two rows are",
            cosines(table).float().numpy(),
            rows,
            rows,
            row_axis="position i",
            column_axis="position j",
            caption="their cosine, p_i · p_j / (‖p_i‖ ‖p_j‖)",
            role="scores",
            scale="diverging",
            low=-1.0,
            high=1.0,
            rows_are_queries=True,
            columns_are_keys=True,
        ),
    ]


def _pair_words(shown: FittingPrompt, table: Tensor) -> str:
    """The rows of the chosen query and key in numbers."""
    i, j = shown.query, shown.key
    first, second = table[i].double(), table[j].double()
    lengths = first.norm().item(), second.norm().item()
    product = (first @ second).item()
    return (
        f"Rows {i} and {j} have the dot product {number(product, 3)}, the lengths {number(lengths[0], 3)} and "
        f"{number(lengths[1], 3)}, and the cosine {number(product / (lengths[0] * lengths[1]), 3)}."
    )


def _shared(shown: FittingPrompt) -> dict:
    """What both matrices have: the positions of the chosen query and key framed; only the prompt's can be chosen."""

    def pick(event: dict) -> None:
        if max(event["query"] or 0, event["key"] or 0) < len(shown.ids):
            choose_picked_cell(event)

    return {
        "selected": (shown.query, shown.key),
        "matrix_width": 420,
        "feature_width": 300,
        "on_pick": pick,
        "on_open": note_opened,
    }


def _draw_curve(tables: dict[str, Tensor], trained: int) -> None:
    """Cosines by distance of both tables; the sinusoidal one goes on beyond the trained length."""
    curves = {}
    for name, table in tables.items():
        longer = sinusoidal_table(2 * trained, table.shape[1]) if name == "sinusoidal" else table
        found = cosines_by_distance(longer)
        band = (found.least.numpy(), found.largest.numpy()) if name == "learned" else None
        curves[name] = found.mean.numpy(), band
    theme = st.context.theme.type or "light"
    figure = distance_figure(curves, trained=trained, theme=theme)
    st.plotly_chart(figure, key="by_distance", theme=None, config={"displayModeBar": False})


def past_the_end(model: vm.Model) -> str:
    """What each scheme does at the first position beyond the trained length, in sentences.

    That of the learned table is the model's own error.
    """
    config = model.config
    words = [f"**Beyond the trained length of {config.context_length:,} tokens.**"]
    if config.position == "learned":
        try:
            with vm.edit(moved_on(model, config.context_length)):
                model.trace([0])
        except vm.VizError as error:
            words.append(f"Learned: {plain(str(error))}")
    row = sinusoidal_table(config.context_length + 1, config.d_model)[-1]
    numbers = ", ".join(number(value) for value in row[:4].tolist())
    words.append(f"Sinusoidal: the formula goes on, and row {config.context_length} begins with {numbers} …")
    words.append(
        "RoPE: every position has angles, but a model is not trained on distances beyond its trained length (see "
        "Rotation)."
    )
    return " ".join(words)
