"""A stack: token ids, blocks on a residual stream, its final norm; every step of it a hook site."""

import torch
from torch import Tensor, nn

from viz_model.errors import VizError
from viz_model.transformer import masks
from viz_model.transformer.block import Block, make_norm
from viz_model.transformer.cache import KVCache
from viz_model.transformer.config import TransformerConfig
from viz_model.transformer.hooks import site
from viz_model.transformer.host import refuse_cache
from viz_model.transformer.positions import rotary_angles, sinusoidal_table
from viz_model.transformer.skipping import is_skipped


class Stack(nn.Module):
    """What reads one text: a decoder-only or encoder-only Transformer has one, an encoder-decoder two.

    part: the self-attention of its blocks ("self", "encoder" or "decoder"); a "decoder" has cross-attention too. The
    two stacks of an encoder-decoder read the same table of tokens, which therefore is not in them.
    """

    def __init__(self, config: TransformerConfig, part: str):
        super().__init__()
        self.config, self.part, self.name = config, part, config.stack_name(part)
        if part == "self":
            self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        if config.position == "learned":
            self.positions = nn.Embedding(config.context_length, config.d_model)
        if config.position == "sinusoidal":
            table = sinusoidal_table(config.context_length, config.d_model)
            self.register_buffer("position_table", table, persistent=False)
        self.embedding_norm = make_norm(config, f"{self.name}embed", present=config.embedding_norm)
        self.blocks = nn.ModuleList(
            Block(config, config.block_name(part, layer), cross=part == "decoder")
            for layer in range(config.layers_of(part))
        )
        # A post-norm stream has been normalised by its last block.
        self.final_norm = make_norm(config, f"{self.name}final_norm", present=config.norm_place == "pre")

    def forward(
        self,
        rows: Tensor,
        mask: Tensor | None = None,
        padding: Tensor | None = None,
        cache: KVCache | None = None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        n_blocks: int | None = None,
    ) -> Tensor:
        """Token rows (B,T,C) of the table -> final hidden state (B,T,C).

        The choices are those of `Transformer.hidden`; memory, memory_mask: what cross-attention reads, (B,S,C), and
        which of it, broadcastable to (B,H,T,S).
        """
        if cache is not None:
            self._refuse_cache(cache, rows.shape[1], padding, n_blocks)
        length, read = rows.shape[1], cache.length if cache is not None else 0
        positions = torch.arange(read, read + length, device=rows.device)
        if mask is None:
            every = torch.arange(read + length, device=rows.device)
            mask = masks.between(self.config.mask_of(self.part), positions, every)  # (T,S)
        if padding is not None:
            mask = masks.with_padding(mask, ~padding)
            positions = masks.positions_of(~padding)
        x, angles = self._embed(rows, positions), self._angles(positions)
        for layer, block in enumerate(self.blocks[:n_blocks]):
            if not is_skipped(block.name):
                x = block(x, mask, angles, None if cache is None else cache.layer(layer), memory, memory_mask)
        if cache is not None:
            cache.length += length
        return self.final_norm(x)

    def _refuse_cache(self, cache: KVCache, new: int, padding: Tensor | None, n_blocks: int | None) -> None:
        refuse_cache(self.config, cache, new)
        if padding is not None or n_blocks is not None:
            raise VizError("A cache can only be filled by passes through all blocks and without padding.")

    def _embed(self, rows: Tensor, positions: Tensor) -> Tensor:
        x = site(f"{self.name}embed.tokens", rows)
        if self.config.embedding_scale:
            x = x * self.config.d_model**0.5
        table = self.position_rows
        if table is not None:
            x = x + site(f"{self.name}embed.positions", table[positions].expand_as(x))
        return self.embedding_norm(x)

    @property
    def position_rows(self) -> Tensor | None:
        """What is added to the tokens, one row a position: (context length, C)."""
        if self.config.position == "learned":
            return self.positions.weight
        return self.position_table if self.config.position == "sinusoidal" else None

    def _angles(self, positions: Tensor) -> Tensor | None:
        if self.config.position != "rotary":
            return None
        angles = rotary_angles(positions, self.config.d_head, self.config.rotary_base)
        return angles.unsqueeze(-3) if angles.dim() == 3 else angles  # (B,1,T,D/2) or (T,D/2)
