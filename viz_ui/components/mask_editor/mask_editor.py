"""A mask to draw on: every cell of queries × keys is opened and closed by clicking, dragging or from the keyboard.

mask_editor(allowed, view.labels, view.key_labels, name="M of A", key="editor_a", on_draw=lambda allowed: ...)
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence

import numpy as np
import streamlit as st

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component
from viz_ui.look.colours import diverging_lut

STATES = ("open", "closed (−∞)")

_component = component(
    "viz.mask_editor",
    html='<div class="mask-editor" role="group"></div>',
    script="mask_editor/mask_editor.js",
    styles=("mask_editor/mask_editor.css",),
)


def mask_editor(
    allowed: np.ndarray,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    *,
    name: str,
    key: str,
    states: tuple[str, str] = STATES,
    cursor: tuple[int, int] = (0, 0),
    on_draw: Callable[[np.ndarray], None] | None = None,
) -> None:
    """Draw the booleans `allowed` (T,S), True where a query (row) may read a key (column), and let them be changed.

    row_labels, column_labels: one ready-made string a token. name: what the mask is called.
    states: what a True and a False cell are called. cursor: the cell where the keyboard starts.
    on_draw: called with the new booleans (T,S) after each stroke, key or button. Keep them and give them back as
        `allowed`: what comes back later than the reader's next stroke does not undo it.

    Raises ValueError where the shapes do not fit.
    """

    def drawn() -> None:
        drawing = checked_drawing(event_value(key, "draw"), (len(row_labels), len(column_labels)))
        if drawing is not None and on_draw is not None:
            new, st.session_state[answered] = drawing
            on_draw(new)

    answered = f"{key}_answered"  # the number of the last stroke that was taken: strokes can be faster than answers
    taken = st.session_state.get(answered, 0)
    data = pack_editor(allowed, row_labels, column_labels, name=name, states=states, cursor=cursor, answered=taken)
    _component(data=data, key=key, on_draw_change=drawn)


def pack_editor(
    allowed: np.ndarray,
    row_labels: Sequence[str],
    column_labels: Sequence[str],
    *,
    name: str,
    states: tuple[str, str] = STATES,
    cursor: tuple[int, int] = (0, 0),
    answered: int = 0,
) -> bytes:
    """The blob that the script draws from: the cells as bits, first cell highest (see `packing`)."""
    shape = len(row_labels), len(column_labels)
    if allowed.dtype != bool or allowed.shape != shape or 0 in shape:
        raise ValueError(f"These labels need booleans of {shape}, not {allowed.dtype} {allowed.shape}.")
    header = {
        "name": name,
        "states": list(states),
        "rows": list(row_labels),
        "columns": list(column_labels),
        "cursor": [min(int(place), length - 1) for place, length in zip(cursor, shape, strict=True)],
        "answered": answered,
        "open": "rgb({}, {}, {})".format(*diverging_lut()[128]),  # the colour of M = 0 in the panels
    }
    return pack(header, np.packbits(allowed))


def checked_drawing(value, shape: tuple[int, int]) -> tuple[np.ndarray, int] | None:
    """The event [cells, number of the stroke] as (booleans (T,S), number), or None: a visitor can forge it."""
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], str) or type(value[1]) is not int:
        return None
    try:
        bits = base64.b64decode(value[0], validate=True)
    except (binascii.Error, ValueError):
        return None
    count = shape[0] * shape[1]
    if value[1] < 1 or len(bits) != -(-count // 8):
        return None
    cells = np.unpackbits(np.frombuffer(bits, np.uint8), count=count)
    return cells.astype(bool).reshape(shape), value[1]
