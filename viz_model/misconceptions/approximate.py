"""Is FlashAttention approximate? How far apart the tiled and the full softmax are, and why."""

from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.flash.tiled import OneHead, agreement, tiled_attention
from viz_model.model.trace import Trace
from viz_model.transformer.attention import attention_weights


@dataclass(frozen=True, eq=False)
class Exactness:
    """Largest |differences| of A·V (T,D) of one head, all in float32 but for the errors, which are against float64.

    tiled: the result in tiles. difference: tiled from written out. reordered: written out with the keys in reverse
    order, from written out; no one would call that approximate.
    """

    tiled: Tensor
    difference: float
    reordered: float
    tiled_error: float
    written_out_error: float


@torch.inference_mode()
def exactness(trace: Trace, layer: int, head: int, rows: int, columns: int, written_out: Tensor) -> Exactness:
    """Compare one head in tiles of `rows` × `columns` with its A·V as the pass wrote it out (T,D)."""
    one = OneHead.of(trace, layer, head)
    run = tiled_attention(one, rows, columns)
    agreed = agreement(run, written_out, one)
    reverse = torch.arange(one.key.shape[0] - 1, -1, -1)
    everything = slice(None)
    sinks = None if one.sink is None else one.query.new_tensor(one.sink)
    weights = attention_weights(one.scores(everything, everything)[:, reverse], one.allowed[:, reverse], sinks=sinks)
    reordered = (weights @ one.value[reverse] - written_out).abs().max().item()
    return Exactness(run.output, agreed.difference, reordered, agreed.tiled_error, agreed.written_out_error)
