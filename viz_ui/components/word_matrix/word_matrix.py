"""A matrix whose cells are words, each on the colour of a number; further numbers of a cell stand in its tooltip.

Pointing at a cell tells its numbers; a click or Enter picks it, and the arrow keys walk. It scrolls to either side
where the page is narrow, its labels stay in view, and it may be a part of more columns than it shows.

    word_matrix(
        WordMatrix("Likeliest", words, {"probability": shares}, ["layer 0", "layer 1"], ["0 The", "1 ·fox"]),
        key="lens", chosen=(1, 0), on_pick=lambda row, column: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component
from viz_ui.look.colours import sequential_lut

OPEN, TURN = "open", "turn"  # what the browser tells besides a cell
HIGHEST = 460  # pixels; of more rows the rest is scrolled to

_component = component(
    "viz.word_matrix",
    html='<div class="word-matrix" role="group"></div>',
    script="word_matrix/word_matrix.js",
    styles=("word_matrix/word_matrix.css",),
)


@dataclass(frozen=True, eq=False)
class WordMatrix:
    """words (R,C), and numbers (R,C) by what they are; the first ones are the colours, from 0 to `high`.

    A number that is none has a hatched cell. before, after: how many columns there are that it does not show.
    """

    title: str
    words: Sequence[Sequence[str]]
    numbers: Mapping[str, np.ndarray]
    row_labels: Sequence[str]
    column_labels: Sequence[str]
    row_axis: str = "layer"
    column_axis: str = "token"
    high: float = 1.0
    before: int = 0
    after: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.row_labels), len(self.column_labels)

    def __post_init__(self) -> None:
        sizes = {np.shape(numbers) for numbers in self.numbers.values()}
        if (
            min(self.shape) == 0
            or sizes != {self.shape}
            or [len(row) for row in self.words] != [self.shape[1]] * len(self.row_labels)
        ):
            raise ValueError(f"“{self.title}” has {self.shape} labels, and words or numbers of another shape.")
        if not (np.isfinite(self.high) and self.high > 0):
            raise ValueError(f"“{self.title}” has a colour scale from 0 to {self.high}.")


def word_matrix(
    matrix: WordMatrix,
    *,
    key: str,
    chosen: tuple[int, int],
    on_pick: Callable[[int, int], None],
    on_turn: Callable[[int], None] | None = None,
    on_open: Callable[[], None] | None = None,
) -> None:
    """Draw it with its chosen (row, column) framed.

    on_pick: called with row and column. on_turn: called with −1 or 1 where the columns before or after are asked for,
    if there are any. on_open: called where it is asked for large.
    """

    def picked() -> None:
        cell = checked_pick(event_value(key, "pick"), matrix.shape)
        if cell is not None:
            on_pick(*cell)

    def turned() -> None:
        step = event_value(key, TURN)
        there = {-1: matrix.before, 1: matrix.after}
        if type(step) is int and there.get(step) and on_turn is not None:
            on_turn(step)

    def opened() -> None:
        if event_value(key, OPEN) is True and on_open is not None:
            on_open()

    data = pack_words(matrix, chosen)
    _component(data=data, key=key, on_pick_change=picked, on_turn_change=turned, on_open_change=opened)


def pack_words(matrix: WordMatrix, chosen: tuple[int, int]) -> bytes:
    """The blob that the script draws from: float32 numbers, one kind after the other, and the colour table."""
    header = {
        "title": matrix.title,
        "words": [list(row) for row in matrix.words],
        "rows": {"axis": matrix.row_axis, "labels": list(matrix.row_labels)},
        "columns": {"axis": matrix.column_axis, "labels": list(matrix.column_labels)},
        "kinds": list(matrix.numbers),
        "high": float(matrix.high),
        "before": matrix.before,
        "after": matrix.after,
        "chosen": list(chosen),
        "highest": HIGHEST,
    }
    numbers = [np.asarray(numbers, dtype=np.float32) for numbers in matrix.numbers.values()]
    return pack(header, *numbers, sequential_lut())


def checked_pick(value, shape: tuple[int, int]) -> tuple[int, int] | None:
    """The event [row, column], or None: a visitor can forge it, so only a cell that is there counts."""
    is_pair = isinstance(value, list) and len(value) == 2 and all(type(part) is int for part in value)
    if not is_pair or not all(0 <= part < size for part, size in zip(value, shape, strict=True)):
        return None
    return value[0], value[1]
