"""The residual stream through depth: how long its vectors are after every half of a block, with norms before or after.

Pre-norm and post-norm: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", §3.1 and figure 1.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor

from viz_model.errors import VizError
from viz_model.model import Model
from viz_model.model.trace import Trace
from viz_model.transformer import make_transformer

HALVES = {"resid_self": "self-attention", "resid_mid": "attention", "resid_post": "feed-forward"}


def stream_lengths(trace: Trace) -> dict[str, Tensor]:
    """‖x‖ of every token in the stack of the trace's part: {"embedding": (T,), "block 0, attention": (T,), …}.

    In float64, over the C numbers of a vector; in a post-norm block the norm has been applied.
    """
    found = {"embedding": trace[trace.site("embed")]}
    for layer in range(trace.n_layers):
        for site, half in HALVES.items():
            name = trace.site(site, layer)
            if name in trace.tensors:
                found[f"block {layer}, {_half(trace, layer, site, half)}"] = trace[name]
    return {place: stream.double().norm(dim=-1) for place, stream in found.items()}


def _half(trace: Trace, layer: int, site: str, half: str) -> str:
    """What was added last: with cross-attention in the block, or without a feed-forward half, names move."""
    if site == "resid_mid" and trace.site("resid_self", layer) in trace.tensors:
        return "cross-attention"
    if site == "resid_post" and trace.site("resid_mid", layer) not in trace.tensors:
        return "attention"
    return half


def with_norms_placed(model: Model, place: str) -> Model:
    """The same weights with every norm before ("pre") or after ("post") its half: nobody trained them like that.

    Going from pre to post, the norm at the end of the stream falls away, for the last block ends with one. Raises
    VizError where there are no weights for such a model: one of another host, or from post to pre.
    """
    if not model.config.is_skeleton or (model.config.norm_place, place) == ("post", "pre"):
        raise VizError(f"{model.name} cannot be run with its norms placed elsewhere: it has no weights for that.")
    moved = make_transformer(replace(model.config, norm_place=place))
    wanted = moved.state_dict()
    moved.load_state_dict({name: tensor for name, tensor in model.transformer.state_dict().items() if name in wanted})
    return Model(model.name, moved.eval().requires_grad_(False), model.tokenizer).under_edits_of(model)


@torch.inference_mode()
def next_token_bits(trace: Trace) -> Tensor:
    """−log₂ of the probability of each token after the first, given those before it: (T−1,), in float64."""
    logits = trace.host.unembed(trace[trace.site("final_norm")][:-1]).double()  # (T−1,V)
    right = torch.tensor(trace.ids[1:])[:, None]
    return -logits.log_softmax(-1).gather(-1, right)[:, 0] / math.log(2)
