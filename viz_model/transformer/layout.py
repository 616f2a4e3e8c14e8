"""Layout: what stacks a model has, which attention is in them, and what their hook sites are called.

Decoder-only and encoder-only models are one stack, whose only part is "self". An encoder-decoder (Vaswani et al. 2017,
"Attention Is All You Need", figure 1) has three kinds of attention: "encoder" (the source reads itself), "decoder"
(the target reads itself) and "cross" (the target reads the encoder's end).
"""

LAYOUTS = ("decoder-only", "encoder-only", "encoder-decoder")
PARTS = ("self", "encoder", "decoder", "cross")


class Layout:
    """What follows from the facts of any model; a record of them inherits it.

    It reads layout, n_layers (of an encoder-decoder, those of the decoder), n_encoder_layers, n_heads, n_kv_heads.
    """

    @property
    def parts(self) -> tuple[str, ...]:
        """The kinds of attention that there are."""
        return PARTS[1:] if self.layout == "encoder-decoder" else PARTS[:1]

    def layers_of(self, part: str) -> int:
        """How many layers have this attention."""
        return self.n_encoder_layers if part == "encoder" else self.n_layers

    @property
    def self_part(self) -> str:
        """The self-attention of the stack that makes the logits."""
        return "decoder" if self.layout == "encoder-decoder" else "self"

    @property
    def mask(self) -> str:
        """The name of the mask that this self-attention is made for."""
        return self.mask_of(self.self_part)

    def mask_of(self, part: str) -> str:
        """The name of the mask that a part is made for."""
        is_causal = part == "decoder" or (part == "self" and self.layout == "decoder-only")
        return "causal" if is_causal else "bidirectional"

    def kv_head(self, head: int) -> int:
        """The key/value head that query head `head` reads."""
        return head // (self.n_heads // self.n_kv_heads)

    def stack_name(self, part: str) -> str:
        """What stands before the hook sites of the stack that the queries of a part are in: "", "decoder."."""
        return "" if part == "self" else "encoder." if part == "encoder" else "decoder."

    def block_name(self, part: str, layer: int | str) -> str:
        """ "blocks.2", or "encoder.blocks.2": a block's hook sites begin with it. A layer of "*" is any."""
        return f"{self.stack_name(part)}blocks.{layer}"

    def attention_name(self, part: str, layer: int | str) -> str:
        """ "blocks.2.attn", or "decoder.blocks.2.cross": the hook sites of an attention begin with it."""
        return f"{self.block_name(part, layer)}.{'cross' if part == 'cross' else 'attn'}"
