"""Does switching a head off show what it is for? Another head may take over, so heads are switched off in pairs.

McGrath et al. 2023, "The Hydra Effect: Emergent Self-repair in Language Model Computations"; Michel et al. 2019, "Are
Sixteen Heads Really Better than One?".
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from viz_model.errors import VizError
from viz_model.intervention.batches import RowEdits, edited_logits, refuse_without_prediction
from viz_model.jobs import Tell, untold
from viz_model.model import Model
from viz_model.model.trace import Trace

MOST_OTHERS = 128  # heads that are switched off beside the first one
MOST_SEARCHED = 36  # heads of a model of which every pair is tried
LEAST = 0.05  # bits: by less, nobody would say that a head takes over
MORE = 1.5  # times as much must a head matter when the first one is off


@dataclass(frozen=True)
class Other:
    """A head beside the first one, and what its loss costs in bits: alone, and both together."""

    layer: int
    head: int
    alone: float
    together: float


@dataclass(frozen=True, eq=False)
class TakingOver:
    """What it costs to lose a head: how many bits of surprise are added at the likeliest token of the whole model.

    token: that one; probability: the model's own. first: what the loss of the head costs; others: heads of its layer
    and of later ones, up to `MOST_OTHERS`, of `of` that there are.
    """

    token: int
    probability: float
    first: float
    others: tuple[Other, ...]
    of: int

    def when_off(self, other: Other) -> float:
        """What the loss of the other head costs where the first one is off already."""
        return other.together - self.first

    @property
    def best(self) -> Other:
        """The head whose loss costs most more when the first one is off than when it is on."""
        return max(self.others, key=lambda other: self.when_off(other) - other.alone)

    @property
    def takes_over(self) -> bool:
        """Whether that head does: it matters far more when the first one is off."""
        off, on = self.when_off(self.best), self.best.alone
        return off - on >= LEAST and off >= MORE * on


def pairs_off(model: Model, trace: Trace, layer: int, head: int, position: int, tell: Tell = untold) -> TakingOver:
    """Switch a head off, every other one that could take over, and each of these together with it.

    Only what comes after a head, or beside it, can do otherwise because it is gone. tell: told at every site how many
    passes are made, of how many. Raises VizError where nothing is predicted, and where no other head comes after it.
    """
    refuse_without_prediction(model)
    heads = range(trace.config.n_heads)
    every = [(at, n) for at in range(layer, trace.n_layers) for n in heads if (at, n) != (layer, head)]
    if not every:
        raise VizError("No other head comes after this one. Choose a head of an earlier layer.")
    chosen = every[:MOST_OTHERS]
    rows = [[(layer, head)], *([other] for other in chosen), *([(layer, head), other] for other in chosen)]
    token, probability, costs = _costs(model, trace, position, rows, tell)
    first, alone, together = costs[0], costs[1 : 1 + len(chosen)], costs[1 + len(chosen) :]
    others = tuple(Other(*place, *cost) for place, *cost in zip(chosen, alone, together, strict=True))
    return TakingOver(token, probability, first, others, len(every))


def most_replaced_head(model: Model, trace: Trace, position: int, tell: Tell = untold) -> tuple[int, int] | None:
    """(layer, head) of the head that another one takes over for most; None where none is, see `pairs_off`.

    A pass for each pair of heads. Raises VizError for a model of more than `MOST_SEARCHED` heads.
    """
    heads = [(layer, head) for layer in range(trace.n_layers) for head in range(trace.config.n_heads)]
    if len(heads) > MOST_SEARCHED:
        raise VizError(f"The model has {len(heads):,} heads. Pairs are searched among at most {MOST_SEARCHED}.")
    pairs = list(combinations(heads, 2))
    token, _, costs = _costs(model, trace, position, [*([head] for head in heads), *map(list, pairs)], tell)
    alone, together = dict(zip(heads, costs, strict=False)), dict(zip(pairs, costs[len(heads) :], strict=True))
    found = None
    for head in heads[:-1]:
        others = [Other(*other, alone[other], cost) for (one, other), cost in together.items() if one == head]
        others += [Other(*one, alone[one], cost) for (one, other), cost in together.items()
                   if other == head and one[0] == head[0]]  # fmt: skip
        case = TakingOver(token, 0.0, alone[head], tuple(others), len(others))
        gain = case.when_off(case.best) - case.best.alone
        if case.takes_over and (found is None or gain > found[0]):
            found = gain, head
    return found and found[1]


def _costs(
    model: Model, trace: Trace, position: int, rows: Sequence[Sequence[tuple[int, int]]], tell: Tell
) -> tuple[int, float, list[float]]:
    """The likeliest token and its probability, and how many bits it loses where the heads of each row are off."""
    before = trace.of(trace.config.self_part).logits_at(position).double().log_softmax(-1)
    token = int(before.argmax())
    tell(0, len(rows))
    edits = [switched_off(trace, heads) for heads in rows]
    logits = edited_logits(model, trace, edits, lambda done: tell(done, len(rows)), position)
    costs = torch.cat([before[token] - some.double().log_softmax(-1)[:, token] for some in logits.split(64)])
    return token, float(before[token].exp()), (costs / math.log(2)).tolist()


def switched_off(trace: Trace, heads: Sequence[tuple[int, int]]) -> RowEdits:
    """The edits of one row in which these heads write nothing."""
    of_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        of_layer.setdefault(layer, []).append(head)

    def without(some: list[int]) -> Callable[[Tensor], Tensor]:
        def change(mixed: Tensor) -> Tensor:  # (H,T,D)
            mixed[some] = 0.0
            return mixed

        return change

    name = trace.config.attention_name
    return {f"{name(trace.part, layer)}.mixed": without(some) for layer, some in of_layer.items()}
