"""What runs a model: the face that our own Transformers and the models of the transformers library have in common."""

from collections.abc import Mapping
from typing import Protocol, Self, runtime_checkable

import torch
from torch import Tensor, nn

from viz_model.arguments import BOOLEANS, REAL, WHOLE, of_type, tensor, text
from viz_model.errors import MaskError, PromptError, VizError
from viz_model.memory_limits import refuse_beyond_memory
from viz_model.transformer import masks
from viz_model.transformer.attention import Equation, refuse_no_mask
from viz_model.transformer.cache import KVCache
from viz_model.transformer.changes import Change
from viz_model.transformer.facts import ModelFacts
from viz_model.transformer.feed_forward import FeedForwardEquation
from viz_model.transformer.hooks import site
from viz_model.transformer.linear_maps import BlockMaps, StackMaps

# Booleans that are broadcastable to (B,H,T,S), True where a query may attend; of an encoder-decoder by part.
Masks = Tensor | Mapping[str, Tensor | None] | None


@runtime_checkable
class Host(Protocol):
    """What whoever runs, measures or draws a model may ask of it.

    network: the torch module that its parameters are in. value_width: numbers of a value in each head, D in nearly
    all models. source_modules: names of the modules in it that only the source of an encoder-decoder goes through:
    its encoder, and what makes keys and values of cross-attention. head_modules: names of those whose matrices make
    logits of the final hidden state; none where there are no logits. angles_switch_at: the length up to which its
    rotation has other angles than beyond it, so that keys of a shorter text are of no use to a longer one; None where
    angles do not depend on the length. skips_blocks: whether a pass may skip blocks (see `skipping`) that are not the
    first of a stack, where the stream behind them is put in place: the rest of the pass needs nothing else of them.
    changes: what happens to tensors in each of its passes, see `Change`.
    """

    config: ModelFacts
    network: nn.Module
    value_width: int
    source_modules: frozenset[str]
    head_modules: frozenset[str]
    angles_switch_at: int | None
    skips_blocks: bool
    changes: tuple[Change, ...]

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

    def embedding_rows(self) -> Tensor:
        """The table of tokens, a row each: (V,·), for the maps `tokens` of `stack_maps`."""

    def unembedding_rows(self) -> tuple[Tensor, Tensor | None]:
        """What each token's logit is the product with (V,C), and what is added (V,), before a soft cap.

        The other factor is the final hidden state, behind the maps of its stack to the unembedding where there are any.
        Raises VizError where logits are something else.
        """

    def n_parameters(self) -> int:
        """How many numbers were learned (tied matrices counted once)."""

    def sharing_copy(self) -> Self:
        """The same with modules of its own, which share every parameter and buffer with these."""


class ToLogits:
    """What every host does with its final hidden state; it has `config`, `network`, `hidden` and `unembed`."""

    changes: tuple[Change, ...] = ()

    def forward(self, ids: Tensor, *, logits: str = "last", padding: Tensor | None = None, **choices) -> Tensor:
        """Token ids (B,T) -> logits of the last real position (B,V), or of all with logits="all" (B,T,V).

        padding and the other choices are those of `hidden`. Of a model without an unembedding, the final hidden state.
        Raises VizError for what is no such tensor, or does not fit the model.
        """
        if text("logits", logits) not in ("last", "all"):
            raise VizError("logits is 'last' or 'all'.")
        hidden = self.hidden(ids, padding=padding, **choices)
        if logits == "last":
            last = -1 if padding is None else masks.last_real(~padding)
            hidden = hidden[torch.arange(len(ids)), last]  # (B,T,C) -> (B,C)
        return site("logits", self.unembed(hidden)) if self.config.has_unembedding else hidden

    def n_parameters(self) -> int:
        """How many numbers were learned (tied matrices counted once)."""
        return sum(parameter.numel() for parameter in self.network.parameters())


def refuse_strange(
    facts: ModelFacts,
    weight: Tensor,
    ids: Tensor,
    *,
    source: Tensor | None = None,
    mask: Masks = None,
    padding: Tensor | None = None,
    source_padding: Tensor | None = None,
    cache: KVCache | None = None,
) -> None:
    """Raise VizError for what `hidden` cannot work with: of another type, kind, shape or device than it says.

    weight: one of the model, which says where it is.
    """
    device, held, from_source = weight.device, 0, 0
    read = _refuse_ids("The ids", "(B,T)", ids, (None, None), facts, weight)
    batch = len(ids)
    if cache is not None:
        held, from_source = of_type("The cache", cache, KVCache, "a KVCache").length, cache.source_length
        sizes, wanted = cache.sizes, (facts.n_layers, batch, facts.n_kv_heads, facts.d_head)
        if sizes != wanted:
            raise VizError(
                f"The cache is made for (L,B,G,D) = {sizes}, but these ids and this model have {wanted}. Make another "
                "one: KVCache(model.config, capacity, batch)."
            )
    if source is not None:
        from_source = _refuse_ids("The source", "(B,S)", source, (batch, None), facts, weight)
    if facts.position in ("learned", "sinusoidal") and max(held + read, from_source) > facts.context_length:
        raise PromptError(
            f"The model has positions for {facts.context_length:,} tokens, and a text here has "
            f"{max(held + read, from_source):,}. Shorten it."
        )
    refuse_beyond_memory("A mask for so many tokens", read * (held + read))
    if padding is not None:
        tensor("padding", padding, BOOLEANS, "(B,T)", (batch, read), device)
    if source_padding is not None:
        tensor("source_padding", source_padding, BOOLEANS, "(B,S)", (batch, from_source), device)
    lengths = {"encoder": (from_source, from_source), "cross": (read, from_source)}
    for part, given in (mask if isinstance(mask, Mapping) else {facts.self_part: mask}).items():
        if part not in facts.parts:
            raise MaskError(f"Masks are given by part: {', '.join(facts.parts)}.")
        if given is not None:
            refuse_no_mask(given, (batch, facts.n_heads, *lengths.get(part, (read, held + read))), device)


def _refuse_ids(
    what: str, axes: str, ids: object, sizes: tuple[int | None, int | None], facts: ModelFacts, weight: Tensor
) -> int:
    """Raise VizError for what are no ids of the model; gives their number in a row."""
    tensor(what, ids, WHOLE, axes, sizes, weight.device, PromptError)
    low, high = (int(end) for end in torch.aminmax(ids))
    if low < 0 or high >= facts.vocab_size:
        strange, last = low if low < 0 else high, facts.vocab_size - 1
        raise PromptError(f"There is no token {strange}: ids go from 0 to {last}.")
    return ids.shape[1]


def refuse_no_vectors(hidden: object, width: int, weight: Tensor) -> None:
    """Raise VizError for what is no tensor of vectors (…,C) for the weights of a model."""
    what = "The final hidden state"
    shape = of_type(what, hidden, Tensor, "a tensor of shape (…,C)").shape
    tensor(what, hidden, REAL, "(…,C)", (*shape[:-1], width), weight.device)
    if hidden.dtype != weight.dtype:
        raise VizError(f"{what} is of {hidden.dtype}, and the model of {weight.dtype}.")


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
