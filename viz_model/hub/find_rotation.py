"""Queries and keys before their rotation, where a module of the model gives them, and how its pairs turn."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.hub.host import HubTransformer
from viz_model.hub.interface import AttentionCall
from viz_model.hub.recording import Event
from viz_model.transformer.hooks import site
from viz_model.transformer.positions import rotary_angles, rotate

EXACT = 1e-4


@dataclass(frozen=True)
class HeadAxes:
    """How the numbers of some heads lie in what a module gives: `take` them as (B,heads,T,D), `put` them back."""

    take: Callable[[Tensor], Tensor]
    put: Callable[[Tensor, Tensor], Tensor]


def install(name: str, events: list[Event], call: AttentionCall) -> None:
    """Offer q_pre and k_pre of an attention, if some module gives them: before the product, after no rotation.

    Rotation by position 0 is none, and no rotation changes a length. So what equals the query at position 0, has its
    lengths everywhere, and is another tensor at position 1, is the query before its rotation.
    """
    for letter, turned in (("q", call.query), ("k", call.key)):
        for event, reading in _candidates(events, letter, call):
            if _is_unturned(reading.take(event.tensor), turned):
                _offer(f"{name}.{letter}_pre", event, reading)
                call.unturned[letter] = reading.take(event.tensor)
                break


def facts(host: HubTransformer, calls: list[tuple[int, AttentionCall]]) -> dict:
    """Position, base and pairs of the rotation, if there is one; pairs only if ours turns the same way."""
    config = host.model.config.get_text_config()
    said = getattr(config, "rope_parameters", None) or {}
    first = calls[0][1]
    if not first.unturned and not said and not hasattr(config, "rotary_dim"):
        return {"position": "none"}
    base = said.get("rope_theta") if isinstance(said.get("rope_theta"), int | float) else None
    found = {"position": "rotary", "rotary_base": base}
    if "q" in first.unturned and base and first.query.shape[-1] % 2 == 0:
        angles = rotary_angles(torch.arange(first.query.shape[-2]), first.query.shape[-1], base)
        for pairs in ("halves", "neighbours"):
            if (rotate(first.unturned["q"], angles, pairs) - first.query).abs().max() <= EXACT:
                found["rotary_pairs"] = pairs
    return found


def _candidates(events: list[Event], letter: str, call: AttentionCall):
    """Every way to read H (or G) heads of D numbers out of what a module before the product gave, the last first."""
    (heads, length, width), groups = call.query.shape[1:], call.key.shape[1]
    own = heads if letter == "q" else groups
    start = 0 if letter == "q" else heads * width
    whole = (heads + 2 * groups) * width
    for event in reversed(events):
        shape = event.tensor.shape[1:]
        if event.kind != "out" or event.key != 0:
            continue
        if shape == (own, length, width):
            yield event, HeadAxes(lambda x: x, lambda x, new: new)
        if shape == (length, own, width):
            yield event, HeadAxes(lambda x: x.transpose(1, 2), lambda x, new: new.transpose(1, 2))
        if shape == (length, own * width):
            yield event, _slice(own, width, 0)
        if shape == (length, whole):
            yield event, _slice(own, width, start)
            if heads == groups:
                yield event, _interleaved(heads, width, 0 if letter == "q" else width)


def _slice(heads: int, width: int, start: int) -> HeadAxes:
    """Heads side by side, from a place on: (B,T,…) -> (B,heads,T,D)."""
    end = start + heads * width

    def put(x: Tensor, new: Tensor) -> Tensor:
        return torch.cat((x[..., :start], new.transpose(1, 2).flatten(-2), x[..., end:]), -1)

    return HeadAxes(lambda x: x[..., start:end].unflatten(-1, (heads, width)).transpose(1, 2), put)


def _interleaved(heads: int, width: int, start: int) -> HeadAxes:
    """Query, key and value of each head side by side (GPT-NeoX): (B,T,H·3D) -> (B,H,T,D)."""

    def by_head(x: Tensor) -> Tensor:
        return x.unflatten(-1, (heads, 3 * width))

    def put(x: Tensor, new: Tensor) -> Tensor:
        parts = by_head(x)
        after = parts[..., start + width :]
        return torch.cat((parts[..., :start], new.transpose(1, 2), after), -1).flatten(-2)

    return HeadAxes(lambda x: by_head(x)[..., start : start + width].transpose(1, 2), put)


def _is_unturned(before: Tensor, turned: Tensor) -> bool:
    if before.shape != turned.shape or torch.equal(before, turned):
        return False
    near = {"atol": EXACT, "rtol": EXACT}
    return torch.allclose(before[:, :, 0], turned[:, :, 0], **near) and torch.allclose(
        before.norm(dim=-1), turned.norm(dim=-1), **near
    )


def _offer(name: str, event: Event, reading: HeadAxes) -> None:
    def hook(module, arguments, result):
        before = reading.take(result)
        changed = site(name, before)
        return result if changed is before else reading.put(result, changed)

    event.module.register_forward_hook(hook)
