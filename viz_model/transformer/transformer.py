"""The Transformer: token ids in, logits out; every step of it a hook site."""

import torch
from torch import Tensor, nn

from viz_model import masks
from viz_model.cache import KVCache
from viz_model.errors import VizError
from viz_model.hooks import site
from viz_model.transformer.block import Block, make_norm
from viz_model.transformer.config import TransformerConfig
from viz_model.transformer.positions import rotary_angles, sinusoidal_table


class Transformer(nn.Module):
    """Decoder-only (GPT-2, Radford et al. 2019; Llama, Touvron et al. 2023) or encoder-only (BERT)."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        if config.position == "learned":
            self.positions = nn.Embedding(config.context_length, config.d_model)
        if config.position == "sinusoidal":
            table = sinusoidal_table(config.context_length, config.d_model)
            self.register_buffer("position_table", table, persistent=False)
        self.embedding_norm = make_norm(config) if config.embedding_norm else nn.Identity()
        self.blocks = nn.ModuleList(Block(config, f"blocks.{layer}") for layer in range(config.n_layers))
        # A post-norm stream has been normalised by its last block.
        self.final_norm = make_norm(config) if config.norm_place == "pre" else nn.Identity()
        if not config.tied_unembedding:
            self.unembedding = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        padding: Tensor | None = None,
        cache: KVCache | None = None,
        logits: str = "last",
    ) -> Tensor:
        """Token ids (B,T) -> logits of the last real position (B,V), or of all with logits="all" (B,T,V).

        mask: booleans broadcastable to (B,H,T,T), True where a query may attend; None is the layout's own.
        padding: booleans (B,T), True at padding tokens: nobody attends to them, and positions count the
        real tokens only, so that padding changes no result.
        cache: what was read before; `ids` come after it, are added to it, and attend to S tokens, all in all.
            Raises VizError for a layout that is not decoder-only, with padding, and where it is full.
        """
        hidden = self.hidden(ids, mask=mask, padding=padding, cache=cache)
        if logits == "last":
            last = -1 if padding is None else masks.last_real(~padding)
            hidden = hidden[torch.arange(len(ids)), last]  # (B,T,C) -> (B,C)
        return site("logits", self.unembed(hidden))

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

        n_blocks: stop after so many blocks; what stands in the stream there can be unembedded too.
        """
        if cache is not None:
            self._refuse_cache(cache, ids, padding, n_blocks)
        length = ids.shape[-1]
        positions = torch.arange(length, device=ids.device)
        if cache is not None:
            positions = positions + cache.length
            every = torch.arange(cache.length + length, device=ids.device)
            mask = masks.causal(positions, every) if mask is None else mask  # (T,S)
        mask = masks.named(self.config.mask, length, ids.device) if mask is None else mask
        if padding is not None:
            mask = masks.with_padding(mask, ~padding)
            positions = masks.positions_of(~padding)
        x, angles = self._embed(ids, positions), self._angles(positions)
        for layer, block in enumerate(self.blocks[:n_blocks]):
            x = block(x, mask, angles, None if cache is None else cache.layer(layer))
        if cache is not None:
            cache.length += length
        return site("final_norm", self.final_norm(x))

    def _refuse_cache(self, cache: KVCache, ids: Tensor, padding: Tensor | None, n_blocks: int | None) -> None:
        if self.config.layout != "decoder-only":
            raise VizError("A cache serves causal models only: here the tokens before change with each new one.")
        if padding is not None or n_blocks is not None:
            raise VizError("A cache is filled by passes through all blocks and without padding.")
        cache.refuse_overflow(ids.shape[-1])

    def unembed(self, hidden: Tensor) -> Tensor:
        """(…,C) -> logits (…,V)."""
        weight = self.tokens.weight if self.config.tied_unembedding else self.unembedding.weight
        return nn.functional.linear(hidden, weight)

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        x = site("embed.tokens", self.tokens(ids))  # (B,T) -> (B,T,C)
        table = self._position_table()
        if table is not None:
            x = x + site("embed.positions", table[positions].expand_as(x))
        return site("embed", self.embedding_norm(x))

    def _position_table(self) -> Tensor | None:
        """What is added to the tokens, one row a position: (context length, C)."""
        if self.config.position == "learned":
            return self.positions.weight
        return self.position_table if self.config.position == "sinusoidal" else None

    def _angles(self, positions: Tensor) -> Tensor | None:
        if self.config.position != "rotary":
            return None
        angles = rotary_angles(positions, self.config.d_head, self.config.rotary_base)
        return angles.unsqueeze(-3) if angles.dim() == 3 else angles  # (B,1,T,D/2) or (T,D/2)

    def n_parameters(self) -> int:
        """How many numbers were learned (tied matrices counted once)."""
        return sum(parameter.numel() for parameter in self.parameters())
