"""All heads of a model at a glance: one thumbnail a head, a row a layer; clicking or arrow keys choose one.

What the picture of a head shows, its colours and what is chosen are the page's to say:

    small, seen = thumbnails(weights, low=0, high=1, allowed=mask)        # viz_ui.look.thumbnails
    head_grid(small, seen, sequential_lut(), layer=2, head=5, key="heads", on_pick=choose)

Which one is chosen is a message of its own. So the pictures, which stay the same when another head is chosen, are not
sent again: Streamlit sends no message of 10 kB and more that the browser still has.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import streamlit as st

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component

_component = component(
    "viz.head_grid",
    html='<div class="head-grid" role="group"></div>',
    script="head_grid/head_grid.js",
    styles=("head_grid/head_grid.css",),
)
_choice = component("viz.head_choice", html="<span hidden></span>", script="head_grid/head_choice.js", styles=())


def head_grid(
    thumbnails: np.ndarray,
    allowed: np.ndarray | None,
    lut: np.ndarray,
    *,
    layer: int,
    head: int,
    key: str,
    labels: list[list[str]] | None = None,
    labels_from: str = "",
    key_heads: list[int] | None = None,
    on_pick: Callable[[int, int], None] | None = None,
) -> None:
    """Draw every head of `thumbnails`, uint8 (L,H,P,R), in the colours of `lut`, uint8 (256,3).

    allowed: booleans (P,R) or (L,H,P,R); False cells are hatched grey. None permits all.
    layer, head: the chosen one, framed and kept in view.
    labels: for each layer and head a short note, such as "weight 0.93 on the previous token"; "" for none.
    labels_from: what all of these were measured on; the tooltips say it.
    key_heads: for each head the key/value head that it reads, where several share one; neighbours are bracketed.
    on_pick: called with (layer, head) when somebody chooses another one. Keep what it is told and give it
        back as `layer` and `head`: an answer that does not come back within seconds is undone on screen.

    Raises ValueError where shapes do not fit or the chosen head is not in the grid.
    """
    shape = np.shape(thumbnails)[:2]

    def picked() -> None:
        pick = checked_pick(event_value(key, "pick"), shape)
        if pick is not None and on_pick is not None:
            layer, head, st.session_state[answered] = pick
            on_pick(layer, head)

    answered = f"{key}_answered"  # the number of the last pick that was taken: keys can be faster than answers
    if not (0 <= layer < shape[0] and 0 <= head < shape[1]):
        raise ValueError(f"There is no layer {layer}, head {head} among {shape[0]} x {shape[1]}.")
    data = pack_grid(thumbnails, allowed, lut, name=key, labels=labels, labels_from=labels_from, key_heads=key_heads)
    _component(data=data, key=key, on_pick_change=picked)
    choice = {"grid": key, "layer": int(layer), "head": int(head), "answered": st.session_state.get(answered, 0)}
    with st.container(key=f"chosen_in_{key}"):  # main.css hides it
        _choice(data=choice, key=f"{key}_choice")


def pack_grid(
    thumbnails: np.ndarray,
    allowed: np.ndarray | None,
    lut: np.ndarray,
    *,
    name: str,
    labels: list[list[str]] | None = None,
    labels_from: str = "",
    key_heads: list[int] | None = None,
) -> bytes:
    """The blob that the script draws from: lut, thumbnails, then one bit a masked cell (see `packing`).

    name: by which the choice, a message of its own, finds the grid.
    """
    if thumbnails.ndim != 4 or thumbnails.dtype != np.uint8 or not thumbnails.size:
        raise ValueError(f"Thumbnails are uint8 (L,H,P,R), not {thumbnails.dtype} {thumbnails.shape}.")
    if lut.shape != (256, 3) or lut.dtype != np.uint8:
        raise ValueError(f"A colour table is uint8 (256,3), not {lut.dtype} {lut.shape}.")
    layers, heads, rows, columns = thumbnails.shape
    if allowed is not None and allowed.shape not in (thumbnails.shape, (rows, columns)):
        raise ValueError(f"A mask of shape {allowed.shape} fits no thumbnails of shape {thumbnails.shape}.")
    notes = [note for row in labels or [] for note in row]
    if labels is not None and (len(labels), len(notes)) != (layers, layers * heads):
        raise ValueError(f"Labels are one text for each of {layers} x {heads} heads.")
    if key_heads is not None and (len(key_heads) != heads or key_heads != sorted(key_heads)):
        raise ValueError(f"Key/value heads are a rising number for each of {heads} heads, not {key_heads}.")
    masked = np.packbits(~allowed) if allowed is not None else np.empty(0, np.uint8)
    header = {
        "layers": layers,
        "heads": heads,
        "rows": rows,
        "columns": columns,
        "name": name,
        "notes": notes,
        "notesFrom": labels_from,
        "keyHeads": key_heads,
        "maskBytes": len(masked),
        "maskForEach": allowed is not None and allowed.ndim == 4,
    }
    return pack(header, lut, thumbnails, masked)


def checked_pick(value, shape: tuple[int, int]) -> tuple[int, int, int] | None:
    """The event [layer, head, number of the pick], or None for anything else: a visitor can forge it."""
    if not isinstance(value, list) or len(value) != 3 or any(type(number) is not int for number in value):
        return None
    layer, head, pick = value
    return (layer, head, pick) if 0 <= layer < shape[0] and 0 <= head < shape[1] and pick > 0 else None
