"""Masks: which query may attend to which key, as booleans made from positions.

`True` means "may attend". A mask is kept as booleans everywhere; minus infinity is written into the
scores only inside `attention.py`, and never guessed back from values.
"""

import torch
from torch import Tensor

from viz_model.arguments import said
from viz_model.errors import MaskError

NAMES = ("causal", "bidirectional")


def causal(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Keys at or before the query (Vaswani et al. 2017, §3.2.3). (T,), (S,) -> (T, S) booleans."""
    return key_positions[None, :] <= query_positions[:, None]


def bidirectional(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Every key for every query (BERT, Devlin et al. 2019). (T,), (S,) -> (T, S) booleans."""
    return torch.ones(len(query_positions), len(key_positions), dtype=torch.bool, device=key_positions.device)


def near(query_positions: Tensor, key_positions: Tensor, width: int) -> Tensor:
    """Keys less than `width` positions away from the query, on either side. (T,), (S,) -> (T, S) booleans.

    And-ed with `causal`: the query and the width − 1 tokens before it (sliding window attention, Beltagy et
    al. 2020, "Longformer", §3.1; Jiang et al. 2023, "Mistral 7B", §2).
    """
    return (query_positions[:, None] - key_positions[None, :]).abs() < width


def prefix(query_positions: Tensor, key_positions: Tensor, length: int) -> Tensor:
    """The first `length` keys for every query, the others causally. (T,), (S,) -> (T, S) booleans.

    Raffel et al. 2020, "Exploring the Limits of Transfer Learning" (T5), §3.2.1, "causal with prefix".
    """
    return causal(query_positions, key_positions) | (key_positions[None, :] < length)


def named(name: str, length: int, device: torch.device | None = None) -> Tensor:
    """The mask of that name over a prompt of `length` tokens: (T, T) booleans.

    Raises MaskError for a name that is not in `NAMES`.
    """
    positions = torch.arange(length, device=device)
    return between(name, positions, positions)


def between(name: str, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """The mask of that name between any positions. (T,), (S,) -> (T, S) booleans; MaskError as `named`."""
    if name not in NAMES:
        raise MaskError(f"There is no mask {said(name)}. Choose one of: {', '.join(NAMES)}.")
    return {"causal": causal, "bidirectional": bidirectional}[name](query_positions, key_positions)


def window_in(allowed: Tensor, name: str) -> int | None:
    """How many keys a query reads at most, where (T,S) booleans are not the plain mask of that name; else None."""
    places = (torch.arange(size) for size in allowed.shape)
    return None if torch.equal(allowed, between(name, *places)) else int(allowed.sum(-1).max())


def with_padding(mask: Tensor, real: Tensor) -> Tensor:
    """Forbid keys that are padding: (T, S) or (B, 1, T, S), with real tokens (B, S) True -> (B, 1, T, S)."""
    return mask & real[:, None, None, :]


def positions_of(real: Tensor) -> Tensor:
    """Positions that follow the real tokens: (B, T) booleans -> (B, T); padding before the text is at 0."""
    return (real.long().cumsum(-1) - 1).clamp(min=0)


def last_real(real: Tensor) -> Tensor:
    """Where the last real token of each row stands: (B, T) booleans -> (B,)."""
    return real.long().cumsum(-1).argmax(-1)
