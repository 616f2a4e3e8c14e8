"""What a pass costs by formula: multiplications and additions, bytes of a cache.

A multiplication and an addition count as two operations (FLOPs), as in Kaplan et al. 2020, "Scaling Laws",
§2.1; unlike there, the work of attention on S keys is counted too. Norms, activations, softmax and additions
of the stream are left out: together they are below a hundredth of the matrix products.
"""

from dataclasses import replace

from viz_model.shapes import all_nodes
from viz_model.transformer import TransformerConfig


def projection_weights(config: TransformerConfig) -> int:
    """Numbers in the weight matrices of one block: Q, K, V, output, and the feed-forward layers."""
    kv_width = config.n_kv_heads * config.d_head
    attention = 2 * config.d_model * config.d_model + 2 * config.d_model * kv_width
    layers = 3 if config.activation == "swiglu" else 2
    return attention + layers * config.d_model * config.d_ff


def attention_flops(config: TransformerConfig, queries: int, keys: int) -> int:
    """QKᵀ and A·V of all layers and heads, every cell of (T,S) counted: 4·L·C·T·S; T² when a prompt reads itself."""
    return 4 * config.n_layers * config.d_model * queries * keys


def flops(config: TransformerConfig, queries: int, keys: int, unembedded: int = 1) -> int:
    """A forward pass of `queries` tokens that attend to `keys`, with the logits of `unembedded` positions.

    With a cache a step has queries = 1 and keys = S; without one, queries = keys = S.
    """
    projections = 2 * config.n_layers * projection_weights(config) * queries
    unembedding = 2 * config.d_model * config.vocab_size * unembedded
    return projections + attention_flops(config, queries, keys) + unembedding


def cache_bytes(config: TransformerConfig, length: int, number_bytes: int = 4) -> int:
    """Keys and values of `length` tokens in every layer: 2·L·G·D·T·bytes."""
    return 2 * config.n_layers * config.n_kv_heads * config.d_head * length * number_bytes


def parameters_by_part(config: TransformerConfig) -> dict[str, int]:
    """How many numbers are learned in each part of the model; a tied unembedding has none of its own."""
    width, kv_width, hidden = config.d_model, config.n_kv_heads * config.d_head, config.d_ff
    matrices = 3 if config.activation == "swiglu" else 2
    attention = 2 * width * width + 2 * width * kv_width + config.bias * (2 * width + 2 * kv_width)
    feed_forward = matrices * width * hidden + config.bias * ((matrices - 1) * hidden + width)
    norm = width if config.norm == "rms" else 2 * width
    norms = 2 * config.n_layers + config.embedding_norm + (config.norm_place == "pre")
    return {
        "token embedding": config.vocab_size * width,
        "positions": config.context_length * width if config.position == "learned" else 0,
        "attention": config.n_layers * attention,
        "feed-forward": config.n_layers * feed_forward,
        "norms": norms * norm,
        "unembedding": 0 if config.tied_unembedding else config.vocab_size * width,
    }


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


_PARTS = {
    "attn.raw": "three T² matrices",
    "attn.scores": "three T² matrices",
    "attn.weights": "three T² matrices",
    "ffn.hidden": "feed-forward",
    "ffn.out": "feed-forward",
    "logits": "logits",
}


def activations_by_part(config: TransformerConfig, batch: int, length: int, *, logits: bool = True) -> dict[str, int]:
    """How many numbers a pass holds that keeps all tensors of `shapes`; ids and masks are none of them.

    A tensor with two names counts once (`Node.kept`): what goes into a block came out of the block before.
    logits: those of every position, or none.
    "three T² matrices" are QKᵀ, the scaled scores and the weights of every layer and head: a fused kernel
    (Dao et al. 2022, "FlashAttention") never holds them.
    """
    parts = dict.fromkeys(("stream and norms", "Q, K, V and mixed", "three T² matrices", "feed-forward", "logits"), 0)
    for node in _one_block_for_all(config, batch, length):
        inside = "Q, K, V and mixed" if node.local.startswith("attn.") else "stream and norms"
        times = config.n_layers if node.name.startswith("blocks.") else 1
        parts[_PARTS.get(node.local, inside)] += times * node.kept
    return parts if logits else parts | {"logits": 0}


def score_numbers(config: TransformerConfig, batch: int, length: int) -> int:
    """B·L·H·T²: the cells of one score matrix of every layer and head."""
    return batch * config.n_layers * config.n_heads * length**2


def _one_block_for_all(config: TransformerConfig, batch: int, length: int):
    """The nodes outside the blocks and those of block 0, floating-point ones only."""
    nodes = all_nodes(replace(config, n_layers=1), length, batch)
    return [node for node in nodes if node.number_bytes == 4]
