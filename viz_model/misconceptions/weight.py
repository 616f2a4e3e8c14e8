"""Does a high attention weight mean that the token mattered? Cells are forbidden, one at a time.

Jain and Wallace 2019, "Attention is not Explanation"; Wiegreffe and Pinter 2019, "Attention is not not Explanation".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from viz_model.errors import VizError
from viz_model.heads.comparison import divergences
from viz_model.intervention.batches import RowEdits, edited_logits, refuse_without_prediction
from viz_model.jobs import Tell, untold
from viz_model.model import Model
from viz_model.model.trace import Trace
from viz_model.transformer.attention import attention_weights

HEAVIEST, OTHERS = 64, 64  # cells of a row that are forbidden: so many of the heaviest, so many of the rest
FAR = 2.0  # a weight, or an effect, is far above another one if it is so many times as large


@dataclass(frozen=True)
class Cell:
    """What a head gives to a key. weight: in the query's row; effect: KL in bits of the prediction without it."""

    layer: int
    head: int
    key: int
    weight: float
    effect: float


@dataclass(frozen=True, eq=False)
class Weighing:
    """cells: those that were forbidden, the heaviest first, of `of` that the query reads in all heads. rounding: an
    effect below is none."""

    cells: tuple[Cell, ...]
    of: int
    rounding: float

    def correlation(self, most: int | None = None) -> float:
        """Spearman's, of weights and effects of all cells, or of the `most` heaviest; NaN where either is the same in
        all."""
        cells = self.cells[:most]
        return rank_correlation([cell.weight for cell in cells], [cell.effect for cell in cells])

    @property
    def pair(self) -> tuple[Cell, Cell] | None:
        """A heavy cell and one of at most half its weight that matters at least twice as much, more than rounding: of
        all such pairs the one whose effects are furthest apart. None where there is none."""
        pairs = [
            (heavy, light)
            for heavy in self.cells
            for light in self.cells
            if heavy.weight >= FAR * light.weight
            and light.effect > self.rounding
            and light.effect >= FAR * heavy.effect
        ]
        heaviest = self.cells[0].weight
        heavy_ones = [pair for pair in pairs if pair[0].weight >= heaviest / FAR]  # nobody calls the others high
        return max(heavy_ones, key=lambda pair: pair[1].effect - pair[0].effect, default=None)


def weigh(model: Model, trace: Trace, query: int, position: int, tell: Tell = untold) -> Weighing:
    """Forbid cells of a query's row in all heads of the trace's part, each alone, and compare the prediction at a
    position. Where a cell is forbidden, the weights of the row are those that the softmax makes of the others.

    tell: told at every site how many cells are done, of how many. Raises VizError where nothing is predicted, and for a
    query that can read one key alone.
    """
    refuse_without_prediction(model)
    found = [
        (float(trace.weights(layer, head)[query, key]), layer, head, key)
        for layer in range(trace.n_layers)
        if trace.mask(layer)[query].sum() > 1
        for head in range(trace.config.n_heads)
        for key in trace.mask(layer)[query].nonzero()[:, 0].tolist()
    ]
    if not found:
        raise VizError("This query can read only one key, so that key cannot be forbidden. Choose a later query.")
    found.sort(key=lambda cell: -cell[0])
    chosen = found[:HEAVIEST]
    rest = found[HEAVIEST:]
    chosen += [rest[place] for place in np.linspace(0, len(rest) - 1, min(OTHERS, len(rest))).astype(int)]
    edits = [{}, *(_forbidden(trace, layer, head, query, key) for _, layer, head, key in chosen)]
    before = trace.of(trace.config.self_part).logits_at(position)
    tell(0, len(edits))
    edited = edited_logits(model, trace, edits, lambda done: tell(done, len(edits)), position)
    effects = divergences(before, edited)
    cells = tuple(
        Cell(layer, head, key, weight, effect)
        for (weight, layer, head, key), effect in zip(chosen, effects[1:].tolist(), strict=True)
    )
    spacing = torch.finfo(torch.float32).eps * float(before.abs().max())
    rounding = 10 * max(float(effects[0]), spacing**2)
    return Weighing(cells, len(found), rounding)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: the correlation of ranks, equal numbers sharing the mean of theirs. NaN where all are equal."""
    ranks = [_ranks(np.asarray(numbers, dtype=float)) for numbers in (first, second)]
    spread = [rank - rank.mean() for rank in ranks]
    size = math.sqrt(float((spread[0] ** 2).sum() * (spread[1] ** 2).sum()))
    return float((spread[0] * spread[1]).sum()) / size if size else math.nan


def _ranks(numbers: np.ndarray) -> np.ndarray:
    _, places, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    return (ends - (counts - 1) / 2)[places]


def _forbidden(trace: Trace, layer: int, head: int, query: int, key: int) -> RowEdits:
    allowed = trace.mask(layer)[query][None].clone()
    allowed[0, key] = False
    row = attention_weights(trace.softmax_input(layer, head)[query][None], allowed, sinks=trace.sink(layer, head))[0]

    def change(weights: Tensor) -> Tensor:  # (H,T,S)
        weights[head, query] = row
        return weights

    return {f"{trace.config.attention_name(trace.part, layer)}.weights": change}
