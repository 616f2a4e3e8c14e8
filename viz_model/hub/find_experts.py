"""Which experts a feed-forward half has, and how it shares a token among them: by the equations that they fulfil."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from viz_model.hub.find_sites import batch_of_pass, refuse_change
from viz_model.transformer.feed_forward import ALONE, OF_ALL, OF_CHOSEN, OF_SUM, Experts
from viz_model.transformer.hooks import site, wanted

CLOSE = {"atol": 1e-5, "rtol": 1e-4}


def find_experts(half: nn.Module, read: Tensor, said: dict, name: str) -> Experts | None:
    """Those of a half that reads (1,T,C); None where there are none, or what they do is not known here.

    said: the model's config, whose names for a count or a factor are the library's. name: of the hook site that shall
    offer the shares (B,T,E).
    """
    holder = next((module for module in half.modules() if len(_cubes(module)) == 2), None)
    if holder is None:
        return None
    count = _cubes(holder)[0].shape[0]
    router = next((module for module in half.modules() if _is_router(module, (count, read.shape[-1]))), None)
    if router is None:
        return None
    shared = [module for module in half.children() if not {holder, router} & set(module.modules())]
    met: dict[nn.Module, tuple] = {}
    handles = [holder.register_forward_pre_hook(lambda module, arguments: met.update({module: arguments}))]
    handles += [one.register_forward_hook(lambda module, _, given: met.update({module: _kept(given)}))
                for one in (router, *shared)]  # fmt: skip
    try:
        out = half(read)
    finally:
        for handle in handles:
            handle.remove()
    out = (out[0] if isinstance(out, tuple) else out).reshape(-1, read.shape[-1])
    x, before = read[0], len(met[holder]) == 1
    shares = _shares(met[holder], met[router], count)
    added = [met[one] for one in shared if isinstance(met.get(one), Tensor) and met[one].numel() == out.numel()]
    gates = [met[one] for one in shared if isinstance(met.get(one), Tensor) and met[one].numel() == len(out)]
    gate = gates[0].reshape(-1, 1).sigmoid() if gates and added else 1.0  # (T,1), of Qwen 2 MoE
    rest = out - gate * sum(one.reshape(out.shape) for one in added)
    logits = F.linear(x, router.weight, dict(router.named_parameters()).get("bias"))
    for found, theirs in _rules(logits, said):
        if torch.allclose(theirs, shares, **CLOSE) and torch.allclose(_sum(holder, x, shares, before), rest, **CLOSE):
            _offer(name, holder, router, count, before)
            return replace(
                found, before=before, clipped=_clip(holder), shared=bool(added), gated_shared=bool(gates and added)
            )
    return None


def _clip(holder: nn.Module) -> tuple[float, float] | None:
    """What gpt-oss keeps with its experts."""
    said = vars(holder)
    return (said["alpha"], said["limit"]) if {"alpha", "limit"} <= said.keys() else None


def _kept(given: Tensor | tuple) -> Tensor | tuple:
    """A copy: Llama 4 adds to what its shared expert gave, in place."""
    return given.clone() if isinstance(given, Tensor) else given


def _cubes(module: nn.Module) -> list[Tensor]:
    """The matrices of all experts, each in one parameter (E,…,…)."""
    return [one for one in module.parameters(recurse=False) if one.dim() == 3]


def _is_router(module: nn.Module, shape: tuple[int, int]) -> bool:
    weight = dict(module.named_parameters(recurse=False)).get("weight")
    return weight is not None and weight.shape == shape


def _shares(arguments: tuple, given: tuple, count: int) -> Tensor:
    """(T,E): what experts are called with, ids and shares of the chosen ones; or what the router gives of all."""
    if len(arguments) == 1:
        return given[0]
    ids, shares = sorted(arguments[1:3], key=Tensor.is_floating_point)
    return torch.zeros(len(ids), count).scatter(1, ids, shares.float())


def _rules(logits: Tensor, said: dict) -> Iterator[tuple[Experts, Tensor]]:
    """Every way to share that is known here, and its shares (T,E)."""
    chosen = next((said[name] for name in ("num_experts_per_tok", "moe_topk", "moe_k", "top_k") if said.get(name)), 1)
    factor = said.get("routed_scaling_factor") or 1.0
    groups = (said["topk_group"], said["n_group"]) if (said.get("n_group") or 1) > 1 else None

    def largest(of: Tensor, least: float, within: tuple[int, int] | None = None) -> Tensor:
        open_to = of
        if within is not None:
            parts = of.unflatten(-1, (within[1], -1))
            best = parts.topk(min(2, parts.shape[-1]), -1)[0].sum(-1).topk(within[0], -1)[1]
            allowed = torch.zeros(parts.shape[:-1], dtype=torch.bool).scatter(-1, best, True)
            open_to = parts.masked_fill(~allowed[..., None], -torch.inf).flatten(-2)
        return torch.full_like(of, least).scatter(-1, ids := open_to.topk(chosen, -1)[1], of.gather(-1, ids))

    yield Experts(chosen, OF_CHOSEN), largest(logits, -torch.inf).softmax(-1)
    yield Experts(chosen, OF_ALL), largest(logits.softmax(-1), 0.0)
    yield Experts(chosen, ALONE), largest(logits, -torch.inf).sigmoid()
    alone = largest(logits.sigmoid(), 0.0, groups)
    yield Experts(chosen, OF_SUM, factor, groups), factor * alone / alone.sum(-1, keepdim=True)
    scaled = largest(logits.softmax(-1), 0.0, groups)
    yield Experts(chosen, OF_ALL, factor, groups), factor * scaled


def _sum(holder: nn.Module, x: Tensor, shares: Tensor, before: bool) -> Tensor:
    """Every expert on every token (T,C), times its share, summed up."""
    own = dict(holder.named_parameters(recurse=False))
    up, down = own["gate_up_proj"], own["down_proj"]
    up = up if up.shape[1] == x.shape[-1] else up.transpose(1, 2)  # (E,C,2F)
    down = down if down.shape[2] == x.shape[-1] else down.transpose(1, 2)  # (E,F,C)
    read = shares.T[..., None] * x if before else x[None].expand(len(up), *x.shape)  # (E,T,C)
    both = read @ up + own.get("gate_up_proj_bias", torch.zeros(1, 1))[:, None]
    if (clipped := _clip(holder)) is not None:  # two columns beside each other are gate and line
        slope, limit = clipped
        gate, line = both[..., 0::2].clamp(max=limit), both[..., 1::2].clamp(-limit, limit)
        hidden = gate * (slope * gate).sigmoid() * (line + 1)
    else:
        gate, line = both.chunk(2, -1)
        hidden = holder.act_fn(gate) * line
    given = hidden @ down + own.get("down_proj_bias", torch.zeros(1, 1))[:, None]
    return (given if before else shares.T[..., None] * given).sum(0)


def _offer(name: str, holder: nn.Module, router: nn.Module, count: int, before: bool) -> None:
    """Let the shares be seen; they cannot be replaced, for an expert is asked about its own tokens only."""

    def offer(shares: Tensor) -> None:
        if wanted(name):
            rows = shares.unflatten(0, (batch_of_pass(), -1))
            refuse_change(name, rows, site(name, rows))

    if before:
        router.register_forward_hook(lambda module, arguments, given: offer(given[0]))
    else:
        holder.register_forward_pre_hook(lambda module, arguments: offer(_shares(arguments, (), count)))
