"""Rotary positions as clocks: every pair of numbers of a query and a key, turned by where the two tokens stand.

Moving both tokens turns all arms and leaves every angle between them, and so the score; moving them apart does not.

    rotary_pairs(pairs, Token("9 ·she", 9), Token("4 ·girl", 4), scale=0.177, computed=-1.2, trained=255,
                 both_ways=False, reach=Reach(0, 512, 512), moved=Moved(), key="rotary", on_move=lambda moved: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import streamlit as st

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component

_component = component(
    "viz.rotary_pairs",
    html='<div class="rotary" role="group" aria-label="Rotary pairs"></div>',
    script="rotary_pairs/rotary_pairs.js",
    styles=("rotary_pairs/rotary_pairs.css",),
)


@dataclass(frozen=True)
class Pair:
    """Two numbers of a head that turn together: which, of the query and of the key before the turn; θ in radians."""

    numbers: tuple[int, int]
    query: tuple[float, float]
    key: tuple[float, float]
    theta: float


@dataclass(frozen=True)
class Token:
    """How a token is called, and where it stands."""

    label: str
    position: int


@dataclass(frozen=True)
class Moved:
    """What the reader chose: both tokens moved by `shift`, the query alone by `apart`, and the pair drawn large."""

    shift: int = 0
    apart: int = 0
    pair: int = 0


@dataclass(frozen=True)
class Reach:
    """How far the sliders go: the least and largest distance (query minus key), and the largest shift of both."""

    least: int
    most: int
    furthest: int

    def fitting(self, moved: Moved, own: int, pairs: int) -> Moved:
        """What was chosen, brought into range; `own` is the distance of the two tokens themselves."""
        distance = min(max(own + moved.apart, self.least), self.most)
        return Moved(min(max(moved.shift, 0), self.furthest), distance - own, pair=min(max(moved.pair, 0), pairs - 1))


def rotary_pairs(
    pairs: Sequence[Pair],
    query: Token,
    key_token: Token,
    *,
    scale: float,
    computed: float,
    trained: int,
    both_ways: bool,
    reach: Reach,
    moved: Moved,
    key: str,
    on_move: Callable[[Moved], None] | None = None,
) -> None:
    """Draw every pair of `query` and `key_token` and let them be moved.

    scale: what q · k is multiplied with. computed: the scaled score of the pass, where both stand themselves.
    trained: the largest distance that training showed; both_ways: whether keys after the query, too.
    on_move: called with what the reader chose when the slider is let go; keep it and give it back as `moved`.
    """

    def told() -> None:
        value = checked_move(event_value(key, "move"), query.position - key_token.position, len(pairs), reach)
        if value is not None and on_move is not None:
            new, st.session_state[answered] = value
            on_move(new)

    answered = f"{key}_answered"  # the number of the last event that was taken: hands can be faster than answers
    own = query.position - key_token.position
    fitting = reach.fitting(moved, own, len(pairs))
    header = {
        "pairs": [asdict(pair) for pair in pairs],
        "query": asdict(query),
        "key": asdict(key_token),
        "scale": scale,
        "computed": computed,
        "trained": trained,
        "both_ways": both_ways,
        **asdict(reach),
        "shift": fitting.shift,
        "distance": own + fitting.apart,
        "pair": fitting.pair,
        "answered": st.session_state.get(answered, 0),
    }
    _component(data=pack(header), key=key, on_move_change=told)


def checked_move(value, own: int, pairs: int, reach: Reach) -> tuple[Moved, int] | None:
    """The event [shift, apart, pair, number of the event] of a visitor's browser, or None for nonsense."""
    if not isinstance(value, list) or len(value) != 4 or any(type(number) is not int for number in value):
        return None
    moved = Moved(*value[:3])
    if value[3] < 1 or reach.fitting(moved, own, pairs) != moved:
        return None
    return moved, value[3]
