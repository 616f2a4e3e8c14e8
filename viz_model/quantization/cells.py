"""A quantized matrix looked at closely: how many weights take each level, and how one weight came to its code."""

from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.quantization.codes import BLOCK, NF4Blocks
from viz_model.quantization.twin import QuantizedTensor

BINS = 200


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Weights over the largest absolute value of their row or block, before and after.

    edges (bins+1,), before (bins,): how many lie in each stretch of [−1, 1]; levels (K,), after (K,): how many take
    each level. Both add up to the weights of the matrix.
    """

    edges: Tensor
    before: Tensor
    levels: Tensor
    after: Tensor


@dataclass(frozen=True)
class QuantizedCell:
    """How one weight was rounded: code = the nearest level to weight / maximum; after = constant · level.

    maximum: the largest absolute value of those that share its constant, which go from cell `first` to cell `last`,
    (row, column) each, in the order of reading. constant: the maximum as it is kept: NF4 keeps it in 8 bits.
    """

    weight: float
    maximum: float
    first: tuple[int, int]
    last: tuple[int, int]
    scaled: float
    code: int
    level: float
    constant: float
    after: float

    @property
    def error(self) -> float:
        return self.after - self.weight


def level_counts(tensor: QuantizedTensor, bins: int = BINS) -> LevelCounts:
    """The weights of a matrix before and after, counted."""
    scaled = _scaled(tensor)
    codes = tensor.after.codes().int().flatten() - tensor.after.first_code
    return LevelCounts(
        edges=torch.linspace(-1, 1, bins + 1),
        before=scaled.histc(bins, -1, 1).long(),
        levels=tensor.after.levels,
        after=torch.bincount(codes, minlength=len(tensor.after.levels)),
    )


def quantized_cell(tensor: QuantizedTensor, row: int, column: int) -> QuantizedCell:
    """The weight in that row and column, and what became of it."""
    after, (_, width) = tensor.after, tensor.after.shape
    code = int(after.codes()[row, column])
    first, last = row * width, row * width + width - 1
    if isinstance(after, NF4Blocks):
        first = (row * width + column) // BLOCK * BLOCK
        last = min(first + BLOCK, tensor.before.numel()) - 1
    return QuantizedCell(
        weight=tensor.before[row, column].item(),
        maximum=after.maxima(tensor.before)[row, column].item(),
        first=divmod(first, width),
        last=divmod(last, width),
        scaled=_scaled(tensor)[row, column].item(),
        code=code,
        level=after.levels[code - after.first_code].item(),
        constant=after.constants()[row, column].item(),
        after=after.dequantized()[row, column].item(),
    )


def _scaled(tensor: QuantizedTensor) -> Tensor:
    """Each weight over its maximum: (R,N), within [−1, 1]; 0 where all are 0."""
    maxima = tensor.after.maxima(tensor.before)
    return torch.where(maxima > 0, tensor.before / maxima, 0.0).float()
