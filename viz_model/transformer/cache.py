"""The key/value cache: what attention needs again of every token that was read, kept instead of worked out anew.

Pope et al. 2022, "Efficiently Scaling Transformer Inference". Buffers are made once and filled in place.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.arguments import DTYPES, REAL, of_type, text, whole_number
from viz_model.errors import VizError
from viz_model.memory_limits import refuse_beyond_memory
from viz_model.transformer.facts import ModelFacts

# What Python and torch raise for a tensor that does not fit where it is written, or for what is none.
MISFITS = (AttributeError, IndexError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True, eq=False)
class CacheView:
    """The first S tokens of a cache: a look into its buffers, not a copy, and nothing writes there again.

    keys, values: (L,B,G,S,D). source_keys, source_values: of an encoder-decoder, those that cross-attention reads.
    """

    keys: Tensor
    values: Tensor
    source_keys: Tensor | None = None
    source_values: Tensor | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """(L,B,G,D)."""
        layers, batch, groups, _, width = self.keys.shape
        return layers, batch, groups, width

    @property
    def length(self) -> int:
        """S, the tokens that are held; those of a source not counted."""
        return self.keys.shape[-2]

    @property
    def source_length(self) -> int:
        """The tokens of the source; 0 where there is none."""
        return 0 if self.source_keys is None else self.source_keys.shape[-2]

    @property
    def nbytes(self) -> int:
        """Bytes of all keys and values, as the tensors say."""
        return self.keys.nbytes + self.values.nbytes + self.source_nbytes

    @property
    def source_nbytes(self) -> int:
        """Those of the source alone."""
        return sum(tensor.nbytes for tensor in self._of_source())

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the buffers that it looks into, filled or not."""
        growing = self.keys.untyped_storage().nbytes()  # keys and values lie in one
        return growing + self.source_nbytes

    def key(self, layer: int, part: str = "self") -> Tensor:
        """Keys of the first row of the batch, as they enter the product: (G,S,D). part: "cross" for the source's.

        Raises VizError for a layer that is not there, and where there is no source.
        """
        return self._of_part(part, self.keys, self.source_keys)[self._layer(layer), 0]

    def value(self, layer: int, part: str = "self") -> Tensor:
        """Values of the first row of the batch: (G,S,D). Errors as `key`."""
        return self._of_part(part, self.values, self.source_values)[self._layer(layer), 0]

    def _layer(self, layer: int) -> int:
        return whole_number("The layer", layer, 0, len(self.keys) - 1)

    def _of_part(self, part: str, own: Tensor, of_source: Tensor | None) -> Tensor:
        if text("The part", part) != "cross":
            return own
        if of_source is None:
            raise VizError("This model reads one text only, so its cache holds no source.")
        return of_source

    def _of_source(self) -> tuple[Tensor, ...]:
        return () if self.source_keys is None else (self.source_keys, self.source_values)


