"""The tensor contract: every tensor of a pass as a record, its axes, sizes, parameters and the line that makes it.

Vaswani et al. 2017, "Attention Is All You Need", §3; the variants are those of `TransformerConfig`. Letters: B batch,
T queries, S keys (S = T where a prompt reads itself), C width, H heads, G key/value heads, D = C/H, V vocabulary,
F feed-forward width; "context" is the longest prompt that learned positions reach.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from viz_model.transformer import TransformerConfig

STREAM = ("B", "T", "C")
NORMS = {"layer": ("weight", "bias"), "rms": ("weight",)}
ACTIVATIONS = {
    "gelu": "F.gelu({up})",
    "gelu-tanh": 'F.gelu({up}, approximate="tanh")',
    "relu": "F.relu({up})",
    "swiglu": "F.silu({gate}) * {up}",
}
MASKS = {
    "causal": "torch.ones(T, T, dtype=torch.bool).tril()",
    "bidirectional": "torch.ones(T, T, dtype=torch.bool)",
}
CHOSEN = "chosen_mask  # as it was chosen"
VARIABLES = {"embed.tokens": "tokens", "embed.positions": "positions", "ffn.out": "ffn_out"}


@dataclass(frozen=True)
class Parameter:
    """A learned tensor: its name in the model, its axes ("G·D" is G times D) and sizes."""

    name: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Node:
    """One tensor of a pass.

    name: its hook site; "ids" and "blocks.{l}.attn.joined" have none, for they need none to be known.
    line: the PyTorch that makes it, as one would write it. It runs where `model` is the Transformer, torch,
    torch.nn.functional as F, math, the letters as numbers, and what `inputs` says: a variable's name -> its node.
    parameters: those that the line reads and that no node before has counted, so that sums over nodes are right.
    number_bytes: 4 for float32, 8 for ids, 1 for booleans.
    kept: how many numbers a pass that keeps every tensor keeps for this one: none where it is another node's tensor
    under a second name, and the positions of one prompt, which all prompts share.
    tied: a parameter that the line reads and that a node before has counted.
    """

    name: str
    title: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    line: str
    inputs: dict[str, str]
    parameters: tuple[Parameter, ...] = ()
    number_bytes: int = 4
    kept: int = 0
    tied: Parameter | None = None

    @property
    def local(self) -> str:
        """The name within its block, such as "attn.q"."""
        return local_name(self.name)

    @property
    def count(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.count * self.number_bytes

    @property
    def n_parameters(self) -> int:
        return sum(parameter.count for parameter in self.parameters)


def local_name(site: str) -> str:
    """ "blocks.2.attn.q" -> "attn.q"; other names stay."""
    return site.split(".", 2)[2] if site.startswith("blocks.") else site


def sizes(config: TransformerConfig, length: int, batch: int = 1) -> dict[str, int]:
    """The number of each letter for a pass over `batch` prompts of `length` tokens."""
    return {
        "B": batch,
        "T": length,
        "S": length,
        "C": config.d_model,
        "H": config.n_heads,
        "G": config.n_kv_heads,
        "D": config.d_head,
        "L": config.n_layers,
        "V": config.vocab_size,
        "F": config.d_ff,
    }


def outer_nodes(config: TransformerConfig, length: int, batch: int = 1) -> list[Node]:
    """What stands before and after the blocks, in the order of the pass."""
    make = _Maker(config, length, batch)
    nodes = [
        make("ids", "token ids", ("B", "T"), "torch.tensor([prompt_ids])", number_bytes=8),
        make(
            "embed.tokens", "token rows", STREAM, "model.tokens(ids)", ["ids"], [make.matrix("tokens.weight", "V", "C")]
        ),
    ]
    added = "tokens"
    if config.position in ("learned", "sinusoidal"):
        learned = config.position == "learned"
        table = "model.positions.weight" if learned else "model.position_table"
        own = [make.matrix("positions.weight", "context", "C")] if learned else []
        line, rows = f"{table}[:T].expand(B, T, C)", length * config.d_model
        nodes.append(make("embed.positions", "position rows", STREAM, line, [], own, kept=rows))
        added = "tokens + positions"
    inputs = [node.name for node in nodes[1:]]
    if config.embedding_norm:
        own = make.norm("embedding_norm")
        nodes.append(make("embed", "embedding", STREAM, f"model.embedding_norm({added})", inputs, own))
    else:
        nodes.append(make("embed", "embedding", STREAM, added, inputs))
    end = f"blocks.{config.n_layers - 1}.resid_post"
    if config.norm_place == "pre":
        own = make.norm("final_norm")
        nodes.append(make("final_norm", "final norm", STREAM, "model.final_norm(stream)", {"stream": end}, own))
    else:  # the last block ends with a norm
        nodes.append(make("final_norm", "final norm", STREAM, "stream", {"stream": end}))
    axes = ("B", "T", "V")
    if config.tied_unembedding:
        line, rows = "F.linear(final_norm, model.tokens.weight)", make.matrix("tokens.weight", "V", "C")
        return [*nodes, make("logits", "logits", axes, line, ["final_norm"], tied=rows)]
    own = [make.matrix("unembedding.weight", "V", "C")]
    return [*nodes, make("logits", "logits", axes, "model.unembedding(final_norm)", ["final_norm"], own)]


def block_nodes(
    config: TransformerConfig, layer: int, length: int, batch: int = 1, mask: str | None = None
) -> list[Node]:
    """Every tensor of one block, in the order of the pass. mask: the name of the pass's mask; None is the model's."""
    make = _Maker(config, length, batch, layer)
    before = f"blocks.{layer - 1}.resid_post" if layer else "embed"
    nodes = [make("resid_pre", "stream in", STREAM, "stream", {"stream": before})]
    pre = config.norm_place == "pre"
    if pre:
        nodes.append(
            make("norm1", "norm 1", STREAM, f"{make.path}.norm1(resid_pre)", ["resid_pre"], make.norm("norm1"))
        )
    nodes += _attention(make, "norm1" if pre else "resid_pre", mask or config.mask)
    nodes += _half(make, "norm1", "resid_pre", "attn.out", "resid_mid", "stream midway")
    if pre:
        nodes.append(
            make("norm2", "norm 2", STREAM, f"{make.path}.norm2(resid_mid)", ["resid_mid"], make.norm("norm2"))
        )
    nodes += _feed_forward(make, "norm2" if pre else "resid_mid")
    # after a post-norm half the norm is the stream itself
    return nodes + _half(make, "norm2", "resid_mid" if pre else "norm1", "ffn.out", "resid_post", "stream out")


def all_nodes(config: TransformerConfig, length: int, batch: int = 1, mask: str | None = None) -> list[Node]:
    """Every tensor of a pass, in its order."""
    outer = outer_nodes(config, length, batch)
    blocks = [node for layer in range(config.n_layers) for node in block_nodes(config, layer, length, batch, mask)]
    return [*outer[:-2], *blocks, *outer[-2:]]


def _attention(make: "_Maker", read: str, mask: str) -> list[Node]:
    config, path = make.config, f"{make.path}.attn"
    rotary = config.position == "rotary"
    nodes, turned = [], []
    for letter, word, heads in (("q", "query", "H"), ("k", "key", "G"), ("v", "value", "G")):
        title = f"{letter.upper()} {'queries' if letter == 'q' else word + 's'}"
        axes = ("B", heads, "T" if letter == "q" else "S", "D")
        line = f"{path}.{word}({read}).unflatten(-1, ({heads}, D)).transpose(1, 2)"
        own = make.linear(f"attn.{word}", "C" if letter == "q" else make.kv_width, "C")
        if rotary and letter != "v":
            nodes.append(make(f"attn.{letter}_pre", f"{letter.upper()} unrotated", axes, line, [read], own))
            angles = f"rotary_angles(torch.arange(T), D, {config.rotary_base})"
            line = f'rotate({letter}_pre, {angles}, "{config.rotary_pairs}")'
            turned.append(make(f"attn.{letter}", title, axes, line, [f"attn.{letter}_pre"]))
        else:
            turned.append(make(f"attn.{letter}", title, axes, line, [read], own))
    key, value = ("k", "v")
    if config.n_kv_heads != config.n_heads:  # each key/value head serves H/G query heads
        key, value = (f"{name}.repeat_interleave(H // G, dim=1)" for name in "kv")
    square = ("B", "H", "T", "S")
    # heads side by side are a copy, unless there is nothing to put side by side
    joined = 0 if 1 in (config.n_heads, config.d_head, make.sizes["T"]) else None
    softmax = "scores.masked_fill(~mask, -torch.inf).softmax(-1)"
    if mask not in MASKS:
        softmax += ".nan_to_num()  # 0 where a row may read nothing"
    return [
        *nodes,
        *turned,
        make("attn.raw", "QKᵀ", square, f"q @ {key}.transpose(-1, -2)", ["attn.q", "attn.k"]),
        make("attn.scores", "scores QKᵀ/√D", square, "raw / math.sqrt(D)", ["attn.raw"]),
        make("attn.mask", "mask, booleans", ("T", "S"), MASKS.get(mask, CHOSEN), number_bytes=1),
        make("attn.weights", "weights A", square, softmax, ["attn.scores", "attn.mask"]),
        make("attn.mixed", "mixed A·V", ("B", "H", "T", "D"), f"weights @ {value}", ["attn.weights", "attn.v"]),
        make("attn.joined", "concatenated", STREAM, "mixed.transpose(1, 2).flatten(-2)", ["attn.mixed"], kept=joined),
        make(
            "attn.out",
            "attention out",
            STREAM,
            f"{path}.output(joined)",
            ["attn.joined"],
            make.linear("attn.output", "C", "C"),
        ),
    ]


def _feed_forward(make: "_Maker", read: str) -> list[Node]:
    path, gated = f"{make.path}.ffn", make.config.activation == "swiglu"
    line = ACTIVATIONS[make.config.activation].format(up=f"{path}.up({read})", gate=f"{path}.gate({read})")
    own = [*(make.linear("ffn.gate", "F", "C") if gated else []), *make.linear("ffn.up", "F", "C")]
    down = make.linear("ffn.down", "C", "F")
    return [
        make("ffn.hidden", "FFN hidden", ("B", "T", "F"), line, [read], own),
        make("ffn.out", "FFN out", STREAM, f"{path}.down(hidden)", ["ffn.hidden"], down),
    ]


def _half(make: "_Maker", norm: str, stream: str, branch: str, after: str, title: str) -> list[Node]:
    """A branch added to the stream; in a post-norm block the norm follows, and is the stream."""
    variable = VARIABLES.get(branch, "out")
    if make.config.norm_place == "pre":
        return [make(after, title, STREAM, f"{stream} + {variable}", [stream, branch])]
    line = f"{make.path}.{norm}({stream} + {variable})"
    words = f"norm {norm[-1]}"
    return [
        make(norm, words, STREAM, line, [stream, branch], make.norm(norm)),
        make(after, title, STREAM, norm, [norm]),
    ]


class _Maker:
    """Makes nodes of one block (or of none) with the sizes of one pass."""

    def __init__(self, config: TransformerConfig, length: int, batch: int, layer: int | None = None):
        self.config = config
        self.prefix = "" if layer is None else f"blocks.{layer}."
        self.path = f"model.blocks[{layer}]"
        self.sizes = sizes(config, length, batch) | {"context": config.context_length}
        self.sizes["G·D"] = config.n_kv_heads * config.d_head
        self.kv_width = "C" if config.n_kv_heads == config.n_heads else "G·D"

    def __call__(
        self,
        name: str,
        title: str,
        axes: tuple[str, ...],
        expression: str,
        inputs: Sequence[str] | dict[str, str] = (),
        parameters: Sequence[Parameter] = (),
        number_bytes: int = 4,
        kept: int | None = None,
        tied: Parameter | None = None,
    ) -> Node:
        if not isinstance(inputs, dict):
            inputs = {
                _variable(local_name(one)): one if one.startswith("blocks.") else self.prefix + one for one in inputs
            }
        shape = tuple(self.sizes[axis] for axis in axes)
        line = f"{_variable(name)} = {expression}"
        if kept is None:  # a line that is a name alone makes nothing
            kept = 0 if expression.isidentifier() else prod(shape)
        return Node(self.prefix + name, title, axes, shape, line, inputs, tuple(parameters), number_bytes, kept, tied)

    def matrix(self, name: str, *axes: str) -> Parameter:
        return Parameter(self.prefix + name, axes, tuple(self.sizes[axis] for axis in axes))

    def linear(self, name: str, out: str, into: str) -> list[Parameter]:
        """Weight and bias as `nn.Linear` keeps them: (out, in) and (out)."""
        bias = [self.matrix(f"{name}.bias", out)] if self.config.bias else []
        return [self.matrix(f"{name}.weight", out, into), *bias]

    def norm(self, name: str) -> list[Parameter]:
        return [self.matrix(f"{name}.{kind}", "C") for kind in NORMS[self.config.norm]]


def _variable(name: str) -> str:
    return VARIABLES.get(name, name.rpartition(".")[2])
