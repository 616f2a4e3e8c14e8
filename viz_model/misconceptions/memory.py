"""Is the attention matrix the model's memory? One decode step with what is kept, and with it taken away."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.errors import VizError
from viz_model.model import Model
from viz_model.transformer.cache import KVCache


@dataclass(frozen=True, eq=False)
class Memory:
    """The last token of a prompt, read as one decode step after all tokens before it.

    kept: logits (V,) with the keys and values of the earlier tokens, and no weights, which nothing keeps; whole: those
    of one pass over the whole prompt; forgotten: with keys and values set to zero. cache_bytes: of the keys and
    values; weights_bytes: of all weights that the pass over the earlier tokens makes.
    """

    kept: Tensor
    whole: Tensor
    forgotten: Tensor
    cache_bytes: int
    weights_bytes: int

    def difference(self, logits: Tensor) -> float:
        """The largest |difference| of logits (V,), such as `kept`, from the whole pass's."""
        return (logits - self.whole).abs().max().item()


@torch.inference_mode()
def what_is_kept(model: Model, ids: Sequence[int]) -> Memory:
    """Run the experiment on a prompt of a decoder-only model; VizError for others, or fewer than two tokens."""
    if model.has_source:
        raise VizError(
            f"{model.name} keeps keys and values of two texts, as the page Generate shows. This experiment needs a "
            "model that reads one text. Choose a decoder-only model, such as tiny-gpt."
        )
    if model.config.layout == "encoder-only":
        raise VizError(
            f"{model.name} does not write token by token, so it keeps nothing between steps. Choose a decoder-only "
            "model, such as tiny-gpt."
        )
    if len(ids) < 2:
        raise VizError("A prompt of one token has no earlier keys and values to keep. Type a longer prompt.")
    row = torch.tensor([list(ids)])
    cache = KVCache(model.config, row.shape[1])
    model.transformer(row[:, :-1], cache=cache)
    held = cache.view()
    empty = KVCache.from_view(model.config, held, row.shape[1])
    for tensor in (empty.view().keys, empty.view().values):
        tensor.zero_()
    cells = model.config.n_layers * model.config.n_heads * held.length**2
    return Memory(
        kept=model.transformer(row[:, -1:], cache=cache)[0],
        whole=model.transformer(row)[0],
        forgotten=model.transformer(row[:, -1:], cache=empty)[0],
        cache_bytes=held.nbytes,
        weights_bytes=4 * cells,
    )
