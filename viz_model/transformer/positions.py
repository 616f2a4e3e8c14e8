"""Where a token stands: the sinusoidal table and the rotary rotation.

Sinusoids: Vaswani et al. 2017, §3.5. Rotary: Su et al. 2021, "RoFormer", §3.2.2 and eq. 34.
"""

import torch
from torch import Tensor


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


def rotate(x: Tensor, angles: Tensor, pairs: str) -> Tensor:
    """Turn each pair of numbers of a head by its angle.

    x (B,H,T,D), angles (T,D/2) or (B,1,T,D/2); `pairs` is "halves" (i with i + D/2) or "neighbours"
    (2i with 2i + 1). Lengths are unchanged, and q·k afterwards depends on the distance alone.
    """
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    if pairs == "halves":
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)
