"""A weight matrix on a few levels: int8 row by row, and NF4 in blocks of 64, as it is stored and what it stands for.

Every stored number is a code; w ≈ constant · level[code], where a row or a block of weights shares one constant, its
largest absolute value. Int8: Dettmers et al. 2022, "LLM.int8()", §2.1 and §3.1. NF4 and its double quantization:
Dettmers et al. 2023, "QLoRA", §3 and appendix E. Symbols: R rows (outputs), N columns (inputs).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

BLOCK = 64  # weights that share a constant in NF4
CONSTANTS_BLOCK = 256  # constants that share a constant of their own
INT8_LARGEST = 127
NEAR_ZERO = 1e-30  # what a row or block of zeros is divided by

NF4_LEVELS = torch.tensor(
    (
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    )
)
"""The 16 levels of QLoRA's appendix E: quantiles of a normal distribution, 0 among them, scaled to [−1, 1]."""

INT8_LEVELS = torch.arange(-INT8_LARGEST, INT8_LARGEST + 1) / INT8_LARGEST


def float8_levels() -> Tensor:
    """The 256 values of the 8-bit float of double quantization, in [−1, 1]: finer near 0.

    "Dynamic tree quantization", Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization", §1.3: seven
    powers of ten, each twice as finely divided as the one below.
    """
    positive = []
    for power in range(7):
        edges = torch.linspace(0.1, 1, 2**power + 1)
        positive.append(10.0 ** (power - 6) * ((edges[:-1] + edges[1:]) / 2))
    positive = torch.cat(positive)
    return torch.cat((-positive, positive, torch.tensor((0.0, 1.0)))).sort().values


def nearest_codes(values: Tensor, levels: Tensor) -> Tensor:
    """The number of the nearest of the sorted levels, of two equally near ones the lower: uint8 of the same shape."""
    middles = (levels[:-1] + levels[1:]) / 2
    if len(levels) > 16:
        return torch.bucketize(values, middles).to(torch.uint8)
    codes = torch.zeros(values.shape, dtype=torch.uint8)
    for middle in middles:  # a comparison with each is several times quicker than a search among few
        codes += values > middle
    return codes


@dataclass(frozen=True, eq=False)
class Int8Rows:
    """A matrix (R,N) as int8 with one float32 constant a row, its largest absolute value: w ≈ absmax · code / 127."""

    stored: Tensor  # int8 (R,N)
    absmax: Tensor  # float32 (R,)

    levels: ClassVar[Tensor] = INT8_LEVELS
    first_code: ClassVar[int] = -INT8_LARGEST

    @classmethod
    def of(cls, matrix: Tensor) -> "Int8Rows":
        """Round a matrix (R,N) of floats."""
        absmax = matrix.abs().amax(-1).float()
        steps = INT8_LARGEST / absmax.clamp(min=NEAR_ZERO)
        return cls((matrix * steps[:, None]).round().to(torch.int8), absmax)

    @staticmethod
    def maxima(matrix: Tensor) -> Tensor:
        """The largest absolute value of each weight's row: (R,N), a view."""
        return matrix.abs().amax(-1, keepdim=True).expand_as(matrix)

    @property
    def shape(self) -> tuple[int, int]:
        return tuple(self.stored.shape)

    @property
    def code_bytes(self) -> int:
        return self.stored.nbytes

    @property
    def constant_bytes(self) -> int:
        return self.absmax.nbytes

    def codes(self) -> Tensor:
        """The stored numbers, −127 … 127: (R,N)."""
        return self.stored

    def constants(self) -> Tensor:
        """What the level of each weight is multiplied with: (R,N), a view."""
        return self.absmax[:, None].expand(self.shape)

    def dequantized(self) -> Tensor:
        """What the codes stand for: float32 (R,N)."""
        return self.stored * (self.absmax / INT8_LARGEST)[:, None]


