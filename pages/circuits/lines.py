"""Which heads read what other heads write: composition as lines between the layers."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

import viz_model as vm
from pages.circuits.figures import HeadLine, line_figure
from pages.circuits.measured import composition, depends_on_distance
from viz_model.circuit.circuits import KEY, KINDS, RANDOM_PAIRS, Circuits, Composition
from viz_ui.frame.address import choose, linked
from viz_ui.frame.jobs import Stopped
from viz_ui.frame.view import View
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, number, plain, sentence

FEWEST, MOST, USUAL = 5, 100, 20  # lines
PART_WORDS = {"self": "layer ", "encoder": "encoder ", "decoder": "decoder ", "cross": "cross "}
READS = {"query": "queries", "key": "keys", "value": "values"}


@dataclass(frozen=True)
class Place:
    """A head in the picture: of which part, layer and head."""

    part: str
    layer: int
    head: int

    @property
    def words(self) -> str:
        part = "" if self.part == "self" else f" of the {self.part}" if self.part != "cross" else ", cross-attention"
        return f"layer {self.layer}, head {self.head}{part}"


Pair = tuple[Place, Place, float]  # a head that writes, one that reads it, and how much over the baseline


class HeadPairs:
    """All pairs of heads with a path from the one to the other, the strongest first.

    rows (N,4): layer and head of the one that writes, and of the one that reads; over (N,).
    """

    def __init__(self, source: str, part: str, rows: np.ndarray, over: np.ndarray):
        self.source, self.part, self.rows, self.over = source, part, rows, over

    def __len__(self) -> int:
        return len(self.over)

    def __getitem__(self, at: int) -> Pair:
        first, head, later, other = map(int, self.rows[at])
        return Place(self.source, first, head), Place(self.part, later, other), float(self.over[at])

    def first(self, most: int) -> list[Pair]:
        return [self[at] for at in range(min(most, len(self)))]

    def written_by(self, place: Place) -> Pair | None:
        """The strongest of those in which this head writes."""
        return self._first_of(self._at(place, self.source, slice(0, 2)))

    def read_by(self, place: Place) -> Pair | None:
        """The strongest of those in which it reads."""
        return self._first_of(self._at(place, self.part, slice(2, 4)))

    def of(self, place: Place) -> "HeadPairs":
        """Those in which it writes or reads."""
        kept = self._at(place, self.source, slice(0, 2)) | self._at(place, self.part, slice(2, 4))
        return HeadPairs(self.source, self.part, self.rows[kept], self.over[kept])

    def _at(self, place: Place, part: str, columns: slice) -> np.ndarray:
        return (self.rows[:, columns] == (place.layer, place.head)).all(axis=1) & (place.part == part)

    def _first_of(self, kept: np.ndarray) -> Pair | None:
        return self[int(kept.argmax())] if kept.any() else None


def pairs_of(found: Composition, part: str) -> HeadPairs:
    over = found.over.numpy()
    order = np.argsort(-np.nan_to_num(over, nan=-np.inf), axis=None, kind="stable")[: int(np.isfinite(over).sum())]
    return HeadPairs(found.source, part, np.stack(np.unravel_index(order, over.shape), axis=1), over.flat[order])


class LayerColumns:
    """Where the layers stand in the picture: those that write, and those that read, where these are others."""

    def __init__(self, source: str, part: str, layers: tuple[int, int], heads: int):
        self.heads, first = heads, [(source, layer) for layer in range(layers[0])]
        second = [] if source == part else [(part, layer) for layer in range(layers[1])]
        if source == "decoder" and second:  # each layer has one of both
            self.order = [column for pair in zip(first, second, strict=True) for column in pair]
        else:
            self.order = first + second

    @property
    def names(self) -> list[str]:
        return [f"{PART_WORDS[part]}{layer}" for part, layer in self.order]

    @property
    def points(self) -> list[Place]:
        return [Place(part, layer, head) for part, layer in self.order for head in range(self.heads)]

    def of(self, place: Place) -> tuple[int, int]:
        return self.order.index((place.part, place.layer)), place.head

    def at(self, column: int, head: int) -> Place:
        return Place(*self.order[column], head)


def draw_composition(view: View, circuits: Circuits, distance: int) -> None:
    st.subheader("Which heads read what other heads write")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        kind = linked(
            st.segmented_control,
            "Read by the later head's",
            KINDS,
            default=KEY,
            format_func=READS.get,
            required=True,
            key="composition",
        )
        most = linked(st.slider, "Lines", FEWEST, MOST, USUAL, key="lines", width=220)
        is_own = linked(st.toggle, "Only those of the chosen head", key="own_lines")
    try:
        found = composition(view, circuits, kind, distance)
    except Stopped:
        raise
    except vm.VizError as error:
        st.info(plain(sentence(str(error))), icon=":material/edit:")
        return
    columns = columns_of(found, view)
    here = Place(view.part, view.layer, view.head)
    pairs = pairs_of(found, view.part)
    if is_own:
        pairs = pairs.of(here)
    if not len(pairs):
        st.markdown("No head has a path to another one here: this needs at least two layers.")
        return
    draw_picture(columns, pairs.first(most), here, kind)
    draw_answer(pairs, here, kind)
    draw_what_is_left_out(view, found, pairs, most, kind, distance)


def columns_of(found: Composition, view: View) -> LayerColumns:
    layers = found.over.shape[0], found.over.shape[2]
    return LayerColumns(found.source, view.part, layers, view.model.config.n_heads)


def draw_picture(columns: LayerColumns, pairs: list[Pair], here: Place, kind: str) -> None:
    """The lines; a click on a head chooses it, one on a line chooses the head at its other end."""

    def picked() -> None:
        points = st.session_state.composition_lines.selection.points
        if points:
            choose_place(clicked(columns, points[0]["customdata"], here))

    lines = [HeadLine(columns.of(first), columns.of(second), over) for first, second, over in pairs]
    chosen = [columns.of(here)] if (here.part, here.layer) in columns.order else []
    st.plotly_chart(
        line_figure(
            columns.names,
            columns.heads,
            lines,
            chosen,
            role=kind,
            names=[place.words for place in columns.points],
            theme=st.context.theme.type or "light",
        ),
        key="composition_lines",
        theme=None,
        on_select=picked,
        selection_mode="points",
        config={"displayModeBar": False},
    )


def clicked(columns: LayerColumns, data: list, here: Place) -> Place:
    """The head of a point [column, head, …], or the end of a line [column, head, column, head, …] that is not chosen
    yet: the one that reads, if neither is."""
    first = columns.at(*data[:2])
    if not isinstance(data[2], int | float):
        return first
    second = columns.at(*data[2:4])
    return first if second == here else second


def choose_place(place: Place) -> None:
    """Look at a head, through its own part."""
    part = {} if place.part == "self" else {"part": place.part}
    choose(head=(place.layer, place.head), **part)


def draw_answer(pairs: HeadPairs, here: Place, kind: str) -> None:
    """The strongest pair of all, and those of the chosen head, in sentences."""
    first, second, over = pairs[0]
    st.markdown(
        f"The widest line leads from **{first.words}** to **{second.words}**: the {READS[kind]} of the later head read "
        f"what the earlier head writes. This line has the number **{number(over)}**; random matrices have 0 on "
        "average.",
        help=explained("composition", "head", "layer"),
    )
    read, readers = pairs.read_by(here), pairs.written_by(here)
    words = []
    if read is not None:
        words.append(
            f"The {READS[kind]} of the chosen head, {here.words}, read **{read[0].words}** the most "
            f"({number(read[2])})."
        )
    if readers is not None:
        words.append(f"What the chosen head writes is read most by **{readers[1].words}** ({number(readers[2])}).")
    if any(pair is not None and pair[2] < 0 for pair in (read, readers)):
        words.append("A number below 0 means less than random matrices have.")
    if words:
        st.markdown(" ".join(words))
    others = {pair[at]: None for pair, at in ((read, 0), (readers, 1)) if pair is not None}
    with st.container(horizontal=True):
        for n, place in enumerate(others):
            st.button(f"Look at {place.words}", key=f"look_at_{n}", on_click=choose_place, args=(place,))


def draw_what_is_left_out(
    view: View, found: Composition, pairs: HeadPairs, most: int, kind: str, distance: int
) -> None:
    """The lines as a table, how many have none, and what the numbers are."""
    with st.expander(f"The {min(most, len(pairs))} lines as a table"):
        table = [(first.words, second.words, number(over)) for first, second, over in pairs.first(most)]
        st.dataframe(
            pd.DataFrame(table, columns=["writes", "reads", "above the baseline"]), hide_index=True, key="line_table"
        )
    left = len(pairs) - most
    cut = (
        f"No line is drawn for {counted(left, 'more pair')}. The largest number left out is {number(pairs[most][2])}. "
        if left > 0
        else ""
    )
    read = {"query": r"W_QK", "key": r"W_QKᵀ", "value": r"W_OV"}[kind]
    turn = (
        f" Queries and keys are turned by their positions; here the key stands {counted(distance, 'token')} before its "
        "query."
        if depends_on_distance(view) and kind != "value"
        else ""
    )
    norms = (
        " In this model, what the earlier head writes goes through norms before the later head reads it. The learned "
        "factors of these norms are part of W_OV."
        if view.model.config.norm_place == "post"
        else ""
    )
    st.caption(
        f"{cut}A number is the share ‖W_OV·{read}‖/(‖W_OV‖·‖{read}‖) minus the baseline. The baseline is "
        f"{number(found.baseline)}, the mean share of {RANDOM_PAIRS} pairs of random matrices of the same shapes. The "
        "number says how well the directions that one head writes fit those that the other one reads. It does not say "
        f"what passes between them.{turn}{norms} Elhage et al. 2021, “A Mathematical Framework for Transformer "
        "Circuits”."
    )
