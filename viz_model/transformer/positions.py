"""Where a token stands: the sinusoidal table and the rotary rotation.

Sinusoids: Vaswani et al. 2017, §3.5. Rotary: Su et al. 2021, "RoFormer", §3.2.2 and eq. 34.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.arguments import REAL, WHOLE, of_type, tensor
from viz_model.errors import VizError


def sinusoidal_table(length: int, width: int) -> Tensor:
    """sin and cos of position / 10000^(2i/C) in neighbouring columns: (length, width)."""
    angles = rotary_angles(torch.arange(length), width, 10000.0)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2).float()


def rotary_angles(positions: Tensor, width: int, base: float) -> Tensor:
    """position · base^(−2i/D): (…, T) -> (…, T, D/2), in radians.

    In float64: at position 4,000, float32 is wrong by up to 2e-4 radians.
    """
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=positions.device)
    frequencies = base ** (-exponents / width)
    return positions[..., None] * frequencies


@dataclass(frozen=True)
class Rotation:
    """How an attention turns its queries and keys by their position.

    frequencies: θ of each pair, radians a position. pairs: "halves" or "neighbours", see `rotate`. scale: what the
    turned numbers are multiplied with besides (YaRN, Peng et al. 2023, §3.4). Where there are fewer than D/2 pairs,
    only the first numbers of a head turn, and the others stay (GPT-J, GPT-NeoX). until: the longest text that is turned
    so; a longer one is turned by other frequencies (Phi-3). None: any.
    """

    frequencies: tuple[float, ...]
    pairs: str
    scale: float = 1.0
    until: int | None = None

    @property
    def theta(self) -> Tensor:
        """The frequencies, float64."""
        return torch.tensor(self.frequencies, dtype=torch.float64)

    def at(self, positions: Tensor) -> Callable[[Tensor], Tensor]:
        """What turns x (…,T,D) at positions (T,), again and again: their sines and cosines are worked out once. Raises
        VizError for what are no such positions, and what it gives for what is no such x."""
        of_type("The positions", positions, Tensor, "a tensor of whole numbers of shape (T,)")
        kind = REAL if positions.is_floating_point() else WHOLE
        tensor("The positions", positions, kind, "(T,)", (None,))
        turned = self._at(positions)

        def turn(x: Tensor) -> Tensor:
            self._refuse_misfit(x, positions)
            return turned(x)

        return turn

    def turn(self, x: Tensor, positions: Tensor) -> Tensor:
        """x (…,T,D) at positions (T,), as they enter the product. Raises VizError for what is no such tensor."""
        self._refuse_misfit(x, positions)
        return self._at(positions)(x)

    def _refuse_misfit(self, x: Tensor, positions: Tensor) -> None:
        turning = 2 * len(self.frequencies)
        of_type("x", x, Tensor, "a tensor of shape (…,T,D)")
        length, width = x.shape[-2:] if x.dim() > 1 else (None, None)
        tensor("x", x, REAL, "(…,T,D)", (*x.shape[:-2], length, width))
        if width < turning:
            raise VizError(f"x has {width} numbers a head, and {turning} of them turn.")
        of_type("The positions", positions, Tensor, "a tensor of whole numbers of shape (T,)")
        kind = REAL if positions.is_floating_point() else WHOLE
        tensor("The positions", positions, kind, "(T,)", (length,), x.device)

    def _at(self, positions: Tensor) -> Callable[[Tensor], Tensor]:
        angles = positions[:, None] * self.theta
        cos, sin, turning = angles.cos(), angles.sin(), 2 * len(self.frequencies)

        def turn(x: Tensor) -> Tensor:
            turned = _rotated(x[..., :turning], cos.to(x.dtype), sin.to(x.dtype), self.pairs)
            turned = turned if self.scale == 1 else turned * self.scale
            return torch.cat((turned, x[..., turning:]), -1) if turning < x.shape[-1] else turned

        return turn


def rotate(x: Tensor, angles: Tensor, pairs: str) -> Tensor:
    """Turn each pair of numbers of a head by its angle.

    x (B,H,T,D), angles (T,D/2) or (B,1,T,D/2); `pairs` is "halves" (i with i + D/2) or "neighbours"
    (2i with 2i + 1). Lengths are unchanged, and q·k afterwards depends on the distance alone. Of angles for fewer
    than D/2 pairs, the numbers behind these pairs stay as they are.
    """
    turning = 2 * angles.shape[-1]
    if turning < x.shape[-1]:
        return torch.cat((rotate(x[..., :turning], angles, pairs), x[..., turning:]), -1)
    return _rotated(x, angles.cos().to(x.dtype), angles.sin().to(x.dtype), pairs)


def _rotated(x: Tensor, cos: Tensor, sin: Tensor, pairs: str) -> Tensor:
    if pairs == "halves":
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)
