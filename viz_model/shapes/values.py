"""The real tensor of a node of `shapes`, and what can be said of it in numbers."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.model import Model
from viz_model.model.site_tensor import site_tensor
from viz_model.model.trace import Trace
from viz_model.shapes.nodes import Node

PER_HEAD = ("raw", "scores", "weights")


@dataclass(frozen=True)
class Statistics:
    """Of all numbers of a tensor, in float64: std is that of the population, norm is √Σx²."""

    count: int
    mean: float
    std: float
    minimum: float
    maximum: float
    norm: float


def statistics(parts: Iterable[Tensor]) -> Statistics:
    """Of all numbers of all parts together, one part at a time (Chan et al. 1979, "Updating Formulae", §2)."""
    count, mean, spread, squares, low, high = 0, 0.0, 0.0, 0.0, math.inf, -math.inf
    for part in parts:
        part = part.double()
        more, its_mean = part.numel(), part.mean().item()
        spread += (part - its_mean).square().sum().item() + (its_mean - mean) ** 2 * count * more / (count + more)
        mean += (its_mean - mean) * more / (count + more)
        count += more
        squares += part.square().sum().item()
        low, high = min(low, part.min().item()), max(high, part.max().item())
    return Statistics(count, mean, math.sqrt(spread / count), low, high, math.sqrt(squares))


class NodeValues:
    """The tensor of one node in the pass of a trace, as matrices of two axes.

    What the trace does not hold is captured in a pass of the same ids and masks, on the same path; scores and
    weights of long prompts are derived a head at a time, so that they are never all there at once.
    """

    def __init__(self, model: Model, trace: Trace, node: Node):
        self.trace, self.node = trace.of(node.part), node
        self._whole = None if self.derived else _without_batch(node, node_tensor(model, trace, node))
        self.statistics = statistics(self.matrices())

    @property
    def derived(self) -> bool:
        """Whether it is worked out from the held q, k and mask."""
        return _within(self.node) in PER_HEAD and not self.trace.stored

    @property
    def heads(self) -> int:
        """How many matrices there are: H, G, or 1 for a tensor without a head axis."""
        return self.node.shape[1] if len(self.node.shape) == 4 else 1

    def matrix(self, head: int = 0) -> Tensor:
        """The values of one head (query head or key/value head), or of all: (rows, columns); ids are (1,T)."""
        if self.derived:
            derive = {"raw": self.trace.raw, "scores": self.trace.scores, "weights": self.trace.weights}
            return derive[_within(self.node)](self.node.layer, head)
        return self._whole[head] if self.heads > 1 or self._whole.dim() == 3 else self._whole

    def matrices(self) -> Iterator[Tensor]:
        return (self.matrix(head) for head in range(self.heads))


@torch.inference_mode()
def node_tensor(model: Model, trace: Trace, node: Node) -> Tensor:
    """The whole tensor of a node, with its batch axis where it has one; `shape` is `node.shape`."""
    seen, within = trace.of(node.part), _within(node)
    if node.local == "ids":
        return torch.tensor([seen.ids])
    if within == "mask":
        return seen.mask(node.layer)
    if within == "joined":  # the heads of `mixed` side by side
        return seen.mixed(node.layer).transpose(0, 1).flatten(-2)[None]
    if within == "mixed":
        return seen.mixed(node.layer)[None]
    name = node.inputs["encoder_end"] if node.local == "memory" else node.name
    return site_tensor(model, trace, name)[None]


def _within(node: Node) -> str:
    """ "attn.raw" and "cross.raw" -> "raw"; "" for what is in no attention."""
    half, _, name = node.local.partition(".")
    return name if half in ("attn", "cross") else ""


def _without_batch(node: Node, tensor: Tensor) -> Tensor:
    return tensor[0] if node.axes[0] == "B" and len(node.axes) > 2 else tensor
