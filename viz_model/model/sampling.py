"""Sampling: logits -> scaled -> cut -> renormalised -> drawn, every stage to be looked at.

Temperature: Ackley et al. 1985; top-k: Fan et al. 2018; top-p (nucleus): Holtzman et al. 2020, §3.1.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from viz_model.arguments import whole_number
from viz_model.errors import VizError


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn. temperature 0 is greedy; top_k None and top_p 1 cut nothing.

    Raises VizError for a choice that makes no sense.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self):
        if not self.temperature >= 0:
            raise VizError(f"The temperature is {self.temperature}; choose 0 (greedy) or more.")
        if not 0 < self.top_p <= 1:
            raise VizError(f"Top-p is {self.top_p}; choose more than 0 and at most 1.")
        if self.top_k is not None and self.top_k < 1:
            raise VizError(f"Top-k is {self.top_k}; choose at least 1.")
        if self.seed < 0:
            raise VizError(f"The seed is {self.seed}; choose 0 or more.")

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def draw(self, number: int) -> float:
        """What chance says at a step: uniform in [0,1), the same for a seed and a number whatever came before."""
        return float(np.random.default_rng((self.seed, whole_number("The step", number, 0))).random())


@dataclass(frozen=True, eq=False)
class Sampled:
    """One drawing from logits (V,), with `draw` in [0,1) as what chance said.

    The stages are worked out in float64 from the logits when they are asked for. Ordered by logit, of equal ones
    the smaller id first, the likeliest `top_k` stay, then the smallest set of likeliest that holds `top_p` of
    what stayed; the first token at which the running sum of what is left exceeds `draw` is drawn. Greedy takes
    the likeliest; its logits are not scaled. forbidden: ids that are never drawn, whatever their logits are.
    """

    logits: Tensor
    sampling: Sampling
    draw: float
    forbidden: frozenset[int] = frozenset()

    @cached_property
    def allowed(self) -> Tensor:
        """Booleans (V,): what is not forbidden; everything, where everything is."""
        allowed = torch.ones(len(self.logits), dtype=torch.bool)
        allowed[[token for token in self.forbidden if token < len(allowed)]] = False
        return allowed if allowed.any() else ~allowed

    @cached_property
    def order(self) -> Tensor:
        """Ids from the likeliest to the least likely: (V,)."""
        return self.logits.sort(descending=True, stable=True).indices

    @cached_property
    def _allowed_order(self) -> Tensor:
        return self.order[self.allowed[self.order]]

    @cached_property
    def scaled(self) -> Tensor:
        """Logits divided by the temperature: (V,) float64."""
        return self.logits.double() / self._temperature

    @cached_property
    def _below_largest(self) -> Tensor:
        """The same less the largest, for softmax, which knows differences only: (V,)."""
        # Without taking the largest off first, a temperature near 0 makes infinity of every logit.
        return (self.logits.double() - self.logits.max()) / self._temperature

    @property
    def _temperature(self) -> float:
        return self.sampling.temperature or 1.0  # greedy scales nothing

    @cached_property
    def full_probabilities(self) -> Tensor:
        """Softmax of the scaled logits before anything is cut: (V,)."""
        return self._below_largest.softmax(-1)

    @cached_property
    def by_top_k(self) -> Tensor:
        """Booleans (V,): what top-k leaves (greedy: the likeliest alone)."""
        kept = torch.zeros(len(self.logits), dtype=torch.bool)
        kept[self._allowed_order[: 1 if self.sampling.greedy else self.sampling.top_k]] = True
        return kept

    @cached_property
    def kept(self) -> Tensor:
        """Booleans (V,): what top-p leaves of that."""
        left = self.order[self.by_top_k[self.order]]
        probabilities = self._below_largest[left].softmax(-1)
        before = probabilities.cumsum(-1) - probabilities
        kept = torch.zeros_like(self.by_top_k)
        kept[left[before < self.sampling.top_p] if self.sampling.top_p < 1 else left] = True
        return kept

    @cached_property
    def probabilities(self) -> Tensor:
        """What is drawn from: (V,), 0 where cut, the rest adds up to 1."""
        return self._below_largest.masked_fill(~self.kept, -torch.inf).softmax(-1)

    @cached_property
    def token_id(self) -> int:
        """The token that is drawn."""
        if self.sampling.greedy:  # the first in order, without putting all others in order
            ids = self.allowed.nonzero()[:, 0]
            return int(ids[self.logits[ids].argmax()])
        left = self.order[self.kept[self.order]]
        position = torch.searchsorted(self.probabilities[left].cumsum(-1), self.draw, right=True)
        return int(left[min(int(position), len(left) - 1)])  # the sum may end a rounding error below 1
