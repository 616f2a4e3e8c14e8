"""What can be said of generated steps: a drawing's stages in numbers, and the picture that the rows add up to."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.model.generation import Step
from viz_model.model.sampling import Sampled


@dataclass(frozen=True)
class SamplingStage:
    """After a stage: how many tokens are left, and the probability that they had together before any cut."""

    name: str
    left: int
    probability: float


def stages(sampled: Sampled) -> list[SamplingStage]:
    """All tokens, what top-k leaves of them, and what top-p leaves of that (of which one is drawn)."""
    everything = torch.ones_like(sampled.kept)
    kept = {"all": everything, "top-k": sampled.by_top_k, "top-p": sampled.kept}
    return [
        SamplingStage(name, int(left.sum()), float(sampled.full_probabilities[left].sum()))
        for name, left in kept.items()
    ]


def span(sampled: Sampled, token_id: int) -> tuple[float, float]:
    """Where a token lies on the running sum of what is drawn from, the likeliest first: from, to.

    The draw u takes the token whose span holds it. A token that was cut has a span of length 0.
    """
    running = sampled.probabilities[sampled.order].cumsum(-1)
    place = int((sampled.order == token_id).nonzero())
    return (float(running[place - 1]) if place else 0.0, float(running[place]))


def assembled_weights(steps: Sequence[Step], layer: int, head: int, part: str | None = None) -> Tensor:
    """The rows of all passes below one another: (T,S), T the tokens read by the last step.

    S is T, and 0 above the diagonal; with part "cross" S is that of the source. It is what one pass over all T tokens
    computes, and what the cache saves computing again.
    """
    length, source = steps[-1].read, len(steps[-1].source)
    whole = torch.zeros(length, source if part == "cross" else length)
    for step in steps:
        rows = step.weights(layer, head, part)  # (queries, S)
        whole[step.read - step.queries : step.read, : rows.shape[-1]] = rows
    return whole
