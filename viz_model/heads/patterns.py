"""Patterns: what a head may do again and again over a text, each as a set of cells of its weights.

Previous token, first token, special tokens, punctuation and broad heads: Clark et al. 2019, "What Does BERT Look At?",
§3; induction: Olsson et al. 2022, "In-context Learning and Induction Heads"; attention sinks: Xiao et al. 2023,
"Efficient Streaming Language Models with Attention Sinks", §3.1.
Symbols: B windows, H heads, T queries, S keys.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from viz_model.heads.measures import entropy
from viz_model.heads.text_marks import NONE, text_marks
from viz_model.heads.windows import Window

MOST_DISTANCE = 32  # tokens; heads that look further away at a fixed distance are not told by it

PREVIOUS, DISTANCE, NEXT, ITSELF = "previous token", "k before", "next token", "itself"
FIRST, SAME, INDUCTION, WORD = "first token", "same token", "induction", "same word"
SENTENCE, PUNCTUATION, SPECIAL = "start of sentence", "punctuation", "special token"
SINK, EVEN = "learned sink", "evenly spread"
LARGEST, ENTROPY, MEAN_DISTANCE = "largest weight", "entropy", "mean distance"

FEATURES = (FIRST, SAME, INDUCTION, WORD, SENTENCE, PUNCTUATION, SPECIAL)
OF_TEXT = (WORD, SENTENCE, PUNCTUATION, SPECIAL)  # which a model without a tokenizer does not have
WITHIN_ONE = (PREVIOUS, DISTANCE, ITSELF, NEXT, WORD, SENTENCE, MEAN_DISTANCE)  # which cross-attention does not have
PATTERNS = {
    PREVIOUS: "The token directly before the query.",
    DISTANCE: f"The token k places before the query, for the k from 2 to {MOST_DISTANCE} that fits this head best; "
    "in a model that reads in both directions also k places after it.",
    FIRST: "The first token of the window, which many heads read when they find nothing else.",
    ITSELF: "The query's own token.",
    SAME: "The same token as the query, in another place.",
    INDUCTION: "The token right after another copy of the query's token.",
    WORD: "The other pieces of the query's word.",
    SENTENCE: "The first token of the query's sentence, where it is neither the query nor the window's first token.",
    PUNCTUATION: "Punctuation and line breaks.",
    NEXT: "The token directly after the query, where it may be read.",
    SPECIAL: "Tokens that stand for no piece of the text, such as [CLS].",
    SINK: "A learned score beside the keys, whose share of the weight reads no token.",
    EVEN: "Of each weight, the part up to 1/n, where n is the number of keys that the query may read.",
    LARGEST: "The largest weight of the query, whichever token has it: 1 where it reads one key alone.",
    ENTROPY: "How evenly the head spreads its weights, in bits: 0 for one key, log₂ n for n keys read equally.",
    MEAN_DISTANCE: "How many tokens lie between the query and what it reads, on average.",
}
NUMBERS = (LARGEST, ENTROPY, MEAN_DISTANCE)  # of a query's row; no part of the attention goes to them
UNITS = {ENTROPY: "bits", MEAN_DISTANCE: "tokens"}  # all others are shares of the attention, from 0 to 1

Base = int | str  # a distance, or a feature


class CellSets:
    """Sets of cells that are told apart, of one kind of attention: by distance, by feature, and by two of these.

    A cell has one code: the class of its distance and its features. What lies on a set of cells is the sum over its
    codes, so that weights are gone through once, however many sets there are.
    """

    def __init__(self, part: str, is_causal: bool):
        self.within_one = part != "cross"
        back = range(MOST_DISTANCE + 1) if self.within_one else range(0)
        ahead = range(-MOST_DISTANCE, 0) if self.within_one and not is_causal else range(0)
        self.distances = (*ahead, *back)  # the class of a cell is its place here; of one further away the last
        self.bases: tuple[Base, ...] = (*self.distances, *FEATURES)
        sets = [(), *((base,) for base in self.bases)]
        self.n_single = len(sets)  # the first columns: all cells, then each base alone
        sets += [(one, two) for one, two in combinations(self.bases, 2) if isinstance(two, str)]
        self.columns = {frozenset(its): column for column, its in enumerate(sets)}
        self._sets = sets

    def column(self, *bases: Base) -> int | None:
        """Where a set, or what two have in common, stands in the table of sums; None where they have nothing."""
        return self.columns.get(frozenset(bases))

    @property
    def n_codes(self) -> int:
        return (len(self.distances) + 1) << len(FEATURES)

    @cached_property
    def members(self) -> Tensor:
        """Which codes belong to which set: (codes, columns), 0 or 1."""
        codes = np.arange(self.n_codes)
        has: dict[Base, np.ndarray] = {name: codes >> bit & 1 == 1 for bit, name in enumerate(FEATURES)}
        has |= {distance: codes >> len(FEATURES) == place for place, distance in enumerate(self.distances)}
        table = np.ones((len(codes), len(self._sets)), np.float32)
        for column, its in enumerate(self._sets):
            for base in its:
                table[:, column] *= has[base]
        return torch.from_numpy(table)


@dataclass(frozen=True, eq=False)
class Cells:
    """What the cells of windows of equal sizes are, whatever a head does: codes (B,T·S), features (B,T,S) each, and
    distances |i − j| (T,S)."""

    sets: CellSets
    codes: Tensor
    features: dict[str, Tensor]
    distances: Tensor

    @classmethod
    def of(cls, sets: CellSets, windows: Sequence[Window], part: str, signs: Collection[int], has_text: bool):
        """Those of a part; of a model without a tokenizer the features of a text are in no cell."""
        texts = [(_queries(window, part), _keys(window, part)) for window in windows]
        ids, key_ids = (torch.tensor([side.ids for side in sides]) for sides in zip(*texts, strict=True))
        queries, keys = ids.shape[1], key_ids.shape[1]
        gap = torch.arange(queries)[:, None] - torch.arange(keys)  # (T,S)
        features = {name: torch.zeros(len(ids), queries, keys, dtype=torch.bool) for name in FEATURES}
        features[FIRST][..., 0] = True
        same = ids[:, :, None] == key_ids[:, None, :]
        elsewhere = gap != 0 if sets.within_one else torch.ones_like(gap, dtype=torch.bool)
        features[SAME] |= same & elsewhere
        features[INDUCTION][..., 1:] = (same & elsewhere)[..., :-1] & elsewhere[:, 1:]
        if has_text:
            features[SPECIAL] |= torch.isin(key_ids, torch.tensor([*signs], dtype=torch.long))[:, None]
            cls._mark_text(features, [text_marks(side, signs) for _, side in texts], elsewhere, sets.within_one)
        place = torch.full_like(gap, len(sets.distances))
        if sets.within_one:
            is_near = (gap >= sets.distances[0]) & (gap <= sets.distances[-1])
            place = torch.where(is_near, gap - sets.distances[0], place)
        codes = place << len(FEATURES) | sum(features[name].long() << bit for bit, name in enumerate(FEATURES))
        return cls(sets, codes.flatten(1), features, gap.abs())

    @staticmethod
    def _mark_text(features: dict[str, Tensor], marks, elsewhere: Tensor, within_one: bool) -> None:
        features[PUNCTUATION] |= torch.from_numpy(np.stack([its.punctuation for its in marks]))[:, None]
        if within_one:
            words, first = (torch.from_numpy(np.stack([getattr(its, name) for its in marks]))[..., None]
                            for name in ("words", "sentences"))  # fmt: skip
            features[WORD] |= (words == words.mT) & (words != NONE) & elsewhere
            places = torch.arange(words.shape[1])
            features[SENTENCE] |= (first == places) & elsewhere & (places > 0)

    def sums(self, weights: Tensor, columns: int | None = None) -> Tensor:
        """What lies on each set of cells: (B,H,T,S) -> (B,H,columns), the first ones only where `columns` is given."""
        flat = weights.flatten(2)
        by_code = flat.new_zeros(*flat.shape[:2], self.sets.n_codes)
        by_code.scatter_add_(2, self.codes[:, None].expand_as(flat), flat)
        return by_code @ self.sets.members[:, :columns]


@dataclass(frozen=True, eq=False)
class Seen:
    """What the mask of a layer permits, of windows (B): what uniform attention has in each set, and how often there is
    one.

    uniform (B,1,T,S): the same weight on every key that may be read. sums (B,n), counts (B,n): its weight on the single
    sets, and the queries that may read a cell of them; the first is of all cells. largest, entropy and distance (B,):
    sums over the queries.
    """

    uniform: Tensor
    sums: Tensor
    counts: Tensor
    largest: Tensor
    entropy: Tensor
    distance: Tensor

    @classmethod
    def of(cls, cells: Cells, allowed: Tensor):
        """allowed: booleans broadcastable to (B,1,T,S)."""
        batch, shape = len(cells.codes), cells.distances.shape
        allowed = allowed.expand(batch, 1, *shape)
        uniform = allowed / allowed.sum(-1, keepdim=True).clamp(min=1)
        n = cells.sets.n_single
        counts = cells.sums(allowed.float(), n)[:, 0]  # a query has one cell of each distance
        counts[:, 0] = allowed.any(-1).sum((1, 2))
        for name, feature in cells.features.items():
            counts[:, cells.sets.column(name)] = (feature & allowed[:, 0]).any(-1).sum(-1).float()
        return cls(
            uniform,
            cells.sums(uniform, n)[:, 0],
            counts,
            uniform.amax(-1).sum((1, 2)),
            entropy(uniform).sum((1, 2)),
            (uniform * cells.distances).sum((1, 2, 3)),
        )


@dataclass(frozen=True, eq=False)
class HeadSums:
    """Of windows (B) and heads (H), sums over the queries: (B,H) each, and weights on sets of cells.

    mass (B,H,columns): the weight on every set of cells. even (B,H,n): what of it is no more than the uniform weight,
    on the single sets.
    """

    mass: Tensor
    even: Tensor
    largest: Tensor
    entropy: Tensor
    distance: Tensor

    @classmethod
    def of(cls, cells: Cells, seen: Seen, weights: Tensor):
        """weights (B,H,T,S)."""
        return cls(
            cells.sums(weights),
            cells.sums(torch.minimum(weights, seen.uniform), cells.sets.n_single),
            weights.amax(-1).sum(-1),
            entropy(weights).sum(-1),
            mean_distance(weights, cells.distances).sum(-1),
        )


def mean_distance(weights: Tensor, distances: Tensor) -> Tensor:
    """Of each row, how far away it reads on average: (…,T,S), (T,S) -> (…,T)."""
    total = weights.sum(-1)  # less than 1 where a sink takes a part
    return (weights * distances).sum(-1) / total.clamp(min=torch.finfo(weights.dtype).tiny)


def _queries(window: Window, part: str):
    return window.source if part == "encoder" else window.read


def _keys(window: Window, part: str):
    return window.source if part in ("encoder", "cross") else window.read
