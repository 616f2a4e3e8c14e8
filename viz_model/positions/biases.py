"""Positions as numbers added to the scores: what a head adds at each distance of key and query.

Learned for buckets of distances: Raffel et al. 2020 (T5), §2.1. Growing by the same slope with each token, ALiBi: Press
et al. 2022, "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation", §3.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.errors import VizError
from viz_model.model.trace import Trace


@dataclass(frozen=True, eq=False)
class DistanceBias:
    """What the heads of a layer add to the scores of a pass, less what they add where the key is the query itself.

    Softmax does not see what a whole row shares, so that this is all that counts. rows: (H,T,S). distances: those from
    key to query, j − i, that the mask permits, ascending (N,); by_distance: the mean over the cells of each, (H,N).
    spread: the largest difference of two cells of one head and distance, 0 but for rounding where only distance counts.
    slopes: of ALiBi, by how much a head's bias grows from key to key; None where it is another one.
    """

    rows: Tensor
    distances: Tensor
    by_distance: Tensor
    spread: float
    slopes: tuple[float, ...] | None


@torch.inference_mode()
def distance_bias(trace: Trace, layer: int) -> DistanceBias:
    """That of the part's layer. Raises VizError where the layer adds none."""
    heads = [trace.bias(layer, head) for head in range(trace.config.n_heads)]
    if heads[0] is None:
        raise VizError(f"Layer {layer} adds nothing to its scores but the mask. Choose another layer or another model.")
    bias = torch.stack(heads).double()
    rows = bias - bias.diagonal(dim1=1, dim2=2)[..., None]
    places = torch.arange(trace.length)
    apart, allowed = places[None, :] - places[:, None], trace.mask(layer)
    distances = apart[allowed].unique()
    cells = [rows[:, allowed & (apart == distance)] for distance in distances]  # (H,cells) each
    return DistanceBias(
        rows=rows,
        distances=distances,
        by_distance=torch.stack([one.mean(1) for one in cells], 1),
        spread=max((one.amax(1) - one.amin(1)).max().item() for one in cells),
        slopes=trace.equation(layer).slopes,
    )
