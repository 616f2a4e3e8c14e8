"""The key/value cache: what attention needs again of every token that was read, kept instead of worked out anew.

Pope et al. 2022, "Efficiently Scaling Transformer Inference", §2.1. Buffers are made once and filled in place.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from viz_model.errors import VizError

if TYPE_CHECKING:
    from viz_model.transformer.config import TransformerConfig


@dataclass(frozen=True, eq=False)
class CacheView:
    """The first S tokens of a cache: a look into its buffers, not a copy, and nothing writes there again.

    keys, values: (L,B,G,S,D).
    """

    keys: Tensor
    values: Tensor

    @property
    def length(self) -> int:
        """S, the tokens that are held."""
        return self.keys.shape[-2]

    @property
    def nbytes(self) -> int:
        """Bytes of the S keys and values, as the tensors say."""
        return self.keys.nbytes + self.values.nbytes

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the buffers that it looks into, filled or not."""
        return self.keys.untyped_storage().nbytes()  # keys and values lie in one

    def key(self, layer: int) -> Tensor:
        """Keys of the first row of the batch, as they enter the product: (G,S,D)."""
        return self.keys[layer, 0]

    def value(self, layer: int) -> Tensor:
        """Values of the first row of the batch: (G,S,D)."""
        return self.values[layer, 0]


@dataclass(frozen=True, eq=False)
class LayerCache:
    """What one layer has of a cache: buffers (B,G,capacity,D), of which the first `start` tokens are filled."""

    keys: Tensor
    values: Tensor
    start: int

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write T new keys and values (B,G,T,D) after those that are there; gives all of them (B,G,S,D)."""
        end = self.start + key.shape[-2]
        self.keys[:, :, self.start : end] = key
        self.values[:, :, self.start : end] = value
        return self.keys[:, :, :end], self.values[:, :, :end]


class KVCache:
    """Buffers for the keys and values of `capacity` tokens in every layer; `length` of them are filled.

    A pass writes behind `length` and moves it when it is through, so a pass that fails changes nothing.
    """

    def __init__(self, config: "TransformerConfig", capacity: int, batch: int = 1, dtype: torch.dtype = torch.float32):
        shape = (2, config.n_layers, batch, config.n_kv_heads, capacity, config.d_head)
        self._buffers = torch.zeros(shape, dtype=dtype)  # keys, then values
        self.capacity, self.length = capacity, 0

    @classmethod
    def from_view(cls, config: "TransformerConfig", view: CacheView, capacity: int) -> "KVCache":
        """A cache of its own that begins with a copy of what another one held."""
        cache = cls(config, capacity, batch=view.keys.shape[1], dtype=view.keys.dtype)
        cache._buffers[0, :, :, :, : view.length] = view.keys
        cache._buffers[1, :, :, :, : view.length] = view.values
        cache.length = view.length
        return cache

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the buffers, filled or not."""
        return self._buffers.nbytes

    def view(self) -> CacheView:
        """What is held now; it stays as it is while the cache grows."""
        keys, values = self._buffers[:, :, :, :, : self.length]
        return CacheView(keys, values)

    def layer(self, layer: int) -> LayerCache:
        return LayerCache(self._buffers[0, layer], self._buffers[1, layer], self.length)

    def refuse_overflow(self, new: int) -> None:
        """Raise VizError when `new` tokens more do not fit."""
        if self.length + new > self.capacity:
            raise VizError(
                f"The cache was made for {self.capacity:,} tokens and holds {self.length:,}: {new:,} more do not fit. "
                "Make a larger one."
            )
