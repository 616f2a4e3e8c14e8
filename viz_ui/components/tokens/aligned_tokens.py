"""Two texts one above the other, token by token: what stands in one column belongs together, what differs is marked.

aligned_tokens([("0 The", "0 The"), ("1 ·blue", "1 ·brave"), (None, "2 ·old")], ("clean", "corrupted"),
               chosen=1, key="aligned", on_pick=lambda column: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component

_component = component(
    "viz.aligned_tokens",
    html='<div class="aligned-tokens"></div>',
    script="tokens/aligned_tokens.js",
    styles=("tokens/aligned_tokens.css",),
)


def aligned_tokens(
    columns: Sequence[tuple[str | None, str | None]],
    names: tuple[str, str],
    differing: Sequence[bool],
    *,
    chosen: int | None,
    key: str,
    on_pick: Callable[[int], None],
) -> None:
    """Draw them. columns: a ready-made label of each text, None where it has no counterpart. names: of the two texts.
    differing: of each column, whether its tokens are marked. chosen: the framed column. on_pick: called with the number
    of a clicked one."""

    def picked() -> None:
        column = event_value(key, "pick")
        if type(column) is int and 0 <= column < len(columns):
            on_pick(column)

    header = {
        "columns": [list(column) for column in columns],
        "names": list(names),
        "differing": [bool(is_other) for is_other in differing],
        "chosen": chosen,
    }
    _component(data=pack(header), key=key, on_pick_change=picked)
