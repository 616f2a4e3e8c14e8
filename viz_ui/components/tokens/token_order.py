"""The tokens of a prompt as a row to be put in another order: dragged, or moved with Shift and the arrow keys.

token_order(view.labels, order, key="order", on_move=lambda order: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component

_component = component(
    "viz.token_order",
    html='<div class="token-order" role="list" aria-label="Tokens in their order"></div>',
    script="tokens/token_order.js",
    styles=("tokens/token_order.css",),
)


def token_order(
    labels: Sequence[str],
    order: Sequence[int],
    *,
    key: str,
    on_move: Callable[[tuple[int, ...]], None] | None = None,
) -> None:
    """Draw the tokens, `order[p]` at place p, and let the reader move them.

    labels: one ready-made string a token, as typed. on_move: called with the new order; keep it and give it back.
    """

    def told() -> None:
        value = checked_order(event_value(key, "move"), len(labels))
        if value is not None and on_move is not None:
            new, st.session_state[answered] = value
            on_move(new)

    answered = f"{key}_answered"  # the number of the last move that was taken: hands can be faster than answers
    header = {"labels": list(labels), "order": list(order), "answered": st.session_state.get(answered, 0)}
    _component(data=pack(header), key=key, on_move_change=told)


def checked_order(value, length: int) -> tuple[tuple[int, ...], int] | None:
    """The event [order, number of the move] of a visitor's browser, or None for nonsense."""
    if not isinstance(value, list) or len(value) != 2 or type(value[1]) is not int or value[1] < 1:
        return None
    order = value[0]
    if not isinstance(order, list) or any(type(place) is not int for place in order):
        return None
    return (tuple(order), value[1]) if sorted(order) == list(range(length)) else None
