"""The tensors of a model as a diagram: what stands around the blocks, one block zoomed in, every axis a letter.

Pointing at a letter, or focusing it, lights every axis of that letter; a click on a tensor or a block is told.

    shape_diagram(Diagram(letters, around, 4, 2, "197,376 parameters each", tensors, edges, chosen="attn.q", card=card),
                  key="shapes", on_pick=lambda kind, name: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component
from viz_ui.look.colours import ROLES

_component = component(
    "viz.shape_diagram",
    html='<div class="shapes"></div>',
    script="shape_diagram/shape_diagram.js",
    styles=("shared/arrows.css", "shape_diagram/shape_diagram.css"),
)


@dataclass(frozen=True)
class Letter:
    """A letter of the legend: what it stands for, and its number."""

    letter: str
    words: str
    number: int


@dataclass(frozen=True)
class Axis:
    """One axis of a shape: its symbol, the letters in it ("G·D" has two), and its size."""

    symbol: str
    letters: tuple[str, ...]
    size: int


@dataclass(frozen=True)
class Tensor:
    """A box of the diagram.

    role: of `colours.ROLES`; half: which of the block's halves it is in, from 0; column, row: its place there;
    tied: the parameter that makes it where another box counts it.
    """

    name: str
    title: str
    axes: tuple[Axis, ...]
    role: str
    parameters: int
    nbytes: int
    column: int = 0
    row: int = 0
    half: int = 0
    tied: str = ""


@dataclass(frozen=True)
class Add:
    """A plus sign on the residual stream."""

    name: str
    column: int
    row: int
    half: int


@dataclass(frozen=True)
class Edge:
    """An arrow between two boxes or plus signs; `stream` ones are the residual stream."""

    start: str
    end: str
    stream: bool = False


@dataclass(frozen=True)
class Card:
    """The card of the chosen tensor: the line that makes it, facts as (name, value), its parameters."""

    title: str
    line: str
    facts: Sequence[tuple[str, str]]
    parameters: Sequence[tuple[str, tuple[Axis, ...], int]]


@dataclass(frozen=True)
class Diagram:
    """All that is drawn. around: in the order of the pass, the blocks stand before the last `behind` of them."""

    letters: Sequence[Letter]
    around: Sequence[Tensor]
    blocks: int
    block: int
    block_words: str
    tensors: Sequence[Tensor]
    adds: Sequence[Add]
    edges: Sequence[Edge]
    chosen: str
    card: Card
    behind: int = 2

    def __post_init__(self) -> None:
        names = [box.name for box in (*self.around, *self.tensors, *self.adds)]
        if len(set(names)) < len(names):
            raise ValueError(f"Two boxes have the same name among {', '.join(names)}.")
        if lost := [edge for edge in self.edges if edge.start not in names or edge.end not in names]:
            raise ValueError(f"An arrow leads to no box: {lost[0]}.")
        places = [(box.column, box.row, box.half) for box in (*self.tensors, *self.adds)]
        if len(set(places)) < len(places):
            raise ValueError("Two boxes stand in the same place.")
        if unknown := {box.role for box in (*self.around, *self.tensors)} - ROLES.keys():
            raise ValueError(f"Unknown roles: {', '.join(sorted(unknown))}.")
        if not 0 <= self.block < self.blocks:
            raise ValueError(f"There is no block {self.block} among {self.blocks}.")


def shape_diagram(diagram: Diagram, *, key: str, on_pick: Callable[[str, str | int], None]) -> None:
    """Draw it. on_pick: called with ("tensor", name) or ("block", number) after a click or Enter."""

    def picked() -> None:
        pick = checked_pick(event_value(key, "pick"), diagram)
        if pick is not None:
            on_pick(*pick)

    _component(data=pack(asdict(diagram)), key=key, on_pick_change=picked)


def checked_pick(value, diagram: Diagram) -> tuple[str, str | int] | None:
    """The event [kind, which], or None for anything else: a visitor can forge it."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    kind, which = value
    if kind == "tensor" and isinstance(which, str) and which in {t.name for t in (*diagram.around, *diagram.tensors)}:
        return kind, which
    if kind == "block" and type(which) is int and 0 <= which < diagram.blocks:
        return kind, which
    return None
