"""The arithmetic of one cell: how query i and key j come to their weight, number by number."""

from dataclasses import dataclass

import numpy as np
import torch

from viz_model.errors import VizError
from viz_model.model.trace import Trace
from viz_model.transformer.attention import softmax_input


@dataclass(frozen=True)
class CellArithmetic:
    """Every number between q_i, k_j and the weight a_ij of one head.

    query, key, products: (D,); products = query · key, number by number, and they add up to `raw`.
    score = raw · scale. softcap: None, or what the model caps scores with: capped = softcap·tanh(score/softcap).
    bias: None, or what it adds besides the mask. entering: what is left of that for the softmax, capped + bias.
    allowed: whether the mask permits the cell.
    row_maximum: the largest permitted number that enters the row's softmax (subtracted so that no exponential
    overflows; it cancels); exponential = exp(entering − row_maximum), 0 where masked; row_sum: of the row's
    exponentials, and of the sink's, exp(sink − row_maximum), where the model has one (`sink`, else None).
    weight = exponential / row_sum, 0 where the row may attend to nothing.
    value_length: ‖v_j‖; carried: weight · ‖v_j‖. drawn_weight: what the trace holds for this cell.
    """

    query: np.ndarray
    key: np.ndarray
    products: np.ndarray
    raw: float
    scale: float
    score: float
    softcap: float | None
    capped: float
    bias: float | None
    entering: float
    allowed: bool
    row_maximum: float
    exponential: float
    sink: float | None
    of_sink: float
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
    queries, keys = trace.length, trace.key_length
    if not (0 <= i < queries and 0 <= j < keys):
        raise VizError(f"There is no cell ({i}, {j}): there are queries 0 to {queries - 1} and keys 0 to {keys - 1}.")
    drawn = trace.weights(layer, head)[i, j].item()
    with torch.inference_mode():
        query = trace.q(layer)[head].double()  # (T,D)
        group = trace.config.kv_head(head)
        key, value = trace.k(layer)[group].double(), trace.v(layer)[group].double()  # (S,D)
        equation, bias, sink = trace.equation(layer), trace.bias(layer, head), trace.sink(layer, head)
        scores = query[i] @ key.T * equation.scale  # (S,)
        own_bias = None if bias is None else bias[i].double()
        entering = softmax_input(scores, own_bias, equation.softcap)
        allowed = trace.mask(layer)[i]
        competing = entering[allowed] if sink is None else torch.cat((entering[allowed], sink.double()[None]))
        row_maximum = competing.max().item() if len(competing) else 0.0
        exponentials = torch.where(allowed, (entering - row_maximum).exp(), 0.0)
        of_sink = 0.0 if sink is None else (sink.double() - row_maximum).exp().item()
        row_sum = exponentials.sum().item() + of_sink
        products = query[i] * key[j]
        value_length = value[j].norm().item()
    weight = exponentials[j].item() / row_sum if row_sum else 0.0
    return CellArithmetic(
        query=query[i].numpy(),
        key=key[j].numpy(),
        products=products.numpy(),
        raw=products.sum().item(),
        scale=equation.scale,
        score=scores[j].item(),
        softcap=equation.softcap,
        capped=softmax_input(scores, None, equation.softcap)[j].item(),
        bias=None if own_bias is None else own_bias[j].item(),
        entering=entering[j].item(),
        allowed=bool(allowed[j]),
        row_maximum=row_maximum,
        exponential=exponentials[j].item(),
        sink=None if sink is None else sink.item(),
        of_sink=of_sink,
        row_sum=row_sum,
        weight=weight,
        value_length=value_length,
        carried=weight * value_length,
        drawn_weight=drawn,
    )
