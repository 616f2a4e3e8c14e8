"""Rotary positions of one query and one key, pair by pair: what turns, how fast, and the score that comes of it.

Su et al. 2021, "RoFormer", §3.2: the numbers of a head are taken in pairs, pair p of a token at position m is turned
by m·θ_p, so that the product of a query and a key depends on the distance of their positions alone.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.errors import VizError
from viz_model.model.trace import Trace


@dataclass(frozen=True, eq=False)
class RotaryPairs:
    """A query and a key of one head before their rotation, in pairs: (D/2,2) each, float64.

    numbers: which two of the D numbers each pair has, (D/2,2). frequencies: θ, radians a position, (D/2,); 0 for the
    last pairs of a model that turns a part of its numbers only. What the model multiplies turned numbers with besides
    (YaRN) is in query and key.
    query_position, key_position: where they stand. scale: what the product is multiplied with.
    computed: the scaled score of the pass.
    """

    query: Tensor
    key: Tensor
    numbers: Tensor
    frequencies: Tensor
    query_position: int
    key_position: int
    scale: float
    computed: float

    @property
    def wavelengths(self) -> Tensor:
        """Positions until a pair has turned once, 2π/θ: (D/2,); infinite for one that does not turn."""
        return 2 * torch.pi / self.frequencies


def pair_numbers(width: int, pairs: str) -> Tensor:
    """Which numbers of a head turn together: (D/2,2); i with i + D/2 ("halves") or 2i with 2i + 1 ("neighbours")."""
    numbers = torch.arange(width)
    return numbers.view(2, -1).T if pairs == "halves" else numbers.view(-1, 2)


@torch.inference_mode()
def rotary_pairs(trace: Trace, layer: int, head: int, query: int, key: int) -> RotaryPairs:
    """Token `query`'s query and token `key`'s key. Raises VizError for a model that turns nothing."""
    config, equation = trace.config, trace.equation(layer)
    if config.position != "rotary":
        raise VizError(
            "The positions of this model are not rotary, so nothing rotates. Choose a model with rotary positions."
        )
    if not equation.turns:
        raise VizError(f"Layer {layer} of this model rotates nothing. Choose another layer.")
    if equation.rotation is None:
        raise VizError(
            "This model rotates queries and keys in a way of its own, so their pairs cannot be shown here. The page "
            "Inside a head shows its rotated queries and keys."
        )
    if equation.rotation.until is not None and trace.length > equation.rotation.until:
        raise VizError(
            f"This model rotates texts of more than {equation.rotation.until:,} tokens by other angles, which are not "
            "known here. Type a shorter text."
        )
    rotation, name = equation.rotation, config.attention_name(trace.part, layer)
    turning = 2 * len(rotation.frequencies)
    numbers = torch.cat((pair_numbers(turning, rotation.pairs), torch.arange(turning, config.d_head).view(-1, 2)))
    theta = torch.cat((rotation.theta, torch.zeros(len(numbers) - len(rotation.frequencies), dtype=torch.float64)))
    factor = torch.where(theta > 0, rotation.scale, 1.0)[:, None]
    return RotaryPairs(
        query=trace[f"{name}.q_pre"][head, query].double()[numbers] * factor,
        key=trace[f"{name}.k_pre"][config.kv_head(head), key].double()[numbers] * factor,
        numbers=numbers,
        frequencies=theta,
        query_position=query,
        key_position=key,
        scale=equation.scale,
        computed=trace.scores(layer, head)[query, key].item(),
    )


def pair_products(pairs: RotaryPairs, query_positions: Tensor | int, key_positions: Tensor | int) -> Tensor:
    """What each pair adds to q · k when the two stand there: positions (…) -> (…,D/2). Their sum is q · k."""
    query = _turned(pairs.query, pairs.frequencies, query_positions)
    key = _turned(pairs.key, pairs.frequencies, key_positions)
    return (query * key).sum(-1)


def _turned(numbers: Tensor, frequencies: Tensor, positions: Tensor | int) -> Tensor:
    """Pairs (D/2,2) turned by position · θ: positions (…) -> (…,D/2,2)."""
    angles = torch.as_tensor(positions, dtype=torch.float64)[..., None] * frequencies
    first, second = numbers.unbind(-1)
    return torch.stack((first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()), -1)


def new_angles(frequencies: Tensor, distance: int, trained: int, both_ways: bool) -> Tensor:
    """Which pairs stand at an angle for this distance that no distance up to `trained` has: (D/2,) booleans.

    Slow pairs have not turned once within the trained length; fast ones have seen the whole circle.
    both_ways: trained on keys after the query too, so that angles of both signs were seen.
    """
    whole, arcs = 2 * torch.pi, trained * frequencies
    angles = (distance * frequencies) % whole
    beyond = angles > arcs
    return beyond & (whole - angles > arcs) if both_ways else beyond
