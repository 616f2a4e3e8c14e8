"""Texts whose tokens are shaded by the weights of one query, in groups; each is a link to where it can be looked into.

shaded_texts([("Most", [ShadedText("mean 0.93", "Open it", "./?head=1.0", [ShadedToken("·king", 0.9, is_key=True)])])],
             key="examples")
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component

_component = component(
    "viz.shaded_texts",
    html='<div class="shaded-texts"></div>',
    script="tokens/shaded_texts.js",
    styles=("tokens/shaded_texts.css",),
)


@dataclass(frozen=True)
class ShadedToken:
    """One token, a ready-made label, with the weight that the query puts on it; None where it reads no such token.

    is_query, is_key: whether it is framed as such. skipped: how many tokens before it are left out.
    """

    label: str
    weight: float | None
    is_query: bool = False
    is_key: bool = False
    skipped: int = 0


@dataclass(frozen=True)
class ShadedText:
    """words: what is said above it. href: the address that it opens, "" where nothing does; name: what opens, or why
    nothing does. left: how many tokens behind the last one are left out."""

    words: str
    name: str
    href: str
    tokens: Sequence[ShadedToken]
    left: int = 0


def shaded_texts(groups: Sequence[tuple[str, Sequence[ShadedText]]], *, key: str) -> None:
    """Draw them below the heading of their group. The darkest token of each text has the largest of its weights."""
    _component(data=pack_texts(groups), key=key)


def pack_texts(groups: Sequence[tuple[str, Sequence[ShadedText]]]) -> bytes:
    """The blob that the script draws from: everything in its header. Raises ValueError for an address elsewhere."""
    texts = [text for _, of_group in groups for text in of_group]
    if any(text.href and not text.href.startswith("./?") for text in texts):
        raise ValueError("A link leads to the first page of this app, whatever stands before its address: ./?…")
    return pack({"groups": [{"title": title, "texts": [asdict(text) for text in some]} for title, some in groups]})
