"""The tables that are added to the embedding: learned or sinusoidal rows, and how alike two rows are."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


def learned_table(transformer: nn.Module) -> Tensor | None:
    """The learned rows (context length, C) of a Transformer of ours, of its first stack; None without any."""
    weights = transformer.state_dict()
    return next((table for name, table in weights.items() if name.endswith("positions.weight")), None)


@dataclass(frozen=True, eq=False)
class ByDistance:
    """Cosines of rows i and j over all pairs with j − i = 0, 1, 2 …: their mean, least and largest, (n,) each."""

    mean: Tensor
    least: Tensor
    largest: Tensor


@torch.inference_mode()
def cosines(table: Tensor) -> Tensor:
    """Dot products of the rows, divided by their lengths: (n,C) -> (n,n), float64."""
    rows = torch.nn.functional.normalize(table.double(), dim=-1)
    return rows @ rows.T


@torch.inference_mode()
def cosines_by_distance(table: Tensor) -> ByDistance:
    """Rows (n,C) -> their cosines by the distance of the two rows.

    Sinusoids all have the length √(C/2), and all pairs of a distance the same product, Σ cos(distance · ω) (Vaswani
    et al. 2017, §3.5). Of a learned table neither is given.
    """
    found = cosines(table)
    by_distance = [found.diagonal(distance) for distance in range(len(found))]
    return ByDistance(
        mean=torch.stack([values.mean() for values in by_distance]),
        least=torch.stack([values.min() for values in by_distance]),
        largest=torch.stack([values.max() for values in by_distance]),
    )
