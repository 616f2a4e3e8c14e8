"""The course of a training over its steps: lines above each other, and a player that leads to any snapshot of it.

training_curves(
    [Plot("loss, nats", 4.6, (Line("training loss", "stream", (None, 4.1, 3.2)),), level=("uniform guess", 4.16))],
    at=(0, 20, 40), most=1000, step=-1, running=True, key="curves", on_step=lambda number: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import streamlit as st

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component
from viz_ui.look.colours import ROLES

_component = component(
    "viz.training_curves",
    html='<div class="training" role="group" aria-label="The course of the training"></div>',
    script="training_curves/training_curves.js",
    styles=("shared/player.css", "training_curves/training_curves.css"),
)


@dataclass(frozen=True)
class Line:
    """One number at every snapshot; None where there is none. role: whose colour it has. dashed: told apart by that."""

    name: str
    role: str
    values: tuple[float | None, ...]
    dashed: bool = False


@dataclass(frozen=True)
class Plot:
    """Lines over the steps, from 0 to `highest`. level: a name and a height, as a dotted line across."""

    axis: str
    highest: float
    lines: tuple[Line, ...]
    level: tuple[str, float] | None = None


def training_curves(
    plots: Sequence[Plot],
    *,
    at: Sequence[int],
    most: int,
    step: int,
    running: bool,
    key: str,
    on_step: Callable[[int], None] | None = None,
) -> None:
    """Draw the plots above each other; `step` is the number of the snapshot to look at, -1 the last.

    at: the training step of every snapshot. most: where the axis of steps ends. running: whether more will come.
    on_step: called with the number of the snapshot that the reader goes to, -1 for the last.

    Raises ValueError where lines and snapshots do not fit.
    """

    def told() -> None:
        value = checked_step(event_value(key, "step"), len(at))
        if value is not None and on_step is not None:
            number, st.session_state[answered] = value
            on_step(number)

    answered = f"{key}_answered"  # the number of the last event that was taken: keys can be faster than answers
    data = pack_curves(plots, at=at, most=most, step=step, running=running, answered=st.session_state.get(answered, 0))
    _component(data=data, key=key, on_step_change=told)


def pack_curves(
    plots: Sequence[Plot], *, at: Sequence[int], most: int, step: int, running: bool, answered: int = 0
) -> bytes:
    """The blob that the script draws from: everything in its header."""
    for line in (line for plot in plots for line in plot.lines):
        if len(line.values) != len(at) or line.role not in ROLES:
            raise ValueError(
                f"The line {line.name!r} has {len(line.values)} values of role {line.role!r}, for {len(at)}."
            )
    if not at or not -1 <= step < len(at):
        raise ValueError(f"There is no snapshot {step} among {len(at)}.")
    return pack(
        {
            "plots": [asdict(plot) for plot in plots],
            "at": list(at),
            "most": most,
            "step": len(at) - 1 if step == -1 else step,
            "running": running,
            "answered": answered,
        }
    )


def checked_step(value, count: int) -> tuple[int, int] | None:
    """The event [snapshot or -1, number of the event] of a visitor's browser, or None for nonsense."""
    if not isinstance(value, list) or len(value) != 2 or any(type(number) is not int for number in value):
        return None
    step, event = value
    return (step, event) if -1 <= step < count and event > 0 else None
