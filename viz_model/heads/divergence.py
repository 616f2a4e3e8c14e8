"""Heads of two passes side by side, on aligned tokens: their weights, and how far these are apart."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from viz_model.arguments import of_type, whole_number
from viz_model.errors import VizError
from viz_model.heads.alignment import Places, side_by_side
from viz_model.heads.comparison import token_losses
from viz_model.jobs import Tell, untold
from viz_model.model.trace import Trace

ROUNDING = 1e-4  # a row whose weights sum to 1 but for less than this has no sink

Head = tuple[int, int]  # a layer and a head


@dataclass(frozen=True, eq=False)
class ComparedWeights:
    """The weights of two heads at N places of the queries and M of the keys, in float64.

    first, second (N,M): rows are averaged over the tokens of a place, and columns summed. elsewhere (N,) each: what a
    row gives to keys at no place. divergence (N,): the Jensen-Shannon divergence of the two rows in bits, from 0 (the
    same) to 1 (nothing in common); NaN where one of them may read nothing. What a row gives to keys at no place, and to
    a sink, counts as well: two rows share their sinks, and no key without a counterpart. Lin 1991, "Divergence Measures
    Based on the Shannon Entropy".
    """

    first: Tensor
    second: Tensor
    elsewhere: tuple[Tensor, Tensor]
    divergence: Tensor


@dataclass(frozen=True, eq=False)
class ComparedPasses:
    """Two passes, seen through a part each, and which of their queries and keys stand side by side."""

    first: Trace
    second: Trace
    queries: Places
    keys: Places

    def weights(self, head: Head, other: Head | None = None) -> ComparedWeights:
        """A head of the first pass beside one of the second; beside the one with the same numbers, if none is given.

        Raises VizError for a head that is not there.
        """
        rows = [self._rows(0, head), self._rows(1, head if other is None else other)]
        (first, away, sink, may), (second, away_too, sink_too, may_too) = rows
        nothing = torch.zeros_like(away)[:, None]
        bins = (
            torch.cat([first, away[:, None], nothing, sink[:, None]], dim=1),  # (N,M+3)
            torch.cat([second, nothing, away_too[:, None], sink_too[:, None]], dim=1),
        )
        found = jensen_shannon(*bins).masked_fill(~(may & may_too), torch.nan)
        return ComparedWeights(first, second, (away, away_too), found)

    @torch.inference_mode()
    def divergences(self, head: Head | None = None, *, tell: Tell = untold) -> Tensor:
        """The mean divergence over the queries, in bits: of each head from the one with the same numbers (L,H); or of
        each head of the second pass from this one of the first. NaN where no query of both may read anything.

        tell: told how many heads are done, of how many. Raises VizError for a head that is not there, and without one
        for two models whose layers or heads differ in number.
        """
        of_type("tell", tell, Callable, "a function")
        shape = self.second.n_layers, self.second.config.n_heads
        if head is None and shape != (self.first.n_layers, self.first.config.n_heads):
            raise VizError(
                f"The models have {self.first.n_layers} × {self.first.config.n_heads} and {shape[0]} × {shape[1]} "
                "heads, so heads with the same numbers do not belong together. Choose a head of the first model."
            )
        table = torch.full(shape, torch.nan, dtype=torch.float64)
        for done, (layer, other) in enumerate((layer, other) for layer in range(shape[0]) for other in range(shape[1])):
            tell(done, math.prod(shape))
            table[layer, other] = self.weights(head or (layer, other), (layer, other)).divergence.nanmean()
        tell(math.prod(shape), math.prod(shape))
        return table

    @cached_property
    def losses(self) -> tuple[Tensor, Tensor]:
        """What the tokens of each place cost in nats, summed, in both passes: (N,) each; NaN at the first token of a
        text, which nothing predicts. Raises VizError as `token_losses`."""
        found = []
        for trace, groups in zip((self.first, self.second), (self.queries.first, self.queries.second), strict=True):
            losses = torch.cat([torch.tensor([torch.nan], dtype=torch.float64), token_losses(trace)])
            found.append(torch.stack([losses[list(tokens)].sum() for tokens in groups]))
        return found[0], found[1]

    @torch.inference_mode()
    def _rows(self, number: int, head: Head) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of one pass: weights (N,M) at the places; what each row gives elsewhere, and to a sink; whether it may read
        anything."""
        trace = (self.first, self.second)[number]
        layer, head = _head(trace, head)
        queries, keys = ((places.first, places.second)[number] for places in (self.queries, self.keys))
        weights = _averaged(trace.weights(layer, head).double(), queries)  # (N,S)
        aligned = _summed(weights, keys)  # (N,M)
        sink = 1 - weights.sum(-1)
        sink = sink.where(sink > ROUNDING, 0.0)
        may = _averaged(trace.mask(layer).any(-1)[:, None].double(), queries)[:, 0] > 0
        elsewhere = (weights.sum(-1) - aligned.sum(-1)).clamp_min(0)
        has_all = sum(map(len, keys)) == trace.key_length
        return aligned, torch.zeros_like(elsewhere) if has_all else elsewhere, sink, may


