"""The arithmetic of one cell: how query i and key j come to their weight, number by number."""

from dataclasses import dataclass

import numpy as np
import torch

from viz_model.errors import VizError
from viz_model.trace import Trace


@dataclass(frozen=True)
class CellArithmetic:
    """Every number between q_i, k_j and the weight a_ij of one head.

    query, key, products: (D,); products = query · key, number by number, and they add up to `raw`.
    score = raw · scale. allowed: whether the mask permits the cell.
    row_maximum: the largest permitted score of the row (subtracted so that no exponential overflows; it
    cancels); exponential = exp(score − row_maximum), 0 where masked; row_sum: of the row's exponentials.
    weight = exponential / row_sum, 0 where the row may attend to nothing.
    value_length: ‖v_j‖; carried: weight · ‖v_j‖. drawn_weight: what the trace holds for this cell.
    """

    query: np.ndarray
    key: np.ndarray
    products: np.ndarray
    raw: float
    scale: float
    score: float
    allowed: bool
    row_maximum: float
    exponential: float
    row_sum: float
    weight: float
    value_length: float
    carried: float
    drawn_weight: float


def cell_arithmetic(trace: Trace, layer: int, head: int, i: int, j: int) -> CellArithmetic:
    """Work the cell (query i, key j) out from q, k, v and the mask, in float64, from the numbers held.

    It is worked out anew, not copied from the held scores, so that the sum on screen checks the picture.
    Raises VizError when there is no such layer, head or token.
    """
    length = trace.length
    if not (0 <= i < length and 0 <= j < length):
        raise VizError(f"There is no cell ({i}, {j}): the prompt has tokens 0 to {length - 1}.")
    drawn = trace.weights(layer, head)[i, j].item()
    with torch.inference_mode():
        query = trace.q(layer)[head].double()  # (T,D)
        group = trace.config.kv_head(head)
        key, value = trace.k(layer)[group].double(), trace.v(layer)[group].double()  # (S,D)
        scores = query[i] @ key.T * trace.scale  # (S,)
        allowed = trace.mask(layer)[i]
        row_maximum = scores[allowed].max().item() if allowed.any() else 0.0
        exponentials = torch.where(allowed, (scores - row_maximum).exp(), 0.0)
        row_sum = exponentials.sum().item()
        products = query[i] * key[j]
        value_length = value[j].norm().item()
    weight = exponentials[j].item() / row_sum if row_sum else 0.0
    return CellArithmetic(
        query=query[i].numpy(),
        key=key[j].numpy(),
        products=products.numpy(),
        raw=products.sum().item(),
        scale=trace.scale,
        score=scores[j].item(),
        allowed=bool(allowed[j]),
        row_maximum=row_maximum,
        exponential=exponentials[j].item(),
        row_sum=row_sum,
        weight=weight,
        value_length=value_length,
        carried=weight * value_length,
        drawn_weight=drawn,
    )
