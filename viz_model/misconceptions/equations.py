"""Do BERT and GPT use different attention equations? Queries and keys of both through one function."""

from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.model.trace import Trace
from viz_model.transformer import masks
from viz_model.transformer.attention import attention_weights, raw_scores


@dataclass(frozen=True, eq=False)
class SameEquation:
    """One head: softmax(QKᵀ/√D + M) with the captured queries and keys of a pass, under each mask (T,T).

    difference: the largest |difference| of the weights under the pass's own mask from those captured in the pass.
    """

    weights: dict[str, Tensor]
    allowed: dict[str, Tensor]
    own: str
    difference: float


@torch.inference_mode()
def through_one_equation(trace: Trace, layer: int, head: int) -> SameEquation:
    """Work the head's weights out from its queries and keys alone, under the causal and the bidirectional mask."""
    query, key = trace.q(layer)[head], trace.k(layer)[trace.config.kv_head(head)]
    scores = raw_scores(query[None], key[None])[0] * trace.equation(layer).scale  # (T,S)
    allowed = {name: masks.named(name, trace.length) for name in masks.NAMES}
    weights = {name: attention_weights(scores, mask) for name, mask in allowed.items()}
    captured = trace.weights(layer, head)
    return SameEquation(weights, allowed, trace.mask_name, (weights[trace.mask_name] - captured).abs().max().item())
