"""Attention, written once: scores -> mask -> softmax -> mix, with a hook site at every boundary.

Vaswani et al. 2017, "Attention Is All You Need", §3.2; grouped heads: Ainslie et al. 2023, "GQA", §2.2; soft caps:
Gemma Team 2024, "Gemma 2", §2; sinks: OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card", §2.2.
Symbols: B batch, T queries, S keys, H heads, G key/value heads (G divides H), D head width.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from viz_model.arguments import DTYPES, REAL, dense, of_type, real_number, tensor, text
from viz_model.errors import MaskError, VizError
from viz_model.transformer.hooks import site, wanted
from viz_model.transformer.positions import Rotation

LINEAR, NORMED, TURNED_NORMED, LATENT, OTHER = "linear", "normed", "turned, then normed", "latent", "other"


@dataclass(frozen=True)
class Equation:
    """What of the equation is the same for all heads of an attention.

    scale: what QKᵀ is multiplied with. softcap: where there is one, the scores s become softcap·tanh(s/softcap).
    query, key, value: how they come of what is read (before they are turned by their position): a matrix product
    (`LINEAR`), one with a norm behind it (`NORMED`, and `TURNED_NORMED` where the norm comes after the turn, as in
    Llama 4), two with a norm between them, of which only the last numbers of a head turn (`LATENT`: DeepSeek-AI 2024,
    "DeepSeek-V2", §2.1.3), or in another way of the model's own (`OTHER`). out: how the heads' mixed values become what
    the attention writes: by a matrix, by one behind a norm of them (`NORMED`), or otherwise. query_factor:
    what queries are multiplied with besides (OPT scales them, and not the products). rotation: how
    queries and keys are turned; None where they are not, or where `turns_otherwise`. slopes: of ALiBi, whose bias of a
    head is slope · position of the key; None where there is no bias, or another one.
    """

    scale: float
    softcap: float | None = None
    query: str = LINEAR
    query_factor: float = 1.0
    key: str = LINEAR
    value: str = LINEAR
    out: str = LINEAR
    rotation: Rotation | None = None
    turns_otherwise: bool = False
    slopes: tuple[float, ...] | None = None

    @property
    def turns(self) -> bool:
        """Whether queries and keys enter the product turned by their position."""
        return self.rotation is not None or self.turns_otherwise


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    name: str = "attn",
) -> Tensor:
    """softmax(QKᵀ·scale + bias + M)·V for every head, through the hook sites `name`.q … `name`.mixed.

    In this order, with a site each: q, k, v; mask; bias and sinks, where there are any; raw = QKᵀ; scores = raw·scale;
    capped = softcap·tanh(scores/softcap), where there is a softcap; weights; mixed.

    query (B,H,T,D); key and value (B,G,S,D), not repeated: query head h reads key head h // (H // G).
    mask: booleans broadcastable to (B,H,T,S), True where a query may attend; None permits all.
    bias: numbers added to the scaled scores, broadcastable to (B,H,T,S).
    scale: what QKᵀ is multiplied with; None is 1/√D.
    sinks: (H,), a further score of each head in every row's softmax, whose share of the weight carries no value, so
    that the row's other weights sum to less than 1.

    Gives (B,H,T,D). A row that may attend to nothing has weights 0 and output 0. Takes the fused path
    (`F.scaled_dot_product_attention`; with softcap or sinks, which it does not know, one head at a time) unless
    somebody watches a site that only the written-out path passes through; the two are held within 1e-5 of each
    other by a test.

    Raises MaskError when the mask is not made of booleans or does not fit (B,H,T,S), and VizError for any other
    argument that is not as above.
    """
    _refuse_strange(query, key, value, mask, bias, sinks, name)
    scale = None if scale is None else real_number("The scale", scale)
    if softcap is not None and not real_number("The soft cap", softcap) > 0:
        raise VizError("The soft cap must be a number greater than 0. Leave it out where scores are not capped.")
    return mixed_values(query, key, value, mask=mask, bias=bias, scale=scale, softcap=softcap, sinks=sinks, name=name)


def mixed_values(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    name: str = "attn",
) -> Tensor:
    """What `attend` gives, where all but the mask is known to fit: for hosts, whose passes call it in each layer."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    if mask is not None:
        _refuse_misfit(mask, (*query.shape[:-1], key.shape[-2]))
    query, key, value = site(f"{name}.q", query), site(f"{name}.k", key), site(f"{name}.v", value)
    if mask is None and wanted(f"{name}.mask"):
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
    mask = mask if mask is None else site(f"{name}.mask", mask)
    bias = bias if bias is None else site(f"{name}.bias", bias)
    sinks = sinks if sinks is None else site(f"{name}.sinks", sinks)
    if wanted(f"{name}.raw", f"{name}.scores", f"{name}.capped", f"{name}.weights"):
        raw = site(f"{name}.raw", raw_scores(query, key))
        scores = site(f"{name}.scores", raw * scale)
        if softcap is not None:
            scores = site(f"{name}.capped", capped(scores, softcap))
        weights = site(f"{name}.weights", attention_weights(scores, mask, bias, sinks=_of_rows(sinks)))
        mixed = mix(weights, value)
    elif softcap is None and sinks is None:
        mixed = _fused(query, key, value, mask, bias, scale)
    else:
        mixed = _one_head_at_a_time(query, key, value, mask, bias, sinks, Equation(scale, softcap))
    return site(f"{name}.mixed", mixed)


def raw_scores(query: Tensor, key: Tensor) -> Tensor:
    """QKᵀ: (…,H,T,D), (…,G,S,D) -> (…,H,T,S)."""
    return _by_group(query, key.transpose(-1, -2), key.shape[-3])


