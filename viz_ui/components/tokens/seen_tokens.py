"""The tokens of a prompt as rows of buttons, one row a model: what it sees, the hidden token, what it cannot see.

seen_tokens(labels, [TokenReader("tiny-bert", blank=3, seen_until=14), TokenReader("tiny-gpt", blank=3, seen_until=3)],
            key="seen", on_pick=lambda token: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component

_component = component(
    "viz.seen_tokens",
    html='<div class="seen-tokens"></div>',
    script="tokens/seen_tokens.js",
    styles=("tokens/seen_tokens.css",),
)


@dataclass(frozen=True)
class TokenReader:
    """A model that reads: its name, a few words, the hidden token, and the first token that it cannot see."""

    title: str
    words: str
    blank: int
    seen_until: int


def seen_tokens(
    tokens: Sequence[str], rows: Sequence[TokenReader], *, key: str, on_pick: Callable[[int], None]
) -> None:
    """Draw them. tokens: one ready-made string each. on_pick: called with the number of a clicked token."""

    def picked() -> None:
        token = event_value(key, "pick")
        if type(token) is int and 0 <= token < len(tokens):
            on_pick(token)

    header = {"tokens": list(tokens), "rows": [asdict(row) for row in rows]}
    _component(data=pack(header), key=key, on_pick_change=picked)
