"""What runs a model: the face that our own Transformers and the models of the transformers library have in common."""

from collections.abc import Mapping
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from viz_model.errors import VizError
from viz_model.transformer import masks
from viz_model.transformer.attention import Equation
from viz_model.transformer.cache import KVCache
from viz_model.transformer.facts import ModelFacts
from viz_model.transformer.feed_forward import FeedForwardEquation
from viz_model.transformer.hooks import site
from viz_model.transformer.linear_maps import BlockMaps, StackMaps

# Booleans that are broadcastable to (B,H,T,S), True where a query may attend; of an encoder-decoder by part.
Masks = Tensor | Mapping[str, Tensor | None] | None


class Host(Protocol):
    """What whoever runs, measures or draws a model may ask of it.

    network: the torch module that its parameters are in. value_width: numbers of a value in each head, D in nearly
    all models. source_modules: names of the modules in it that only the source of an encoder-decoder goes through:
    its encoder, and what makes keys and values of cross-attention. head_modules: names of those whose matrices make
    logits of the final hidden state; none where there are no logits. angles_switch_at: the length up to which its
    rotation has other angles than beyond it, so that keys of a shorter text are of no use to a longer one; None where
    angles do not depend on the length.
    """

    config: ModelFacts
    network: nn.Module
    value_width: int
    source_modules: frozenset[str]
    head_modules: frozenset[str]
    angles_switch_at: int | None

    def __call__(self, ids: Tensor, *, logits: str = "last", padding: Tensor | None = None, **choices) -> Tensor:
        """Token ids (B,T) -> logits of the last real position (B,V), or of all with logits="all" (B,T,V)."""

    def hidden(self, ids: Tensor, *, padding: Tensor | None = None, **choices) -> Tensor:
        """Token ids (B,T) -> final hidden state (B,T,C)."""

    def unembed(self, hidden: Tensor) -> Tensor:
        """(…,C) -> logits (…,V)."""

    def equation(self, attention: str) -> Equation:
        """What of the equation is the same for all heads of an attention, by what its hook sites begin with."""

    def feed_forward(self, block: str) -> FeedForwardEquation:
        """The equation of the feed-forward half of a block, by what its hook sites begin with."""

    def maps(self, block: str) -> BlockMaps:
        """What a block does to its stream, map by map, by what its hook sites begin with."""

    def stack_maps(self, part: str) -> StackMaps:
        """What stands before and behind the blocks of the stack that the queries of a part are in."""

    def unembedding_rows(self) -> tuple[Tensor, Tensor | None]:
        """What the final hidden state is multiplied with for each token (V,C), and what is added (V,).

        Raises VizError where logits are something else.
        """

    def n_parameters(self) -> int:
        """How many numbers were learned (tied matrices counted once)."""

    def sharing_copy(self) -> Self:
        """The same with modules of its own, which share every parameter and buffer with these."""


class ToLogits:
    """What every host does with its final hidden state; it has `config`, `network`, `hidden` and `unembed`."""

    def forward(self, ids: Tensor, *, logits: str = "last", padding: Tensor | None = None, **choices) -> Tensor:
        """Token ids (B,T) -> logits of the last real position (B,V), or of all with logits="all" (B,T,V).

        padding and the other choices are those of `hidden`. Of a model without an unembedding, the final hidden state.
        """
        hidden = self.hidden(ids, padding=padding, **choices)
        if logits == "last":
            last = -1 if padding is None else masks.last_real(~padding)
            hidden = hidden[torch.arange(len(ids)), last]  # (B,T,C) -> (B,C)
        return site("logits", self.unembed(hidden)) if self.config.has_unembedding else hidden

    def n_parameters(self) -> int:
        """How many numbers were learned (tied matrices counted once)."""
        return sum(parameter.numel() for parameter in self.network.parameters())


def refuse_source(source: Tensor | None, cache: KVCache | None) -> None:
    """Raise VizError where an encoder-decoder is given no source (B,S), or a cache for one of another length."""
    if source is None:
        raise VizError("An encoder-decoder needs a source. Give its token ids.")
    if cache is not None and cache.source_length != source.shape[1]:
        raise VizError(
            f"The cache was made for a source of {cache.source_length:,} tokens, and this one has "
            f"{source.shape[1]:,}. Make another one."
        )


def refuse_cache(facts: ModelFacts, cache: KVCache, new: int) -> None:
    """Raise VizError where a model can have no cache, or `new` tokens more do not fit into it."""
    if facts.layout == "encoder-only":
        raise VizError("Only causal models can use a cache. In this model every new token changes the earlier ones.")
    cache.refuse_overflow(new)