def compare(first: Trace, second: Trace, signs: tuple[Collection[int], Collection[int]] = ((), ())) -> ComparedPasses:
    """Two passes side by side: of two prompts, two models, or one prompt with and without a change.

    The same text cut in two ways is aligned by its characters; other texts token by token, by the ends that they share
    where they are not equally long. signs: of each model, the ids of tokens that stand for no text, such as [CLS].

    Raises VizError for what is no trace, and for texts of which no two tokens belong together.
    """
    for trace in (first, second):
        of_type("A pass", trace, Trace, "a trace, such as model.trace gives")
    places = []
    for pieces, ids in (("token_bytes", "ids"), ("key_token_bytes", "key_ids")):
        left_out = tuple(
            {n for n, token in enumerate(getattr(trace, ids)) if token in of_model}
            for trace, of_model in zip((first, second), signs, strict=True)
        )
        places.append(side_by_side(getattr(first, pieces), getattr(second, pieces), left_out))
    if not all(map(len, places)):
        raise VizError("The two texts neither begin nor end with the same token, so no tokens belong together.")
    return ComparedPasses(first, second, *places)


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """Rows (…,N) that sum to 1 -> the Jensen-Shannon divergence of each two in bits (…): 0 where they are the same, 1
    where they have nothing in common."""
    middle = (first + second) / 2
    halves = [torch.special.xlogy(one, one / middle).nan_to_num(0.0).sum(-1) for one in (first, second)]
    return (halves[0] + halves[1]).clamp_min(0) / (2 * math.log(2))


def _head(trace: Trace, head: Head) -> Head:
    if not isinstance(head, tuple | list) or len(head) != 2:
        raise VizError("A head is given by two numbers: its layer, and its number in the layer, such as (1, 0).")
    layer, number = head
    layer = whole_number("The layer", layer, 0, trace.n_layers - 1)
    return layer, whole_number("The head", number, 0, trace.config.n_heads - 1)


def _averaged(rows: Tensor, groups: tuple[tuple[int, ...], ...]) -> Tensor:
    """(T,…) -> (N,…), the mean over the tokens of each place."""
    return _summed(rows.mT, groups).mT / torch.tensor([len(tokens) for tokens in groups])[:, None]


def _summed(values: Tensor, groups: tuple[tuple[int, ...], ...]) -> Tensor:
    """(…,S) -> (…,M), the sum over the tokens of each place."""
    tokens = torch.tensor([token for group in groups for token in group])
    if len(tokens) == len(groups):
        return values[..., tokens]
    places = torch.tensor([place for place, group in enumerate(groups) for _ in group])
    return values.new_zeros(*values.shape[:-1], len(groups)).index_add_(-1, places, values[..., tokens])
