"""Which tokens of two prompts belong together: side by side where equally long, else by the ends that they share."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Alignment:
    """columns: a position of the first prompt and one of the second, in reading order; None where a token has no
    counterpart. pairs: those columns that have both."""

    columns: tuple[tuple[int | None, int | None], ...]

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple((first, second) for first, second in self.columns if None not in (first, second))

    @property
    def is_whole(self) -> bool:
        """Whether every token has a counterpart."""
        return len(self.pairs) == len(self.columns)

    @property
    def turned(self) -> "Alignment":
        """The same, seen from the second prompt."""
        return Alignment(tuple((second, first) for first, second in self.columns))


def align(first: Sequence[int], second: Sequence[int]) -> Alignment:
    """Token ids of two prompts -> their alignment.

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


def _shared(first: Sequence[int], second: Sequence[int], most: int) -> int:
    """How many of the first ids are the same, up to `most`."""
    return next((n for n in range(most) if first[n] != second[n]), most)
