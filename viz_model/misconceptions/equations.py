"""Do BERT and GPT use different attention equations? Queries and keys of both through one function."""

from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.model.formula import AttentionFormula
from viz_model.model.trace import Trace
from viz_model.transformer import masks
from viz_model.transformer.attention import attention_weights, raw_scores, softmax_input


@dataclass(frozen=True, eq=False)
class SameEquation:
    """One head: its model's attention with the captured queries and keys of a pass, under each mask (T,T).

    formula: that equation. difference: the largest |difference| of the weights under the pass's own mask from those
    captured in the pass.
    """

    formula: AttentionFormula

    weights: dict[str, Tensor]
    allowed: dict[str, Tensor]
    own: str
    difference: float


@torch.inference_mode()
def through_one_equation(trace: Trace, layer: int, head: int) -> SameEquation:
    """Work the head's weights out from its queries and keys alone, under the causal and the bidirectional mask.

    The mask that the pass had is the layer's own, windows and all; scale, cap, bias and sink are the model's.
    """
    query, key = trace.q(layer)[head], trace.k(layer)[trace.config.kv_head(head)]
    equation, sink = trace.equation(layer), trace.sink(layer, head)
    scores = raw_scores(query[None], key[None])[0] * equation.scale  # (T,S)
    entering = softmax_input(scores, trace.bias(layer, head), equation.softcap)
    allowed = {name: masks.named(name, trace.length) for name in masks.NAMES} | {trace.mask_name: trace.mask(layer)}
    weights = {name: attention_weights(entering, mask, sinks=sink) for name, mask in allowed.items()}
    difference = (weights[trace.mask_name] - trace.weights(layer, head)).abs().max().item()
    return SameEquation(AttentionFormula.of(trace, layer), weights, allowed, trace.mask_name, difference)
