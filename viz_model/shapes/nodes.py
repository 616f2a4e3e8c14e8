"""One tensor of a pass as a record: its axes, sizes, parameters and the line of PyTorch that makes it.

Letters: B batch, T queries, S keys, C width, H heads, G key/value heads, D = C/H, V vocabulary, F feed-forward width;
"context" is the longest prompt that learned positions reach. Where a prompt reads itself, S = T; in the decoder of an
encoder-decoder, T are the tokens that it reads and S those of the source.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from viz_model.transformer import TransformerConfig

NORMS = {"layer": ("weight", "bias"), "rms": ("weight",)}
VARIABLES = {"embed.tokens": "tokens", "embed.positions": "positions", "ffn.out": "ffn_out", "cross.out": "cross_out"}


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

    name: its hook site; "ids", "….attn.joined" and "….memory" have none, for they need none to be known.
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
        """The name within its block or stack, such as "attn.q"."""
        return local_name(self.name)

    @property
    def layer(self) -> int | None:
        """The block that it is in, if it is in one."""
        _, inside, rest = self.name.partition("blocks.")
        return int(rest.split(".")[0]) if inside else None

    @property
    def part(self) -> str:
        """The attention that it belongs to: that of its stack, or cross-attention."""
        stack = self.name.split(".")[0]
        if self.local.startswith("cross.") or self.local == "memory":
            return "cross"
        return stack if stack in ("encoder", "decoder") else "self"

    @property
    def columns_are_keys(self) -> bool:
        return self.local.endswith((".raw", ".scores", ".mask", ".weights"))

    @property
    def rows_are_keys(self) -> bool:
        return self.local.endswith((".k", ".v", ".k_pre")) or self.local == "memory"

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
    """ "blocks.2.attn.q" and "decoder.blocks.2.attn.q" -> "attn.q"; "encoder.embed" -> "embed"; other names stay."""
    site = site.removeprefix("encoder.").removeprefix("decoder.")
    return site.split(".", 2)[2] if site.startswith("blocks.") else site


def sizes(
    config: TransformerConfig, length: int, batch: int = 1, *, part: str | None = None, source: int = 0
) -> dict[str, int]:
    """The number of each letter for a pass over `batch` prompts of `length` tokens.

    part: of an encoder-decoder, the stack that is meant; source: the tokens that its decoder reads across.
    """
    return {
        "B": batch,
        "T": length,
        "S": source or length,
        "C": config.d_model,
        "H": config.n_heads,
        "G": config.n_kv_heads,
        "D": config.d_head,
        "L": config.layers_of(part or config.self_part),
        "V": config.vocab_size,
        "F": config.d_ff,
    }


class Maker:
    """Makes nodes of one block (or of none) of a stack, with the sizes of one pass."""

    def __init__(
        self, config: TransformerConfig, length: int, batch: int, part: str, source: int = 0, layer: int | None = None
    ):
        self.config, self.stack = config, config.stack_name(part)
        self.model = f"model.{self.stack}".rstrip(".")
        self.prefix = self.stack if layer is None else f"{config.block_name(part, layer)}."
        self.path = f"{self.model}.blocks[{layer}]"
        self.sizes = sizes(config, length, batch, part=part, source=source) | {"context": config.context_length}
        self.sizes["G·D"] = config.n_kv_heads * config.d_head
        self.kv_width = "C" if config.n_kv_heads == config.n_heads else "G·D"
        self.keys = "T" if part in ("decoder", "cross") else "S"  # of self-attention: there S is the source's

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
        """inputs: names within the same block or stack, or variables with full names; name "logits" is of no stack."""
        if not isinstance(inputs, dict):
            inputs = {_variable(one): self.prefix + one for one in inputs}
        shape = tuple(self.sizes[axis] for axis in axes)
        line = f"{_variable(name)} = {expression}"
        if kept is None:  # a line that is a name alone makes nothing
            kept = 0 if expression.isidentifier() else prod(shape)
        whole = name if name == "logits" else self.prefix + name
        return Node(whole, title, axes, shape, line, inputs, tuple(parameters), number_bytes, kept, tied)

    def matrix(self, name: str, *axes: str, shared: bool = False) -> Parameter:
        """shared: a parameter of the whole model, which no stack has for itself."""
        return Parameter(name if shared else self.prefix + name, axes, tuple(self.sizes[axis] for axis in axes))

    def linear(self, name: str, out: str, into: str) -> list[Parameter]:
        """Weight and bias as `nn.Linear` keeps them: (out, in) and (out)."""
        bias = [self.matrix(f"{name}.bias", out)] if self.config.bias else []
        return [self.matrix(f"{name}.weight", out, into), *bias]

    def norm(self, name: str) -> list[Parameter]:
        return [self.matrix(f"{name}.{kind}", "C") for kind in NORMS[self.config.norm]]


def _variable(name: str) -> str:
    return VARIABLES.get(name, name.rpartition(".")[2])
