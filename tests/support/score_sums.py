"""The scores of a whole head as sums of terms."""

import torch
from torch import Tensor

from viz_model.attribution.scores import parts_of_keys, parts_of_queries


@torch.inference_mode()
def summed_scores(trace, layer: int, head: int) -> Tensor:
    """The sum of all terms of each cell: (T,S) float64.

    ΣₐΣ_b q⁽ᵃ⁾(i)·k⁽ᵇ⁾(j) is Σₐ q⁽ᵃ⁾(i) · Σ_b k⁽ᵇ⁾(j), so that no cell is worked out alone.
    """
    _, queries = parts_of_queries(trace, layer, head, list(range(trace.length)))
    _, keys = parts_of_keys(trace, layer, head, list(range(trace.key_length)))
    return queries.sum(0) @ keys.sum(0).T * trace.equation(layer).scale
