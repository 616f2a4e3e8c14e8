"""Which tokens of two prompts belong together: side by side where equally long, else by the ends that they share; of
one text that two tokenizers cut, by its characters."""

from bisect import bisect_left
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from viz_model.arguments import switch, whole_number


@dataclass(frozen=True)
class Places:
    """What stands side by side in two texts: at each place, the positions of some tokens of the first and of some of
    the second. Tokens at no place have no counterpart.

    by_characters: whether the texts are the same, and places were found by where their tokens begin and end.
    """

    first: tuple[tuple[int, ...], ...]
    second: tuple[tuple[int, ...], ...]
    by_characters: bool

    def __len__(self) -> int:
        return len(self.first)

    @property
    def are_tokens(self) -> bool:
        """Whether every place has one token of each text."""
        return all(len(tokens) == 1 for tokens in (*self.first, *self.second))

    def place_of(self, position: int, *, second: bool = False) -> int | None:
        """Where a token of the first text stands, or of the second one; None where it has no counterpart.

        Raises VizError for what is no position.
        """
        groups = self.second if switch("second", second) else self.first
        position = whole_number("The position", position)
        return next((place for place, tokens in enumerate(groups) if position in tokens), None)


@dataclass(frozen=True)
class Alignment:
    """columns: a position of the first prompt and one of the second, in reading order; None where a token has no
    counterpart. pairs: those columns that have both."""

    columns: tuple[tuple[int | None, int | None], ...]

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple((first, second) for first, second in self.columns if None not in (first, second))

    @property
    def places(self) -> Places:
        """A place for each pair."""
        return Places(tuple((n,) for n, _ in self.pairs), tuple((n,) for _, n in self.pairs), by_characters=False)

    @property
    def is_whole(self) -> bool:
        """Whether every token has a counterpart."""
        return len(self.pairs) == len(self.columns)

    @property
    def turned(self) -> "Alignment":
        """The same, seen from the second prompt."""
        return Alignment(tuple((second, first) for first, second in self.columns))


def align(first: Sequence[Hashable], second: Sequence[Hashable]) -> Alignment:
    """Token ids (or pieces) of two prompts -> their alignment.

    Prompts of equal length stand side by side. Of others, the tokens that both begin with belong together, and then
    those that both end with; what lies between has no counterpart.
    """
    if len(first) == len(second):
        return Alignment(tuple((n, n) for n in range(len(first))))
    shorter = min(len(first), len(second))
    start = _shared(first, second, shorter)
    end = _shared(first[::-1], second[::-1], shorter - start)
    columns = [(n, n) for n in range(start)]
    columns += [(n, None) for n in range(start, len(first) - end)]
    columns += [(None, n) for n in range(start, len(second) - end)]
    columns += [(len(first) - n, len(second) - n) for n in range(end, 0, -1)]
    return Alignment(tuple(columns))


def shared_start(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """The ids that both begin with."""
    return [*first[: _shared(first, second, min(len(first), len(second)))]]


def _shared(first: Sequence[Hashable], second: Sequence[Hashable], most: int) -> int:
    """How many of the first ids are the same, up to `most`."""
    return next((n for n in range(most) if first[n] != second[n]), most)


def side_by_side(
    first: Sequence[bytes],
    second: Sequence[bytes],
    signs: tuple[Collection[int], Collection[int]] = ((), ()),
) -> Places:
    """The pieces of two texts -> what stands side by side. signs: positions of tokens that stand for no text.

    Two cuts of the same text are aligned by characters: a place ends wherever a token of both ends, so it may hold
    several tokens of each. Other texts are aligned token by token, see `align`.
    """
    whole = range(len(first)), range(len(second))
    for left_out in (((), ()), signs):
        kept = [[n for n in one if n not in out] for one, out in zip(whole, left_out, strict=True)]
        if kept[0] and b"".join(first[n] for n in kept[0]) == b"".join(second[n] for n in kept[1]):
            return _by_characters((first, kept[0]), (second, kept[1]))
    return align(first, second).places


def _by_characters(*cuts: tuple[Sequence[bytes], list[int]]) -> Places:
    """Two lists of pieces, with the positions that count, of one text."""
    ends = [list(accumulate(len(pieces[n]) for n in kept)) for pieces, kept in cuts]
    shared = sorted({*ends[0]} & {*ends[1]})
    groups = []
    for (_, kept), stops in zip(cuts, ends, strict=True):
        found: list[list[int]] = [[] for _ in shared]
        for position, stop in zip(kept, stops, strict=True):
            found[bisect_left(shared, stop)].append(position)
        groups.append(tuple(map(tuple, found)))
    return Places(*groups, by_characters=True)