@dataclass(frozen=True, eq=False)
class LayerCache:
    """What one layer has of a cache: buffers (B,G,capacity,D), of which the first `start` tokens are filled.

    source_keys, source_values (B,G,S,D): those of the source, where there is one; filled once.
    """

    keys: Tensor
    values: Tensor
    start: int
    source_keys: Tensor | None = None
    source_values: Tensor | None = None

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write T new keys and values (B,G,T,D) after those that are there; gives all of them (B,G,S,D).

        Raises VizError where they do not fit.
        """
        for what, given in (("The keys", key), ("The values", value)):
            of_type(what, given, Tensor, "a tensor of numbers of shape (B,G,T,D)")
        try:
            end = self.start + key.shape[-2]
            self.keys[:, :, self.start : end] = key
            self.values[:, :, self.start : end] = value
        except MISFITS as error:
            raise _misfit(self.keys, self.start) from error
        return self.keys[:, :, :end].to(key), self.values[:, :, :end].to(value)

    def keep_source(self, key: Tensor, value: Tensor) -> None:
        """Write the keys and values of the source (B,G,S,D). Raises VizError where they do not fit."""
        if self.source_keys is None:
            raise VizError("The cache was made without room for a source. Make one with it: KVCache(…, source=S).")
        try:
            self.source_keys[:] = key
            self.source_values[:] = value
        except MISFITS as error:
            raise _misfit(self.source_keys, 0) from error


def _misfit(buffer: Tensor, held: int) -> VizError:
    batch, groups, capacity, width = buffer.shape
    return VizError(
        f"These keys and values do not fit into the cache, which takes (B,G,T,D) = ({batch},{groups},T,{width}) and "
        f"has room for {capacity - held:,} tokens more."
    )


class KVCache:
    """Buffers for the keys and values of `capacity` tokens in every layer; `length` of them are filled.

    source: of an encoder-decoder, how many tokens the source has; their keys and values in cross-attention are written
    by the first pass, and stay. A pass writes behind `length` and moves it when it is through, so a pass that fails
    changes nothing.
    """

    def __init__(
        self,
        config: ModelFacts,
        capacity: int,
        batch: int = 1,
        dtype: torch.dtype = torch.float32,
        source: int = 0,
    ):
        of_type("The config", config, ModelFacts, "that of a model, such as model.config")
        capacity, source = whole_number("The capacity", capacity, 0), whole_number("The source's length", source, 0)
        batch = whole_number("The batch", batch, 1)
        if of_type("The dtype", dtype, torch.dtype, "one of torch's, such as torch.float32") not in DTYPES[REAL]:
            raise VizError("Keys and values are floating-point numbers, such as torch.float32.")
        of_a_token = 2 * config.n_layers * batch * config.n_kv_heads * config.d_head
        refuse_beyond_memory("A cache of these sizes", of_a_token * (capacity + source) * dtype.itemsize)

        def buffers(tokens: int) -> Tensor:  # keys, then values
            return torch.zeros(2, config.n_layers, batch, config.n_kv_heads, tokens, config.d_head, dtype=dtype)

        self._buffers = buffers(capacity)
        self._source = buffers(source) if source else (None, None)
        self.capacity, self.length = capacity, 0

    @classmethod
    def from_view(cls, config: ModelFacts, view: CacheView, capacity: int) -> "KVCache":
        """A cache of its own that begins with a copy of what another one held.

        Raises VizError where that is a cache of another model, or holds more.
        """
        of_type("The view", view, CacheView, "that of a cache, such as cache.view()")
        batch, dtype, source = view.keys.shape[1], view.keys.dtype, view.source_length
        cache = cls(config, capacity, batch, dtype, source)
        cache.refuse_overflow(view.length)
        if cache.sizes != view.sizes:
            raise VizError("The view belongs to a cache of another model. Give the config of that model.")
        cache._buffers[0, :, :, :, : view.length] = view.keys
        cache._buffers[1, :, :, :, : view.length] = view.values
        if source:
            cache._source[0], cache._source[1] = view.source_keys, view.source_values
        cache.length = view.length
        return cache

    @property
    def sizes(self) -> tuple[int, ...]:
        """(L,B,G,D)."""
        _, layers, batch, groups, _, width = self._buffers.shape
        return layers, batch, groups, width

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the buffers, filled or not."""
        return self.view().allocated_bytes

    @property
    def holds_source(self) -> bool:
        """Whether a pass has been, so that the source need not be read again."""
        return self._source[0] is not None and self.length > 0

    @property
    def source_length(self) -> int:
        return 0 if self._source[0] is None else self._source[0].shape[-2]

    def view(self) -> CacheView:
        """What is held now; it stays as it is while the cache grows."""
        keys, values = self._buffers[:, :, :, :, : self.length]
        return CacheView(keys, values, *self._source)

    def layer(self, layer: int) -> LayerCache:
        """What one layer has of it; raises VizError for one that is not there."""
        layer = whole_number("The layer", layer, 0, self._buffers.shape[1] - 1)
        source = [None if tensor is None else tensor[layer] for tensor in self._source]
        return LayerCache(self._buffers[0, layer], self._buffers[1, layer], self.length, *source)

    def refuse_overflow(self, new: int) -> None:
        """Raise VizError when `new` tokens more do not fit."""
        if self.length + whole_number("The number of new tokens", new, 0) > self.capacity:
            raise VizError(
                f"The cache was made for {self.capacity:,} tokens and holds {self.length:,}: {new:,} more do not fit. "
                "Make a larger one."
            )
