"""What can be said of a head in one number, and of a cell in many.

Where a head looks: Clark et al. 2019, "What Does BERT Look At?", §3; norms of what is read: Kobayashi et al.
2020, "Attention is Not Only a Weight", §2.2 (here before the output projection).
"""

import math

import torch
from torch import Tensor

from viz_model.model.trace import Trace

HEAD_MEASURES = ("entropy", "first", "itself", "previous")


def entropy(weights: Tensor) -> Tensor:
    """−Σ p·log₂ p of each row, p the shares of what it reads: (…,T,S) -> (…,T), in bits; 0 for a row of zeros.

    p = a / Σ a: where a sink takes a part of each row, the weights add up to less than 1, and one token that is read
    alone has entropy 0 all the same.
    """
    shares = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    return (torch.special.entr(shares).sum(-1) / math.log(2)).clamp(min=0) + 0.0  # neither −0 nor less, by rounding


def head_measures(weights: Tensor) -> dict[str, Tensor]:
    """Means over the queries of (…,T,T) weights: each (…).

    entropy in bits; weight on the first token, on the query itself, and on the token before it (over the
    queries that have one; NaN for a prompt of one token).
    """
    return {
        "entropy": entropy(weights).mean(-1),
        "first": weights[..., 0].mean(-1),
        "itself": weights.diagonal(0, -2, -1).mean(-1),
        "previous": previous_token_share(weights),
    }


def layer_measures(trace: Trace, layer: int) -> dict[str, Tensor]:
    """`measures_of` all heads of a layer: each (H,)."""
    with torch.inference_mode():
        pieces = [
            measures_of(trace, torch.stack([trace.weights(layer, head) for head in heads]))
            for heads in trace.heads_at_once
        ]
    return {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}


def measures_of(trace: Trace, weights: Tensor) -> dict[str, Tensor]:
    """`head_measures` of heads of a trace, whose weights are (n,T,S): each (n,).

    In cross-attention queries and keys are two texts: there is no token itself and none before it.
    """
    names = HEAD_MEASURES[:2] if trace.part == "cross" else HEAD_MEASURES
    with torch.inference_mode():
        found = head_measures(weights)
    return {name: found[name] for name in names}


def value_weighted(trace: Trace, layer: int, head: int) -> Tensor:
    """‖a·v‖ of each cell: the weight times the length of the value vector it carries: (T,S)."""
    with torch.inference_mode():
        weights = trace.weights(layer, head)
        return weights * trace.v(layer)[trace.config.kv_head(head)].norm(dim=-1)  # (T,S) · (S,)


def telling_cell(trace: Trace, layer: int, head: int) -> tuple[int, int]:
    """The query and key to begin with: of a row that reads unevenly, the key that it reads most.

    It is the cell with the largest a·log₂(a·n), n the keys that its query may read: what a cell adds to the divergence
    of its row from one that reads all n alike, in bits. Of the first query all weight is on itself, after the last one
    nothing is asked, and many heads rest on themselves or on the first key where they find nothing (Xiao et al. 2023,
    "Efficient Streaming Language Models with Attention Sinks", §3.1): such cells count only where a text is too short
    for others.
    """
    with torch.inference_mode():
        weights, allowed = trace.weights(layer, head), trace.mask(layer)  # both (T,S)
    another = allowed.clone()
    inner = torch.zeros_like(allowed)
    if trace.part == "cross":
        inner[:-1] = True
    else:
        another.fill_diagonal_(False)
        inner[1:-1, 1:] = True
    cells = next((cells for cells in (another & inner, another, allowed) if cells.any()), torch.ones_like(allowed))
    # In a row it grows with the weight wherever it is above 0, so its largest weight is enough, if one row is.
    largest, keys = torch.where(cells, weights, -1.0).max(-1)
    most = torch.where(largest > 0, largest * (largest * allowed.sum(-1)).clamp(min=1e-30).log2(), -torch.inf)
    query = int(most.argmax())
    if most[query] > 0:
        return query, int(keys[query])
    against_even = (weights * allowed.sum(-1, keepdim=True)).clamp(min=torch.finfo(weights.dtype).tiny).log2()
    place = int((weights * against_even).masked_fill(~cells, -torch.inf).argmax())
    return divmod(place, weights.shape[1])


def previous_token_share(weights: Tensor) -> Tensor:
    """Mean weight on the token before: (…,T,T) -> (…); NaN for one token, which has none before it."""
    return weights.diagonal(-1, -2, -1).mean(-1)


def next_token_share(weights: Tensor) -> Tensor:
    """Mean weight on the token after, where the mask permits it: (…,T,T) -> (…); NaN for one token."""
    return weights.diagonal(1, -2, -1).mean(-1)


def induction_share(weights: Tensor, half: int) -> Tensor:
    """Mean weight on the token after the earlier copy, over the second of two equal halves.

    weights (…, 2·half, 2·half) -> (…). A query at i sees its own earlier copy at i − half, and the token
    after that one at i − half + 1 (Olsson et al. 2022, "In-context Learning and Induction Heads").
    """
    return weights.diagonal(1 - half, -2, -1)[..., 1:].mean(-1)
