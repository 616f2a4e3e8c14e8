"""Our KVCache as a cache of the transformers library: its layers write into our buffers."""

from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin, EncoderDecoderCache

from viz_model.transformer.cache import KVCache, LayerCache


class _Layer(CacheLayerMixin):
    """The buffers of one layer. Windows are in the mask, so all tokens are kept."""

    is_sliding = False

    def __init__(self, layer: LayerCache, capacity: int):
        super().__init__()
        self.layer, self.length, self.capacity, self.is_initialized = layer, layer.start, capacity, True

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Nothing: the buffers are there."""

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        keys, values = self.layer.append(key_states, value_states)
        self.length = keys.shape[-2]
        return keys, values

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_max_length(self) -> int:
        return self.capacity


class _SourceLayer(_Layer):
    """Keys and values of the source in one layer's cross-attention: written once."""

    def __init__(self, layer: LayerCache, holds_source: bool, weight: Tensor):
        super().__init__(layer, layer.source_keys.shape[-2])
        self.keys, self.values = (one.to(weight) for one in (layer.source_keys, layer.source_values))
        self.length = self.capacity if holds_source else 0

    def update(self, key_states: Tensor, value_states: Tensor, *args, **kwargs) -> tuple[Tensor, Tensor]:
        self.layer.keep_source(key_states, value_states)
        self.length = self.capacity
        self.keys, self.values = self.layer.source_keys.to(key_states), self.layer.source_values.to(value_states)
        return self.keys, self.values


def as_library_cache(cache: KVCache, n_layers: int, weight: Tensor) -> Cache:
    """A cache that the library's models take; of an encoder-decoder, with that of the source beside it.

    weight: one of the model, which says where and in which precision it computes.
    """
    layers = [cache.layer(layer) for layer in range(n_layers)]
    own = Cache(layers=[_Layer(layer, cache.capacity) for layer in layers])
    if not cache.source_length:
        return own
    return EncoderDecoderCache(own, Cache(layers=[_SourceLayer(layer, cache.holds_source, weight) for layer in layers]))
