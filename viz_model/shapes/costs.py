"""What a pass costs by formula: multiplications and additions, bytes of a cache.

A multiplication and an addition count as two operations (FLOPs), as in Kaplan et al. 2020, "Scaling Laws",
§2.1; unlike there, the work of attention on S keys is counted too. Norms, activations, softmax and additions
of the stream are left out: together they are below a hundredth of the matrix products.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import nn

from viz_model.model.generation import Step
from viz_model.shapes.contract import all_nodes
from viz_model.shapes.nodes import Node
from viz_model.transformer import TransformerConfig
from viz_model.transformer.facts import ModelFacts
from viz_model.transformer.host import Host


@dataclass(frozen=True)
class PassSize:
    """How much a pass works on: queries of the text that is read, keys with those before, tokens of the source.

    With a cache a step has queries = 1 and keys = S; without one, queries = keys = S. encodes: whether the source is
    read in it; the passes after the first need not, where there is a cache.
    """

    queries: int
    keys: int
    source: int = 0
    encodes: bool = False

    def attentions(self, config: ModelFacts) -> list[tuple[int, int, int]]:
        """Every attention that is computed: layers, queries, keys."""
        found = [(config.n_layers, self.queries, self.keys)]
        if self.source:
            found.append((config.n_layers, self.queries, self.source))
        if self.encodes:
            found.append((config.n_encoder_layers, self.source, self.source))
        return found


@dataclass(frozen=True)
class MatrixNumbers:
    """Numbers in the matrices that a token is multiplied with: each is one multiplication and one addition.

    per_token: on the way through the stack that is written to; per_source_token: through what only the source goes
    through; per_logits: from a final hidden state to logits. Of experts those count that a token goes through.
    """

    per_token: int
    per_source_token: int
    per_logits: int


def matrix_numbers(host: Host) -> MatrixNumbers:
    """Counted on the matrices that the model has, whatever it is; tables of tokens and positions are looked up only."""
    found = {"stack": 0, "source": 0, "head": 0}
    heads, of_source = host.head_modules, host.source_modules
    for name, module in host.network.named_modules():
        place = "head" if name in heads else "source" if name in of_source else "stack"
        if place == "head" or not isinstance(module, nn.Embedding):
            found[place] += round(_multiplied(name, module, host.config.expert_share))
    return MatrixNumbers(found["stack"], found["source"], found["head"] * host.config.has_unembedding)


def _multiplied(name: str, module: nn.Module, expert_share: float) -> float:
    """The numbers in a module's own matrices; of experts, (experts,inputs,outputs) or one by one, a token's share."""
    is_expert = "experts" in name.split(".")[:-1]
    return sum(
        one.numel() * (expert_share if one.dim() == 3 or is_expert else 1)
        for which, one in module.named_parameters(recurse=False)
        if one.dim() >= 2 and not which.endswith("bias")  # experts have a row of biases each
    )


def pass_flops(host: Host, size: PassSize, unembedded: int = 1) -> int:
    """The matrix products of a pass: the linear layers, QKᵀ and A·V, and the logits of `unembedded` positions."""
    numbers, config = matrix_numbers(host), host.config
    linear = numbers.per_token * size.queries + numbers.per_logits * unembedded
    linear += numbers.per_source_token * size.source * size.encodes
    cells = sum(layers * queries * keys for layers, queries, keys in size.attentions(config))
    return 2 * linear + 2 * config.n_heads * (config.d_head + host.value_width) * cells


def flops_cached(step: Step) -> int:
    """Of the pass of a step: the new tokens only, and at first the source."""
    source = len(step.source)
    return pass_flops(
        step.model.transformer, PassSize(step.queries, step.read, source, encodes=bool(source) and step.number == 0)
    )


def flops_uncached(step: Step) -> int:
    """Of a pass that reads everything again."""
    source = len(step.source)
    return pass_flops(step.model.transformer, PassSize(step.read, step.read, source, encodes=bool(source)))


def step_cache_bytes(step: Step) -> int:
    """2·L·G·D·S·bytes, to hold beside `step.cache.nbytes`, which is measured; 4 bytes a number."""
    return cache_bytes(step.model.config, step.read + len(step.source))


def attention_matrices(config: TransformerConfig) -> int:
    """Numbers in the matrices of one attention: those of Q, K, V and output."""
    return 2 * config.d_model * (config.n_heads + config.n_kv_heads) * config.d_head


def block_matrices(config: TransformerConfig) -> int:
    """Numbers in the matrices of one block: Q, K, V, output, and the feed-forward layers."""
    return attention_matrices(config) + (3 if config.is_gated else 2) * config.d_model * config.d_ff


def attention_flops(config: TransformerConfig, queries: int, keys: int) -> int:
    """QKᵀ and A·V of all layers and heads, every cell of (T,S) counted: 4·L·C·T·S; T² when a prompt reads itself."""
    return 4 * config.n_layers * config.n_heads * config.d_head * queries * keys


def cache_bytes(config: ModelFacts, length: int, number_bytes: int = 4) -> int:
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
    tokens, attention = batch * length, attention_matrices(config)
    return {
        "Q, K, V and output": 2 * tokens * config.n_layers * attention,
        "scores and mixing": batch * attention_flops(config, length, length),
        "feed-forward": 2 * tokens * config.n_layers * (block_matrices(config) - attention),
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
