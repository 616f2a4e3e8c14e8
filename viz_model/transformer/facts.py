"""ModelFacts: what a host says about its model, and what follows from it: stacks, attentions, names of hook sites.

Decoder-only and encoder-only models are one stack, whose only part is "self". An encoder-decoder (Vaswani et al. 2017,
"Attention Is All You Need", figure 1) has three kinds of attention: "encoder" (the source reads itself), "decoder"
(the target reads itself) and "cross" (the target reads the encoder output).
"""

from typing import Protocol, runtime_checkable

from viz_model.arguments import said, text, whole_number
from viz_model.errors import VizError

LAYOUTS = ("decoder-only", "encoder-only", "encoder-decoder")
PARTS = ("self", "encoder", "decoder", "cross")


@runtime_checkable
class ModelFacts(Protocol):
    """What every host says about its model; `TransformerConfig` and `HubConfig` say it, and inherit what follows.

    n_layers L (of an encoder-decoder, those of the decoder), n_encoder_layers, n_heads H, n_kv_heads G, d_model C,
    d_head D, d_ff F, vocab_size V. The other fields are those of `TransformerConfig`; None where a host does not know.
    family: the name of its kind of model. is_skeleton: whether it is this project's own Transformer, which can be
    built anew from changed fields. has_unembedding: whether it predicts tokens; else it ends with a vector for each.
    embedding_factor: what rows of tokens are multiplied with before positions are added; None where the stream begins
    otherwise than with such a sum. embedding_matrix: "rows" where rows of tokens go through a matrix first (OPT), "sum"
    where all that was added does (ELECTRA). end_matrix: whether a matrix follows the final norm. unembedding_factor:
    what the products of the final hidden state with the unembedding are multiplied with; None where logits are
    something else. unembedding_softcap: c where they become c·tanh(logits/c). unembedding_hidden: the activation φ
    where norm(φ(x·W)) stands in the place of x (BERT). expert_share: of the experts of a
    feed-forward half, the share that each token goes through; 1 where there are none. shares_layers: whether several
    layers have the same parameters (ALBERT).
    """

    family: str
    is_skeleton: bool
    layout: str
    n_layers: int
    n_encoder_layers: int
    n_heads: int
    n_kv_heads: int
    d_model: int
    d_head: int
    d_ff: int
    vocab_size: int
    context_length: int
    position: str | None
    norm: str | None
    norm_place: str | None
    activation: str | None
    bias: bool
    tied_unembedding: bool
    embedding_norm: bool
    embedding_factor: float | None
    embedding_matrix: str
    end_matrix: bool
    unembedding_factor: float | None
    unembedding_softcap: float | None
    unembedding_hidden: str | None
    rotary_base: float | None
    rotary_pairs: str | None
    has_unembedding: bool
    expert_share: float
    shares_layers: bool

    @property
    def is_gated(self) -> bool:
        """Whether the feed-forward half has a third matrix (Shazeer 2020, "GLU Variants Improve Transformer")."""
        return self.activation is not None and (self.activation == "swiglu" or self.activation.startswith("gated"))

    @property
    def parts(self) -> tuple[str, ...]:
        """The kinds of attention that there are."""
        return PARTS[1:] if self.layout == "encoder-decoder" else PARTS[:1]

    def layers_of(self, part: str) -> int:
        """How many layers have this attention. Raises VizError, as all below, for a part that no model has."""
        return self.n_encoder_layers if _known(part) == "encoder" else self.n_layers

    @property
    def stacks(self) -> tuple[str, ...]:
        """The stacks of an encoder-decoder by name; of a model of one stack, which needs none, nothing."""
        return PARTS[1:3] if self.layout == "encoder-decoder" else ()

    @property
    def self_part(self) -> str:
        """The self-attention of the stack that makes the logits."""
        return "decoder" if self.layout == "encoder-decoder" else "self"

    def refuse_no_part(self, part: str) -> None:
        """Raise VizError for a part that this model does not have."""
        if text("The part", part) not in self.parts:
            raise VizError(f"There is no part {said(part)}: this model has {', '.join(self.parts)}.")

    @property
    def block_names(self) -> tuple[str, ...]:
        """What the hook sites of each block begin with."""
        stacks = dict.fromkeys("decoder" if part == "cross" else part for part in self.parts)
        return tuple(self.block_name(part, layer) for part in stacks for layer in range(self.layers_of(part)))

    @property
    def mask(self) -> str:
        """The name of the mask that this self-attention is made for."""
        return self.mask_of(self.self_part)

    def mask_of(self, part: str) -> str:
        """The name of the mask that a part is made for."""
        is_causal = _known(part) == "decoder" or (part == "self" and self.layout == "decoder-only")
        return "causal" if is_causal else "bidirectional"

    def kv_head(self, head: int) -> int:
        """The key/value head that query head `head` reads."""
        return whole_number("The head", head) // (self.n_heads // self.n_kv_heads)

    def stack_name(self, part: str) -> str:
        """What stands before the hook sites of the stack that the queries of a part are in: "", "decoder."."""
        return "" if _known(part) == "self" else "encoder." if part == "encoder" else "decoder."

    def block_name(self, part: str, layer: int | str) -> str:
        """ "blocks.2", or "encoder.blocks.2": a block's hook sites begin with it. A layer of "*" is any."""
        known = layer if isinstance(layer, str) else whole_number("The layer", layer)
        return f"{self.stack_name(part)}blocks.{known}"

    def attention_name(self, part: str, layer: int | str) -> str:
        """ "blocks.2.attn", or "decoder.blocks.2.cross": the hook sites of an attention begin with it."""
        return f"{self.block_name(part, layer)}.{'cross' if part == 'cross' else 'attn'}"


def _known(part: str) -> str:
    if text("The part", part) not in PARTS:
        raise VizError(f"There is no part {said(part)}: they are {', '.join(PARTS)}.")
    return part
