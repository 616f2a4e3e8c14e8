"""The equation of a feed-forward half, as data: its activation, its gate, and its experts.

Gates: Shazeer 2020, "GLU Variants Improve Transformer"; experts: Shazeer et al. 2017, "Outrageously Large Neural
Networks", §2.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "silu": F.silu,
    "relu2": lambda x: F.relu(x).square(),
    "quick-gelu": lambda x: x * (1.702 * x).sigmoid(),
}

# How the share of an expert comes of its logit z, of which the largest are chosen.
OF_CHOSEN, OF_ALL, ALONE, OF_SUM = "softmax of chosen", "softmax of all", "sigmoid of chosen", "sigmoids of their sum"


@dataclass(frozen=True)
class Experts:
    """Of several feed-forward halves each token goes through some, its `chosen`, each times its share.

    shares: what its share is: of the softmax over the chosen logits (Mixtral, gpt-oss) or over all (Qwen 2 MoE), the
    sigmoid of its logit alone (Llama 4), or that as a part of the sum of the chosen ones (DeepSeek-V3). factor: what
    shares are multiplied with besides. groups: where experts stand in groups, from how many of how many groups they are
    chosen. before: whether the share multiplies what an expert reads, not what it gives. clipped: of a gate g that is
    clipped (gpt-oss), the a and c of min(c, g)·sigmoid(a·min(c, g)) ⊙ (1 + clip(x·W₁, ±c)). shared: whether one more
    expert reads every token; gated_shared: whether what that gives is multiplied with the sigmoid of one product.
    """

    chosen: int
    shares: str
    factor: float = 1.0
    groups: tuple[int, int] | None = None
    before: bool = False
    clipped: tuple[float, float] | None = None
    shared: bool = False
    gated_shared: bool = False


@dataclass(frozen=True)
class FeedForwardEquation:
    """activation: a name of `ACTIVATIONS`; None where it is another one. gated: None where the half is neither φ(x·W₁)
    nor φ(x·W_g) ⊙ x·W₁."""

    activation: str | None
    gated: bool | None
    experts: Experts | None = None
