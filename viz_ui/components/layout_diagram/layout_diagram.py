"""Layouts side by side: each stack as its residual stream with the halves of its blocks hung on it, every box a button.

Before a half stands its norm on the branch (pre-norm), or behind it on the stream (post-norm). Attention boxes hold a
picture of real weights.

    layout_diagram([Layout("decoder-only", "tiny-gpt, 4.3 M parameters", [DiagramStack(...)])],
                   chosen="tiny-gpt logits", key="layouts", on_pick=lambda name: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component
from viz_ui.look.colours import ROLES, sequential_lut

_component = component(
    "viz.layout_diagram",
    html='<div class="layouts" role="group"></div>',
    script="layout_diagram/layout_diagram.js",
    styles=("shared/arrows.css", "layout_diagram/layout_diagram.css"),
)


@dataclass(frozen=True, eq=False)
class Picture:
    """Weights as colour steps, uint8 (P,R), and which cells are permitted, booleans (P,R)."""

    steps: np.ndarray
    allowed: np.ndarray


@dataclass(frozen=True)
class Box:
    """A button: its name for `on_pick`, what stands in it, its role in `colours.ROLES`, and what is said of it."""

    name: str
    title: str
    words: str = ""
    role: str = "stream"
    aloud: str = ""
    picture: Picture | None = None


@dataclass(frozen=True)
class Half:
    """A branch and the norm before it on the branch, or behind it on the stream."""

    branch: Box
    norm: Box
    norm_first: bool
    is_cross: bool = False


@dataclass(frozen=True)
class DiagramBlock:
    """Halves in their order; `end` is the stream behind them."""

    halves: Sequence[Half]
    end: Box


@dataclass(frozen=True)
class DiagramStack:
    """What is read, the embedding, the blocks, and the boxes at the end of the stream."""

    title: str
    reads: str
    start: Box
    blocks: Sequence[DiagramBlock]
    ends: Sequence[Box]


@dataclass(frozen=True)
class Layout:
    """One model: one stack, or encoder and decoder, whose cross-attention reads the encoder output."""

    title: str
    model: str
    words: str
    stacks: Sequence[DiagramStack]


def layout_diagram(layouts: Sequence[Layout], *, chosen: str, key: str, on_pick: Callable[[str], None]) -> None:
    """Draw them. on_pick: called with the name of a box after a click or Enter."""

    def picked() -> None:
        name = event_value(key, "pick")
        if isinstance(name, str) and name in names:
            on_pick(name)

    names = {box.name for box in boxes(layouts)}
    _component(data=pack_layouts(layouts, chosen), key=key, on_pick_change=picked)


def boxes(layouts: Sequence[Layout]) -> list[Box]:
    """Every box, in the order of the passes."""
    found = []
    for stack in (stack for layout in layouts for stack in layout.stacks):
        found.append(stack.start)
        for block in stack.blocks:
            for half in block.halves:
                found += [half.norm, half.branch] if half.norm_first else [half.branch, half.norm]
            found.append(block.end)
        found += stack.ends
    return found


def pack_layouts(layouts: Sequence[Layout], chosen: str) -> bytes:
    """The blob that the script draws from: the colour table, then of each picture its steps and one bit a masked cell.

    Raises ValueError for two boxes of one name, for an unknown role, and for pictures that are none.
    """
    found = boxes(layouts)
    names = [box.name for box in found]
    if len(set(names)) < len(names):
        raise ValueError(f"Two boxes have the same name among {', '.join(names)}.")
    if unknown := {box.role for box in found} - ROLES.keys():
        raise ValueError(f"Unknown roles: {', '.join(sorted(unknown))}.")
    pictures = {box.name: box.picture for box in found if box.picture is not None}
    for name, picture in pictures.items():
        if picture.steps.dtype != np.uint8 or picture.steps.shape != picture.allowed.shape:
            raise ValueError(f"The picture of {name} is uint8 (P,R) with booleans (P,R).")
    header = {
        "layouts": [asdict(layout, dict_factory=_without_pictures) for layout in layouts],
        "pictures": [[name, *picture.steps.shape] for name, picture in pictures.items()],
        "chosen": chosen,
    }
    arrays = [array for p in pictures.values() for array in (p.steps, np.packbits(p.allowed))]
    return pack(header, sequential_lut(), *arrays)


def _without_pictures(pairs: list[tuple[str, object]]) -> dict:
    return {name: value for name, value in pairs if name != "picture"}
