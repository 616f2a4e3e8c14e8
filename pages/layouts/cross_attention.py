"""Cross-attention: which letters of a written date the decoder reads when it writes each digit."""

from datetime import date

import numpy as np
import streamlit as st

import viz_model as vm
from pages.layouts.examples import BOTH, FIRST_SOURCE, Example, draw_source, example, example_model, say_edits
from viz_model.heads.comparison import likeliest_next
from viz_model.training.dates import FIELDS, forms_of, split_days, written
from viz_ui.components.head_grid import head_grid
from viz_ui.components.panels import Bars, Lines, Matrix, panels
from viz_ui.frame.address import choose, choose_pair, held
from viz_ui.frame.forms import PairOfNumbers
from viz_ui.frame.view import current_view
from viz_ui.look.colours import sequential_lut
from viz_ui.look.text import labels, number, plain, shown
from viz_ui.look.thumbnails import thumbnails
from viz_ui.parts.open_matrix import Named, note_opened, open_noted_matrix, pass_words

FIRST_DIGIT = 6  # of the month: what a first visitor sees


def draw_cross_attention() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _draw_texts()
        one = example(BOTH)
        st.subheader(f"→ {plain(''.join(shown(piece) for piece in one.trace.read.pieces[1:]))}", width="content")
    say_edits([one])
    trace = one.trace.of("cross")
    layer, head = _choose_head(one, trace)
    with st.container(horizontal=True, gap="medium"):
        with st.container(width=290):
            _draw_heads(one, trace, layer, head)
        with st.container(key="cross_side"):
            _draw_head(one, trace, layer, head)
    st.caption(
        "The queries come from the decoder; the keys and values come from the encoder output (Vaswani et al. 2017, "
        "§3.2.3). Such weights show which part of one text corresponds to which part of the other (Bahdanau et al. "
        "2015, “Neural Machine Translation by Jointly Learning to Align and Translate”, §5.2.1)."
    )


def _draw_texts() -> None:
    """The written date, examples, and a button for a date that was not used in training."""
    draw_source()
    examples = example_model(BOTH).examples or {FIRST_SOURCE: FIRST_SOURCE}
    st.menu_button(
        "Examples",
        list(examples),
        key="source_example",
        format_func=plain,
        on_click=lambda: _take(examples[st.session_state.source_example]),
        icon=":material/list:",
    )
    words = "Takes a random date. No such date was used in training."
    st.button("Another date", on_click=_take_held_out, icon=":material/casino:", help=words)


def _take(text: str) -> None:
    choose(source=text, cross_cell=None)


def _take_held_out() -> None:
    random = np.random.default_rng()
    day: date = split_days()[1][random.integers(len(split_days()[1]))]
    forms = forms_of(day)
    _take(written(forms[random.integers(len(forms))], day).text)


def _choose_head(one: Example, trace: vm.Trace) -> tuple[int, int]:
    """The layer and head of this section. The numbers in the sidebar belong to the model that is chosen there.

    Before anything is chosen, the head that was measured to read the right letters most.
    """
    chosen = held("cross_head", PairOfNumbers(("cross_layer", "cross_head")))
    if chosen is not None:
        return min(chosen[0], trace.n_layers - 1), min(chosen[1], trace.config.n_heads - 1)
    best = np.sum(list(_measured(one.model).values()) or np.zeros((1, trace.n_layers, trace.config.n_heads)), axis=0)
    first = np.unravel_index(int(best.argmax()), best.shape)
    return int(first[0]), int(first[1])


def _draw_heads(one: Example, trace: vm.Trace, layer: int, head: int) -> None:
    weights = [[trace.weights(n, h).numpy() for h in range(trace.config.n_heads)] for n in range(trace.n_layers)]
    small, _ = thumbnails(np.array(weights), 0, 1)
    head_grid(
        small,
        None,
        sequential_lut(),
        layer=layer,
        head=head,
        labels=_notes(one.model, trace.n_layers),
        key="cross_grid",
        on_pick=_pick_head,
    )
    st.caption(
        "Colours go from weight 0 to weight 1. “year 0.38” under a head means: while the model writes the year, this "
        "head puts a mean weight of 0.38 on the characters of the year in the source. This mean was measured on "
        "dates not used in training. Change US to UK in a date such as 5/3/24 (US), and see what each digit reads. In "
        "the large matrix, the row “0 → 2” is the query at position 0, which writes 2."
    )


def _measured(model: vm.Model) -> dict[str, np.ndarray]:
    """The mean weight of each head on the letters of the right field, on held-out dates: (L,H) each."""
    tables = {field: model.measured_heads.get(f"{field}_letters") for field in FIELDS}
    return {} if None in tables.values() else {field: np.array(table) for field, table in tables.items()}


def _notes(model: vm.Model, layers: int) -> list[list[str]]:
    """The same as a note for each head, where it is at least 0.3."""
    tables = _measured(model)
    return [
        [
            ", ".join(
                f"{field} {number(table[layer][head], 2)}"
                for field, table in tables.items()
                if table[layer][head] >= 0.3
            )
            for head in range(model.config.n_heads)
        ]
        for layer in range(layers)
    ]


def _pick_head(layer: int, head: int) -> None:
    choose(cross_head=(layer, head))


def _pick_cell(event: dict) -> None:
    choose_pair("cross_cell", event["query"], event["key"], instead=(FIRST_DIGIT, None))


def _choose_cell(trace: vm.Trace) -> tuple[int, int | None]:
    """The digit written, and the letter; None for the one that it reads most."""
    digit, letter = held("cross_cell", PairOfNumbers(("digit", "letter"), missing=None)) or (FIRST_DIGIT, None)
    return min(digit, trace.length - 1), None if letter is None else min(letter, trace.key_length - 1)


def _draw_head(one: Example, trace: vm.Trace, layer: int, head: int) -> None:
    weights = trace.weights(layer, head).numpy()
    digit, letter = _choose_cell(trace)
    said = one.model.token_bytes(likeliest_next(trace))
    end = one.model.token_bytes([one.model.end_token])
    rows = [f"{n} → {'end' if [piece] == end else shown(piece)}" for n, piece in enumerate(said)]
    matrix = Matrix(
        "weights",
        f"Layer {layer}, head {head}: target × source",
        weights,
        rows,
        labels(trace.key_token_bytes),
        row_axis="digit written",
        column_axis="letter read",
        caption=f"softmax(QKᵀ/√D): (T, S) = {weights.shape}, nothing masked",
        role="weights",
        rows_are_queries=True,
        columns_are_keys=True,
    )
    panels(
        [matrix, Lines("lines", "Which digit reads which letter"), Bars("bars", "What the digit reads")],
        key="cross_panels",
        selected=(digit, int(weights[digit].argmax()) if letter is None else letter),
        matrix_width=560 if trace.key_length > 16 else 430,  # a short source's cells would be too tall for the screen
        list_height=330,
        on_pick=_pick_cell,
        on_open=note_opened,
    )
    words = f"{one.model.name}, decoder, layer {layer}, head {head}: cross-attention"
    file_name = f"{one.model.name}_cross_layer{layer}_head{head}_weights"
    open_noted_matrix(
        current_view(), {"weights": matrix}, names={"weights": Named(words, file_name, pass_words(trace))}
    )
