"""Two texts whose tokens belong together: the strip with both of them, and labels for what stands side by side."""

from collections.abc import Callable, Sequence

from viz_model.heads.alignment import Places
from viz_ui.components.tokens.aligned_tokens import aligned_tokens
from viz_ui.look.text import label, labels, shown

Pieces = Sequence[bytes]


def place_labels(places: Places, first: Pieces, second: Pieces) -> list[str]:
    """A label for each place: of the first text, and of the second one where that differs there."""
    found = []
    for tokens, others in zip(places.first, places.second, strict=True):
        text, other = (b"".join(pieces[n] for n in group) for pieces, group in ((first, tokens), (second, others)))
        own = label(tokens[0], text) if len(tokens) == 1 else f"{tokens[0]}–{tokens[-1]} {shown(text)}"
        found.append(own if text == other else f"{own} | {shown(other)}")
    return found


def draw_aligned_texts(
    places: Places,
    texts: tuple[Pieces, Pieces],
    names: tuple[str, str],
    *,
    chosen: int,
    key: str,
    on_pick: Callable[[int], None],
) -> None:
    """Both texts one above the other, with the tokens that have no counterpart; a click calls `on_pick` with a token of
    the first. chosen: the framed one."""
    columns = _columns(places, *map(len, texts))
    written = [labels(pieces) for pieces in texts]
    words = [
        tuple(" ".join(text[n] for n in group) or None for text, group in zip(written, column, strict=True))
        for column in columns
    ]
    differing = [
        b"".join(texts[0][n] for n in first) != b"".join(texts[1][n] for n in second) for first, second in columns
    ]

    def picked(column: int) -> None:
        if columns[column][0]:
            on_pick(columns[column][0][-1])

    found = next((n for n, (first, _) in enumerate(columns) if chosen in first), None)
    aligned_tokens(words, names, differing, chosen=found, key=key, on_pick=picked)


def _columns(places: Places, length: int, other: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The places in reading order, and between them the tokens that stand at none."""
    found, at, other_at = [], 0, 0
    for first, second in [*zip(places.first, places.second, strict=True), ((length,), (other,))]:
        found += [((n,), ()) for n in range(at, first[0])] + [((), (n,)) for n in range(other_at, second[0])]
        found.append((first, second))
        at, other_at = first[-1] + 1, second[-1] + 1
    return found[:-1]
