"""The browser's address put right without a step of Back. Nothing is drawn.

address_bar([{"model": "tiny-gpt"}], {"model": "tiny-gpt", "head": "2.6"}, number=1, key="address_bar")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from viz_ui.components.shared.serving import component

Address = Mapping[str, str | list[str]]

_component = component("viz.address_bar", html="<span hidden></span>", script="address_bar/address_bar.js", styles=())


def address_bar(seen: Sequence[Address], wanted: Address, *, number: int, key: str) -> None:
    """Replace the parameters by `wanted` where they are one of `seen`.

    Nothing where the browser has others by now, or `number` is not larger than what came before it: a script is called
    again with the same data when the theme changes.
    """
    _component(data={"number": number, "seen": [_pairs(each) for each in seen], "wanted": _pairs(wanted)}, key=key)


def _pairs(address: Address) -> list[tuple[str, str]]:
    """Each text of each parameter; one that stands there several times has several."""
    return [(name, text) for name, texts in address.items() for text in ([texts] if isinstance(texts, str) else texts)]
