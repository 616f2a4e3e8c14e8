"""The Transformer of one stack: token ids in, logits out."""

from typing import Self

import torch
from torch import Tensor, nn

from viz_model.arguments import of_type, said, text, whole_number
from viz_model.errors import ConfigError, VizError
from viz_model.memory_limits import refuse_beyond_memory
from viz_model.transformer.attention import Equation
from viz_model.transformer.block import norm_maps
from viz_model.transformer.cache import KVCache
from viz_model.transformer.changes import under_changes
from viz_model.transformer.config import TransformerConfig
from viz_model.transformer.feed_forward import FeedForwardEquation
from viz_model.transformer.host import ToLogits, refuse_no_vectors, refuse_strange
from viz_model.transformer.linear_maps import BlockMaps, Scaled, StackMaps
from viz_model.transformer.positions import Rotation, rotary_angles
from viz_model.transformer.sharing import sharing_copy
from viz_model.transformer.stack import Stack

MOST_LAYERS = 1000  # ten times those of GPT-3; to build more takes many seconds


class SkeletonHost(ToLogits):
    """What our own Transformers, of one stack or of two, have in common; they have `tokens`, perhaps `unembedding`."""

    source_modules: frozenset[str] = frozenset()
    angles_switch_at = None
    skips_blocks = True

    def unembed(self, hidden: Tensor) -> Tensor:
        """(…,C) -> logits (…,V). Raises VizError for what is no such tensor."""
        refuse_no_vectors(hidden, self.config.d_model, self.tokens.weight)
        return nn.functional.linear(hidden, self.unembedding_rows()[0])

    def equation(self, attention: str) -> Equation:
        """What `attend` was told at this attention, such as "blocks.2.attn"."""
        text("The name of an attention", attention)
        config, rotation = self.config, None
        if config.position == "rotary" and not attention.endswith(".cross"):
            theta = rotary_angles(torch.tensor(1), config.d_head, config.rotary_base)
            rotation = Rotation(tuple(theta.tolist()), config.rotary_pairs)
        return Equation(config.d_head**-0.5, rotation=rotation)

    def feed_forward(self, block: str) -> FeedForwardEquation:
        """The same in all blocks."""
        gated = self.config.activation == "swiglu"
        return FeedForwardEquation("silu" if gated else self.config.activation, gated)

    def maps(self, block: str) -> BlockMaps:
        """What a block does to its stream, by its name, such as "decoder.blocks.1"."""
        if text("The name of a block", block) not in self.config.block_names:
            raise VizError(f"There is no block {said(block)}: the first is {self.config.block_names[0]}.")
        return self.get_submodule(block).maps()

    def stack_maps(self, part: str) -> StackMaps:
        """What stands before and behind the blocks of the stack that the queries of a part are in."""
        self.config.refuse_no_part(part)
        stack = self.get_submodule(self.config.stack_name(part).removesuffix("."))
        return StackMaps(
            tokens=(Scaled(self.config.embedding_factor),),
            positions=stack.position_rows,
            embedding=norm_maps(stack.embedding_norm),
            final=norm_maps(stack.final_norm),
        )

    def embedding_rows(self) -> Tensor:
        """The table of tokens, a row each: (V,C)."""
        return self.tokens.weight

    def unembedding_rows(self) -> tuple[Tensor, Tensor | None]:
        """What the final hidden state is multiplied with, (V,C), and what is added (V,)."""
        return (self.tokens.weight if self.config.tied_unembedding else self.unembedding.weight), None

    @property
    def network(self) -> nn.Module:
        return self

    @property
    def value_width(self) -> int:
        return self.config.d_head

    @property
    def head_modules(self) -> frozenset[str]:
        return frozenset({"tokens" if self.config.tied_unembedding else "unembedding"})

    def sharing_copy(self) -> Self:
        """The same with modules of its own, which share every parameter and buffer with these."""
        return sharing_copy(self)


class Transformer(SkeletonHost, Stack):
    """Decoder-only (GPT-2, Radford et al. 2019; Llama, Touvron et al. 2023) or encoder-only (BERT)."""

    def __init__(self, config: TransformerConfig):
        refuse_strange_config(config)
        super().__init__(config, "self")
        if not config.tied_unembedding:
            self.unembedding = nn.Linear(config.d_model, config.vocab_size, bias=False)

    @under_changes
    def hidden(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        padding: Tensor | None = None,
        cache: KVCache | None = None,
        n_blocks: int | None = None,
    ) -> Tensor:
        """Token ids (B,T) -> final hidden state (B,T,C).

        mask: booleans broadcastable to (B,H,T,T), True where a query may attend; None is the layout's own.
        padding: booleans (B,T), True at padding tokens: nobody attends to them, and positions count the
        real tokens only, so that padding changes no result.
        cache: what was read before; `ids` come after it, are added to it, and attend to S tokens, all in all.
            Raises VizError for an encoder, with padding, and where it is full.
        n_blocks: stop after so many blocks; what stands in the stream there can be unembedded too.
        Raises VizError for what is no such tensor, or does not fit the model.
        """
        refuse_strange(self.config, self.tokens.weight, ids, mask=mask, padding=padding, cache=cache)
        if n_blocks is not None:
            n_blocks = whole_number("n_blocks", n_blocks, 0)
        return Stack.forward(self, self.tokens(ids), mask, padding, cache, n_blocks=n_blocks)


def refuse_strange_config(config: TransformerConfig) -> None:
    """Raise VizError for what is no config, or asks for more than this computer can hold."""
    of_type("The config", config, TransformerConfig, "a TransformerConfig", ConfigError)
    layers = config.n_layers + config.n_encoder_layers
    if layers > MOST_LAYERS:
        raise ConfigError(f"A model here has at most {MOST_LAYERS:,} layers, and this config asks for {layers:,}.")
    if not torch.empty(0).is_meta:  # on "meta" a model takes no memory
        refuse_beyond_memory("A model of this config", 4 * config.matrix_numbers)