@dataclass(frozen=True, eq=False)
class Float8Constants:
    """The constants of NF4's blocks, quantized in their turn ("double quantization", QLoRA §3).

    Constants are positive, so their mean is subtracted; blocks of 256 of what is left share a float32.
    """

    stored: Tensor  # uint8 (blocks,)
    absmax: Tensor  # float32 (blocks / 256,)
    mean: Tensor  # float32 ()

    levels: ClassVar[Tensor] = float8_levels()

    @classmethod
    def of(cls, constants: Tensor) -> "Float8Constants":
        """Round positive float32 (blocks,)."""
        mean = constants.mean()
        blocks = _blocks(constants - mean, CONSTANTS_BLOCK)
        absmax = blocks.abs().amax(-1)
        codes = nearest_codes(_scaled(blocks, absmax), cls.levels)
        return cls(codes.flatten()[: len(constants)], absmax, mean)

    @property
    def nbytes(self) -> int:
        return self.stored.nbytes + self.absmax.nbytes + self.mean.nbytes

    def dequantized(self) -> Tensor:
        """float32 (blocks,)."""
        shared = self.absmax.repeat_interleave(CONSTANTS_BLOCK)[: len(self.stored)]
        return self.levels[self.stored.int()] * shared + self.mean


@dataclass(frozen=True, eq=False)
class NF4Blocks:
    """A matrix (R,N) in 4 bits a weight, row after row cut into blocks of 64 (the last one filled up with zeros).

    Two codes lie in a byte, the first in its higher half.
    """

    stored: Tensor  # uint8 (blocks · 32,)
    block_constants: Float8Constants
    shape: tuple[int, int]

    levels: ClassVar[Tensor] = NF4_LEVELS
    first_code: ClassVar[int] = 0
    _pairs: ClassVar[Tensor] = torch.cartesian_prod(NF4_LEVELS, NF4_LEVELS)  # (256,2): both levels of a byte

    @classmethod
    def of(cls, matrix: Tensor) -> "NF4Blocks":
        """Round a matrix (R,N) of floats."""
        blocks = _blocks(matrix.float().flatten(), BLOCK)
        absmax = blocks.abs().amax(-1)
        codes = nearest_codes(_scaled(blocks, absmax), cls.levels).flatten()
        return cls(codes[0::2] << 4 | codes[1::2], Float8Constants.of(absmax), tuple(matrix.shape))

    @staticmethod
    def maxima(matrix: Tensor) -> Tensor:
        """The largest absolute value of each weight's block: (R,N)."""
        blocks = _blocks(matrix.flatten(), BLOCK).abs().amax(-1)
        return blocks.repeat_interleave(BLOCK)[: matrix.numel()].view_as(matrix)

    @property
    def code_bytes(self) -> int:
        return self.stored.nbytes

    @property
    def constant_bytes(self) -> int:
        return self.block_constants.nbytes

    @property
    def plain_constant_bytes(self) -> int:
        """What the constants would take as float32, without double quantization."""
        return 4 * len(self.block_constants.stored)

    def codes(self) -> Tensor:
        """The stored numbers, 0 … 15: uint8 (R,N)."""
        return self._unfilled(torch.stack((self.stored >> 4, self.stored & 15), -1))

    def constants(self) -> Tensor:
        """What the level of each weight is multiplied with: float32 (R,N)."""
        return self._unfilled(self._constants[:, None].expand(-1, BLOCK))

    def dequantized(self) -> Tensor:
        """What the codes stand for: float32 (R,N)."""
        levels = F.embedding(self.stored.int(), self._pairs).view(-1, BLOCK)
        return self._unfilled(levels.mul_(self._constants[:, None]))

    @cached_property
    def _constants(self) -> Tensor:
        return self.block_constants.dequantized()

    def _unfilled(self, filled: Tensor) -> Tensor:
        rows, columns = self.shape
        return filled.reshape(-1)[: rows * columns].view(rows, columns)


QuantizedMatrix = Int8Rows | NF4Blocks


def _blocks(values: Tensor, width: int) -> Tensor:
    """(n,) -> (blocks, width), the last block filled up with zeros."""
    return F.pad(values, (0, -len(values) % width)).view(-1, width)


def _scaled(blocks: Tensor, absmax: Tensor) -> Tensor:
    """Each block over its largest absolute value: within [−1, 1]."""
    return (blocks * (1 / absmax.clamp(min=NEAR_ZERO))[:, None]).clamp(-1, 1)
