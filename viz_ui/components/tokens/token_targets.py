"""A row of tokens with what training asks of each: the target below it, how badly it was known, how far up it stood.

token_targets([TokenTarget("0 Once", "1 ·upon", loss=2.1, rank=3, best="·more"), TokenTarget("1 ·upon")],
              blind=8.4, position=0, key="targets", on_pick=lambda position: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import streamlit as st

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component

_component = component(
    "viz.token_targets",
    html='<div class="targets" role="group" aria-label="Tokens and their targets"></div>',
    script="tokens/token_targets.js",
    styles=("tokens/token_targets.css",),
)


@dataclass(frozen=True)
class TokenTarget:
    """One position in plain values: what is read there and, where something was asked, what was right.

    read, target, best: ready-made labels. hidden: whether `read` stands in the place of a token that was hidden.
    loss: in nats. rank: 1 for the likeliest. Without a target nothing was asked.
    """

    read: str
    target: str | None = None
    loss: float = 0.0
    rank: int = 0
    best: str = ""
    hidden: bool = False


def token_targets(
    row: Sequence[TokenTarget],
    *,
    blind: float,
    position: int,
    key: str,
    on_pick: Callable[[int], None] | None = None,
) -> None:
    """Draw the row; `position` is framed.

    blind: the loss of a guess that knows nothing, ln V, where the bars are full. on_pick: called with a position.
    Raises ValueError for a position outside the row.
    """

    def picked() -> None:
        value = checked_position(event_value(key, "pick"), len(row))
        if value is not None and on_pick is not None:
            picked_position, st.session_state[answered] = value
            on_pick(picked_position)

    answered = f"{key}_answered"  # the number of the last pick that was taken: keys can be faster than answers
    data = pack_targets(row, blind=blind, position=position, answered=st.session_state.get(answered, 0))
    _component(data=data, key=key, on_pick_change=picked)


def pack_targets(row: Sequence[TokenTarget], *, blind: float, position: int, answered: int = 0) -> bytes:
    """The blob that the script draws from: everything in its header."""
    if not 0 <= position < len(row):
        raise ValueError(f"There is no position {position} among {len(row)}.")
    return pack({"row": [asdict(one) for one in row], "blind": blind, "position": position, "answered": answered})


def checked_position(value, length: int) -> tuple[int, int] | None:
    """The event [position, number of the pick] of a visitor's browser, or None for nonsense."""
    if not isinstance(value, list) or len(value) != 2 or any(type(number) is not int for number in value):
        return None
    position, pick = value
    return (position, pick) if 0 <= position < length and pick > 0 else None
