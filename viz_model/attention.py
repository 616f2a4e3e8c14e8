"""Attention, written once: scores -> mask -> softmax -> mix, with a hook site at every boundary.

Vaswani et al. 2017, "Attention Is All You Need", §3.2; grouped heads: Ainslie et al. 2023, "GQA", §2.2.
Symbols: B batch, T queries, S keys, H heads, G key/value heads (G divides H), D head width.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from viz_model.errors import MaskError
from viz_model.hooks import site, wanted


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    name: str = "attn",
) -> Tensor:
    """softmax(QKᵀ·scale + bias + M)·V for every head, through the hook sites `name`.q … `name`.mixed.

    query (B,H,T,D); key and value (B,G,S,D), not repeated: query head h reads key head h // (H // G).
    mask: booleans broadcastable to (B,H,T,S), True where a query may attend; None permits all.
    bias: numbers added to the scaled scores, broadcastable to (B,H,T,S).
    scale: what QKᵀ is multiplied with; None is 1/√D.

    Gives (B,H,T,D). A row that may attend to nothing has weights 0 and output 0. Takes the fused path
    (`F.scaled_dot_product_attention`) unless somebody watches a site that only the written-out path
    passes through; the two are held within 1e-5 of each other by a test.

    Raises MaskError when the mask is not made of booleans or does not fit (B,H,T,S).
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    if mask is not None:
        _refuse_misfit(mask, (*query.shape[:-1], key.shape[-2]))
    query, key, value = site(f"{name}.q", query), site(f"{name}.k", key), site(f"{name}.v", value)
    if mask is None and wanted(f"{name}.mask"):
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
    mask = mask if mask is None else site(f"{name}.mask", mask)
    bias = bias if bias is None else site(f"{name}.bias", bias)
    if wanted(f"{name}.raw", f"{name}.scores", f"{name}.weights"):
        raw = site(f"{name}.raw", raw_scores(query, key))
        scores = site(f"{name}.scores", raw * scale)
        weights = site(f"{name}.weights", attention_weights(scores, mask, bias))
        mixed = mix(weights, value)
    else:
        mixed = _fused(query, key, value, mask, bias, scale)
    return site(f"{name}.mixed", mixed)


def raw_scores(query: Tensor, key: Tensor) -> Tensor:
    """QKᵀ: (…,H,T,D), (…,G,S,D) -> (…,H,T,S)."""
    return _by_group(query, key.transpose(-1, -2), key.shape[-3])


def attention_weights(scores: Tensor, mask: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """Softmax over the permitted keys: scaled scores (…,T,S) -> weights; rows sum to 1, or are all 0."""
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    # The softmax of a row without a permitted key is 0/0; it has nothing to read, so its weights are 0.
    return scores.softmax(-1).masked_fill(_forbidden(scores), 0.0)


def mix(weights: Tensor, value: Tensor) -> Tensor:
    """A·V: (…,H,T,S), (…,G,S,D) -> (…,H,T,D)."""
    return _by_group(weights, value, value.shape[-3])


def _by_group(per_head: Tensor, per_group: Tensor, groups: int) -> Tensor:
    """Matrix products of H heads with G shared operands, without repeating the shared ones in the result."""
    heads = per_head.shape[-3]
    if heads == groups:
        return per_head @ per_group
    grouped = per_head.unflatten(-3, (groups, heads // groups)) @ per_group.unsqueeze(-3)
    return grouped.flatten(-4, -3)


def _fused(query, key, value, mask, bias, scale) -> Tensor:
    """The same in one kernel, which never holds the weights."""
    options = {"scale": scale, "enable_gqa": query.shape[-3] != key.shape[-3]}
    if bias is None and (mask is None or _is_causal(mask, query.shape[-2], key.shape[-2])):
        return F.scaled_dot_product_attention(query, key, value, is_causal=mask is not None, **options)
    added = mask  # the kernel takes booleans, or numbers to add
    if bias is not None:
        added = bias.to(query.dtype)
        added = added if mask is None else added.masked_fill(~mask, -torch.inf)
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=torch.atleast_2d(added), **options)
    # What the kernel makes of a row without a permitted key depends on the back end; here it is 0.
    return mixed.masked_fill(~mask.any(-1, keepdim=True) if bias is None else _forbidden(added), 0.0)


def _is_causal(mask: Tensor, queries: int, keys: int) -> bool:
    """Whether the mask is the plain triangle: then the kernel skips half of the work."""
    if queries != keys or mask.shape != (queries, keys):
        return False
    return torch.equal(mask, torch.ones_like(mask).tril())


def _forbidden(scores: Tensor) -> Tensor:
    """Rows (…,T,1) in which every key is forbidden."""
    return scores.amax(-1, keepdim=True) == -torch.inf


def _refuse_misfit(mask: Tensor, shape: tuple[int, ...]) -> None:
    if mask.dtype != torch.bool:
        raise MaskError(f"A mask is made of booleans, True where a query may attend, not of {mask.dtype}.")
    sizes = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.dim() > len(shape) or any(size not in (1, whole) for size, whole in sizes):
        raise MaskError(
            f"A mask of shape {tuple(mask.shape)} does not fit scores of shape (B,H,T,S) = {tuple(shape)}: "
            "each of its sizes, counted from the right, must be the same or 1."
        )
