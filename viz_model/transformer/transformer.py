"""The Transformer of one stack: token ids in, logits out."""

import torch
from torch import Tensor, nn

from viz_model.transformer import masks
from viz_model.transformer.attention import Equation
from viz_model.transformer.cache import KVCache
from viz_model.transformer.config import TransformerConfig
from viz_model.transformer.hooks import site
from viz_model.transformer.stack import Stack


class ToLogits:
    """What every layout does with the end of its stream; it has `hidden`, `tokens` and perhaps `unembedding`."""

    def forward(self, ids: Tensor, *, logits: str = "last", padding: Tensor | None = None, **choices) -> Tensor:
        """Token ids (B,T) -> logits of the last real position (B,V), or of all with logits="all" (B,T,V).

        padding and the other choices are those of `hidden`.
        """
        hidden = self.hidden(ids, padding=padding, **choices)
        if logits == "last":
            last = -1 if padding is None else masks.last_real(~padding)
            hidden = hidden[torch.arange(len(ids)), last]  # (B,T,C) -> (B,C)
        return site("logits", self.unembed(hidden))

    def unembed(self, hidden: Tensor) -> Tensor:
        """(…,C) -> logits (…,V)."""
        weight = self.tokens.weight if self.config.tied_unembedding else self.unembedding.weight
        return nn.functional.linear(hidden, weight)

    def equation(self, attention: str) -> Equation:
        """What `attend` was told at this attention, such as "blocks.2.attn"."""
        return Equation(self.config.d_head**-0.5)

    def n_parameters(self) -> int:
        """How many numbers were learned (tied matrices counted once)."""
        return sum(parameter.numel() for parameter in self.parameters())


class Transformer(ToLogits, Stack):
    """Decoder-only (GPT-2, Radford et al. 2019; Llama, Touvron et al. 2023) or encoder-only (BERT)."""

    def __init__(self, config: TransformerConfig):
        super().__init__(config, "self")
        if not config.tied_unembedding:
            self.unembedding = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def hidden(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        padding: Tensor | None = None,
        cache: KVCache | None = None,
        n_blocks: int | None = None,
    ) -> Tensor:
        """Token ids (B,T) -> the normalised end of the residual stream (B,T,C).

        mask: booleans broadcastable to (B,H,T,T), True where a query may attend; None is the layout's own.
        padding: booleans (B,T), True at padding tokens: nobody attends to them, and positions count the
        real tokens only, so that padding changes no result.
        cache: what was read before; `ids` come after it, are added to it, and attend to S tokens, all in all.
            Raises VizError for an encoder, with padding, and where it is full.
        n_blocks: stop after so many blocks; what stands in the stream there can be unembedded too.
        """
        return self.run(self.tokens(ids), mask, padding, cache, n_blocks=n_blocks)
