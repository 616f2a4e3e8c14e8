"""A table of models: what each is made of, and buttons for what can be done with it.

model_table(columns, rows, key="models", on_act=lambda act, name: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component

_component = component(
    "viz.model_table",
    html='<div class="model-table"></div>',
    script="model_table/model_table.js",
    styles=("model_table/model_table.css",),
)


@dataclass(frozen=True)
class Act:
    """A button. `sure`: where it is not empty, the button asks this first, and a second click does it.

    done: it is done already, so the button only says so; it keeps its place, lest a second click hits the next one.
    """

    name: str
    words: str
    sure: str = ""
    primary: bool = False
    done: bool = False


@dataclass(frozen=True)
class ModelRow:
    """One model: its name, its state, its cells, what can be done, and a line about it under all of them."""

    name: str
    about: str
    state: str
    cells: Sequence[str]
    acts: Sequence[Act] = ()
    chosen: bool = False


def model_table(
    columns: Sequence[tuple[str, str]],
    rows: Sequence[ModelRow],
    *,
    key: str,
    on_act: Callable[[str, str], None] | None = None,
) -> None:
    """Draw the rows. columns: (head, what it means) of the cells. on_act: called with an Act's and a row's name."""

    def acted() -> None:
        act = checked_act(event_value(key, "act"), rows)
        if act is not None and on_act is not None:
            on_act(*act)

    _component(data=pack_table(columns, rows), key=key, on_act_change=acted)


def pack_table(columns: Sequence[tuple[str, str]], rows: Sequence[ModelRow]) -> bytes:
    """The blob that the script draws from; raises ValueError where a row has not one cell a column."""
    for row in rows:
        if len(row.cells) != len(columns):
            raise ValueError(f"{row.name} has {len(row.cells)} cells for {len(columns)} columns.")
    return pack({"columns": list(columns), "rows": [asdict(row) for row in rows]})


def checked_act(value, rows: Sequence[ModelRow]) -> tuple[str, str] | None:
    """The event [act, model], or None: a visitor can forge it, so only what stands on the screen counts."""
    there = {(act.name, row.name) for row in rows for act in row.acts if not act.done}
    is_pair = isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)
    return tuple(value) if is_pair and tuple(value) in there else None
