"""What a pass costs by formula: multiplications and additions, bytes of a cache.

A multiplication and an addition count as two operations (FLOPs), as in Kaplan et al. 2020, "Scaling Laws",
§2.1; unlike there, the work of attention on S keys is counted too. Norms, activations, softmax and additions
of the stream are left out: together they are below a hundredth of the matrix products.
"""

from collections.abc import Iterator
from dataclasses import replace

from viz_model.shapes.contract import all_nodes
from viz_model.shapes.nodes import Node
from viz_model.transformer import TransformerConfig


def attention_weights(config: TransformerConfig) -> int:
    """Numbers in the weight matrices of one attention: those of Q and output, and of K and V."""
    return 2 * config.d_model * config.n_heads * config.d_head + key_value_weights(config)


def key_value_weights(config: TransformerConfig) -> int:
    """Those of K and V alone."""
    return 2 * config.d_model * config.n_kv_heads * config.d_head


def projection_weights(config: TransformerConfig) -> int:
    """Numbers in the weight matrices of one block: Q, K, V, output, and the feed-forward layers."""
    layers = 3 if config.activation == "swiglu" or (config.activation or "").startswith("gated") else 2
    return attention_weights(config) + layers * config.d_model * config.d_ff


def attention_flops(config: TransformerConfig, queries: int, keys: int) -> int:
    """QKᵀ and A·V of all layers and heads, every cell of (T,S) counted: 4·L·C·T·S; T² when a prompt reads itself."""
    return 4 * config.n_layers * config.n_heads * config.d_head * queries * keys


def flops(
    config: TransformerConfig,
    queries: int,
    keys: int,
    unembedded: int = 1,
    *,
    source: int = 0,
    encoded: bool = False,
) -> int:
    """A forward pass of `queries` tokens that attend to `keys`, with the logits of `unembedded` positions.

    With a cache a step has queries = 1 and keys = S; without one, queries = keys = S. source: the tokens that the
    encoder of an encoder-decoder reads; encoded: whether an earlier pass has read them, so that a cache holds their
    keys and values.
    """
    projections = 2 * config.n_layers * projection_weights(config) * queries
    unembedding = 2 * config.d_model * config.vocab_size * unembedded
    whole = projections + attention_flops(config, queries, keys) + unembedding
    if source:
        whole += 2 * config.n_layers * (attention_weights(config) - key_value_weights(config)) * queries
        whole += attention_flops(config, queries, source)
    if source and not encoded:
        whole += 2 * config.n_layers * key_value_weights(config) * source
        whole += config.n_encoder_layers * (2 * projection_weights(config) * source + 4 * config.d_model * source**2)
    return whole


def cache_bytes(config: TransformerConfig, length: int, number_bytes: int = 4) -> int:
    """Keys and values of `length` tokens in every layer, those of a source counted: 2·L·G·D·T·bytes."""
    return 2 * config.n_layers * config.n_kv_heads * config.d_head * length * number_bytes


def parameters_by_part(config: TransformerConfig) -> dict[str, int]:
    """How many numbers are learned in each part of the model; a tied unembedding has none of its own."""
    parts = dict.fromkeys(("token embedding", "positions", "attention", "feed-forward", "norms", "unembedding"), 0)
    for node, times in _one_block_for_all(config, 1, 1):
        for parameter in node.parameters:
            parts[_part_of(parameter.name)] += times * parameter.count
    return parts


def _part_of(parameter: str) -> str:
    """ "blocks.0.attn.query.weight" -> "attention"."""
    words = {"attn": "attention", "cross": "attention", "ffn": "feed-forward", "tokens": "token embedding"}
    words |= {"positions": "positions", "unembedding": "unembedding"}
    return next((words[name] for name in parameter.split(".") if name in words), "norms")


def flops_by_part(config: TransformerConfig, batch: int, length: int, *, logits: bool = True) -> dict[str, int]:
    """A forward pass over `batch` prompts of `length` tokens with the logits of every position, or without any.

    "scores and mixing" is QKᵀ and A·V, every cell of (T,T) counted: the only part that grows with T².
    """
    kv_width, tokens = config.n_kv_heads * config.d_head, batch * length
    attention = 2 * config.d_model * (config.d_model + kv_width)
    return {
        "Q, K, V and output": 2 * tokens * config.n_layers * attention,
        "scores and mixing": batch * attention_flops(config, length, length),
        "feed-forward": 2 * tokens * config.n_layers * (projection_weights(config) - attention),
        "unembedding": 2 * tokens * config.d_model * config.vocab_size * logits,
    }


def crossover_length(config: TransformerConfig, *, logits: bool = True) -> float:
    """The T from which QKᵀ and A·V cost more operations than all that grows with T alone."""
    per_token = sum(flops_by_part(config, 1, 1, logits=logits).values()) - attention_flops(config, 1, 1)
    return per_token / attention_flops(config, 1, 1)


def activations_by_part(
    config: TransformerConfig, batch: int, length: int, *, logits: bool = True, source: int = 0
) -> dict[str, int]:
    """How many numbers a pass holds that keeps all tensors of `shapes`; ids and masks are none of them.

    A tensor with two names counts once (`Node.kept`): what goes into a block came out of the block before.
    logits: those of every position, or none. source: of an encoder-decoder, the tokens that its encoder reads.
    "three T² matrices" are QKᵀ, the scaled scores and the weights of every layer and head: a fused kernel
    (Dao et al. 2022, "FlashAttention") never holds them.
    """
    parts = dict.fromkeys(("stream and norms", "Q, K, V and mixed", "three T² matrices", "feed-forward", "logits"), 0)
    for node, times in _one_block_for_all(config, batch, length, source):
        if node.number_bytes == 4:  # neither ids nor masks
            parts[_kind_of(node)] += times * node.kept
    return parts if logits else parts | {"logits": 0}


def _kind_of(node: Node) -> str:
    half, _, name = node.local.partition(".")
    if half in ("attn", "cross"):
        return "three T² matrices" if name in ("raw", "scores", "weights") else "Q, K, V and mixed"
    return {"ffn": "feed-forward", "logits": "logits"}.get(half, "stream and norms")


def score_numbers(config: TransformerConfig, batch: int, length: int) -> int:
    """B·L·H·T²: the cells of one score matrix of every layer and head."""
    return batch * config.n_layers * config.n_heads * length**2


def _one_block_for_all(
    config: TransformerConfig, batch: int, length: int, source: int = 1
) -> Iterator[tuple[Node, int]]:
    """The nodes outside the blocks, once, and those of the first block of each stack, as often as it has blocks."""
    one = replace(config, n_layers=1, n_encoder_layers=min(config.n_encoder_layers, 1))
    for node in all_nodes(one, length, batch, source=source):
        yield node, 1 if node.layer is None else config.layers_of(node.part)
