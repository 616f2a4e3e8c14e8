"""Examples of what a head does: windows that show a pattern most, and windows that show it less, each with the query
that shows it most there.

Symbols: N windows, T queries, S keys.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from viz_model.heads import patterns as known
from viz_model.heads.measures import entropy
from viz_model.heads.patterns import Base, Cells, CellSets, mean_distance
from viz_model.heads.reading import at_once, cells_of, pass_through
from viz_model.heads.windows import Window
from viz_model.jobs import Tell
from viz_model.model import Model

TENTHS, FIFTHS = (1, 3, 5, 8, 10), (1, 2, 3, 4, 5)  # the groups of windows that are shown; the first has the most
ENOUGH = 30  # windows, of which every tenth has three
KEYS = 16  # a query that may read fewer tells little: its weights are large whatever the head does


@dataclass(frozen=True, eq=False)
class HeadExample:
    """A window in which a head shows a pattern; its mean there, and the query that shows it most.

    key: of the query's keys that belong to the pattern, the one with the largest weight. weights (S,): those of the
    query.
    """

    window: Window
    mean: float
    query: int
    key: int
    weights: np.ndarray

    @property
    def weight(self) -> float:
        """That of the query on the key."""
        return float(self.weights[self.key])


@dataclass(frozen=True)
class ExampleGroup:
    """One of `of` groups of a text's windows, sorted by how much of the pattern they show: place 1 shows most.

    low and high: the means of its last and its first window.
    """

    place: int
    of: int
    low: float
    high: float
    examples: tuple[HeadExample, ...]


@dataclass(frozen=True, eq=False)
class ExampleReader:
    """Reads windows once more, for one head and pattern. base: the set of cells that the pattern is, None for none."""

    model: Model
    part: str
    mask: str
    sets: CellSets
    layer: int
    head: int
    pattern: str
    base: Base | None

    def read(self, windows: Sequence[tuple[Window, float]], tell: Tell) -> list[HeadExample]:
        """Examples of windows with their means, in their order."""
        found: dict[int, HeadExample] = {}
        tell(0, len(windows))
        for places in _of_equal_sizes(windows):
            some = max(1, at_once(self.model, [windows[place][0] for place in places]))
            for begin in range(0, len(places), some):
                found |= self._read_at_once(windows, places[begin : begin + some])
                tell(len(found), len(windows))
        return [found[place] for place in range(len(windows))]

    def _read_at_once(self, windows: Sequence[tuple[Window, float]], places: list[int]) -> dict[int, HeadExample]:
        batch = [windows[place][0] for place in places]
        cells = cells_of(self.model, self.sets, batch, self.part)
        examples: dict[int, HeadExample] = {}

        def keep(_: int, weights: Tensor, allowed: Tensor) -> None:
            rows = weights[:, self.head].float()  # (B,T,S)
            allowed = allowed.expand(len(batch), 1, *rows.shape[1:])[:, 0]
            for number, place in enumerate(places):
                inside = self._inside(cells, number) & allowed[number]
                query, key = self._strongest(rows[number], allowed[number], inside, cells.distances)
                read = rows[number, query].numpy().copy()
                examples[place] = HeadExample(*windows[place], query, key, read)

        pass_through(self.model, batch, self.part, self.mask, keep, lambda _: None, only=self.layer)
        return examples

    def _inside(self, cells: Cells, number: int) -> Tensor:
        """Which cells of a window belong to the pattern: (T,S)."""
        shape = cells.distances.shape
        if self.base is None:
            return torch.ones(shape, dtype=torch.bool)
        if isinstance(self.base, str):
            return cells.features[self.base][number]
        queries, keys = (torch.arange(size) for size in shape)
        return queries[:, None] - keys == self.base

    def _strongest(self, rows: Tensor, allowed: Tensor, inside: Tensor, distances: Tensor) -> tuple[int, int]:
        """The query that shows most, of those that may read `KEYS` keys where there are such; and the key that it reads
        most for the pattern."""
        can, keys = inside.any(-1), allowed.sum(-1)
        most = int(keys[can].max())  # in a short window, the queries that may read most
        can &= keys >= min(KEYS, most)
        query = int(self._by_query(rows, allowed, inside, distances).masked_fill(~can, -1).argmax())
        return query, int(rows[query].masked_fill(~inside[query], -1).argmax())

    def _by_query(self, rows: Tensor, allowed: Tensor, inside: Tensor, distances: Tensor) -> Tensor:
        """How much each query shows of the pattern: (T,)."""
        if self.pattern == known.LARGEST:
            return rows.amax(-1)
        if self.pattern == known.ENTROPY:
            return entropy(rows)
        if self.pattern == known.MEAN_DISTANCE:
            return mean_distance(rows, distances)
        if self.pattern == known.SINK:
            return 1 - rows.sum(-1)
        if self.pattern == known.EVEN:
            return torch.minimum(rows, allowed / allowed.sum(-1, keepdim=True).clamp(min=1)).sum(-1)
        return (rows * inside).sum(-1)


def groups(means: np.ndarray, each: int) -> Iterator[tuple[int, int, np.ndarray, np.ndarray]]:
    """Five groups of windows from those with the largest mean to those with the smallest, of fifths or of tenths.

    means (N,), NaN for a window that cannot show the pattern. Gives the group's place, of how many, all its windows in
    falling order, and at most `each` of them, evenly spread.
    """
    order = np.argsort(-means, kind="stable")
    order = order[np.isfinite(means[order])]
    shown = TENTHS if len(order) >= ENOUGH else FIFTHS
    of = max(shown)
    for place in shown:
        inside = order[len(order) * (place - 1) // of : len(order) * place // of]
        if len(inside):
            spread = np.linspace(0, len(inside) - 1, min(each, len(inside))).round().astype(int)
            yield place, of, inside, inside[spread]


def _of_equal_sizes(windows: Sequence[tuple[Window, float]]) -> list[list[int]]:
    """The places of windows that are read together."""
    by_sizes: dict[tuple[int, int], list[int]] = {}
    for place, (window, _) in enumerate(windows):
        by_sizes.setdefault(window.sizes, []).append(place)
    return list(by_sizes.values())