def capped(scores: Tensor, softcap: float) -> Tensor:
    """softcap·tanh(scores/softcap): nearly the scores where they are small, never beyond ±softcap."""
    return softcap * (scores / softcap).tanh()


def softmax_input(scores: Tensor, bias: Tensor | None = None, softcap: float | None = None) -> Tensor:
    """Scaled scores (…,T,S) with what a model does to them before the mask: capped, and with its bias added."""
    scores = scores if softcap is None else capped(scores, softcap)
    return scores if bias is None else scores + bias.to(scores.dtype)


def attention_weights(
    scores: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """Softmax over the permitted keys: scaled scores (…,T,S) -> weights; rows sum to 1, or are all 0.

    sinks: one more score of each row, broadcastable to (…,T,1), which takes its share of the 1 for itself.
    """
    scores = softmax_input(scores, bias, softcap)
    if mask is not None:
        scores = torch.where(mask, scores, -torch.inf)
    if sinks is not None:
        joined = torch.cat((scores, sinks.to(scores.dtype).expand(*scores.shape[:-1], 1)), -1)
        return joined.softmax(-1)[..., :-1]
    weights, empty = scores.softmax(-1), _forbidden(scores)
    # The softmax of a row without a permitted key is 0/0; it has nothing to read, so its weights are 0.
    return weights.masked_fill(empty, 0.0) if empty.any() else weights


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


def _one_head_at_a_time(query, key, value, mask, bias, sinks, equation: Equation) -> Tensor:
    """The same written out, of which no more than the weights of one head are ever held."""
    heads, groups = query.shape[-3], key.shape[-3]
    mixed = []
    for head in range(heads):
        own, group = slice(head, head + 1), head // (heads // groups)
        shared = slice(group, group + 1)
        scores = raw_scores(query[..., own, :, :], key[..., shared, :, :]) * equation.scale
        sink = sinks if sinks is None else sinks[head]
        weights = attention_weights(
            scores, _of_head(mask, own), _of_head(bias, own), softcap=equation.softcap, sinks=sink
        )
        mixed.append(mix(weights, value[..., shared, :, :]))
    return torch.cat(mixed, -3)


def _of_head(tensor: Tensor | None, head: slice) -> Tensor | None:
    """One head of what is broadcastable to (B,H,T,S)."""
    return tensor if tensor is None or tensor.dim() < 3 or tensor.shape[-3] == 1 else tensor[..., head, :, :]


def _of_rows(sinks: Tensor | None) -> Tensor | None:
    """One number a head (H,) -> one a row, (H,1,1)."""
    return sinks if sinks is None else sinks[:, None, None]


def _is_causal(mask: Tensor, queries: int, keys: int) -> bool:
    """Whether the mask is the plain triangle: then the kernel skips half of the work."""
    if queries != keys or mask.numel() != queries * keys:
        return False
    mask = mask.reshape(queries, keys)
    return torch.equal(mask, torch.ones_like(mask).tril())


def _forbidden(scores: Tensor) -> Tensor:
    """Rows (…,T,1) in which every key is forbidden."""
    return scores.amax(-1, keepdim=True) == -torch.inf


def _refuse_strange(query, key, value, mask, bias, sinks, name) -> None:
    """Raise VizError for what `attend` cannot work with."""
    text("The name of an attention", name)
    batch, heads, _, width = tensor("The query", query, REAL, "(B,H,T,D)", (None,) * 4).shape
    groups, keys = tensor("The key", key, REAL, "(B,G,S,D)", (batch, None, None, width), query.device).shape[1:3]
    tensor("The value", value, REAL, "(B,G,S,D)", (batch, groups, keys, None), query.device)
    if not query.dtype == key.dtype == value.dtype:
        raise VizError(f"Query, key and value must be of one kind, not {query.dtype}, {key.dtype} and {value.dtype}.")
    if heads % groups:
        raise VizError(f"{heads} heads of queries cannot share {groups} heads of keys: the one must divide the other.")
    shape = (*query.shape[:-1], keys)
    if mask is not None:
        refuse_no_mask(mask, shape, query.device)
    if bias is not None:
        of_type("The bias", bias, Tensor, "a tensor of floating-point numbers")
        if bias.dtype not in DTYPES[REAL] or not _fits(bias, shape):
            raise VizError(
                f"The bias must be made of floating-point numbers that fit scores of shape (B,H,T,S) = {shape}, but "
                f"it is one of {bias.dtype} of shape {tuple(bias.shape)}."
            )
        dense("The bias", bias, query.device)
    if sinks is not None:
        tensor("The sinks", sinks, REAL, "(H,)", (heads,), query.device)


def refuse_no_mask(mask: object, shape: tuple[int, ...], device: torch.device) -> None:
    """Raise MaskError for what is no mask of scores (B,H,T,S) on this device."""
    _refuse_misfit(of_type("A mask", mask, Tensor, "a tensor of booleans", MaskError), shape)
    dense("A mask", mask, device, MaskError)


def _refuse_misfit(mask: Tensor, shape: tuple[int, ...]) -> None:
    if mask.dtype != torch.bool:
        raise MaskError(f"A mask is made of booleans, True where a query may attend, not of {mask.dtype}.")
    if not _fits(mask, shape):
        raise MaskError(
            f"A mask of shape {tuple(mask.shape)} does not fit scores of shape (B,H,T,S) = {tuple(shape)}: "
            "each of its sizes, counted from the right, must be the same or 1."
        )


def _fits(tensor: Tensor, shape: tuple[int, ...]) -> bool:
    """Whether it is broadcastable to this shape."""
    sizes = zip(reversed(tensor.shape), reversed(shape), strict=False)
    return tensor.dim() <= len(shape) and all(size in (1, whole) for size, whole in sizes)
