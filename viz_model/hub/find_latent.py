"""Queries and keys that are made in two steps with a norm between them, found in the first pass.

Multi-head latent attention: DeepSeek-AI 2024, "DeepSeek-V2", §2.1. A few numbers of each token become keys and values
of all heads, and all heads share those numbers of a key that turn by its position.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from viz_model.hub.attention import AttentionCall
from viz_model.hub.recording import EXACT, Event, entered_by, first_event, holds_same
from viz_model.transformer.attention import LATENT, OTHER
from viz_model.transformer.linear_maps import AttentionMaps, Beside, Maps, Norm, Product, Rearranged, through
from viz_model.transformer.positions import Rotation


def kinds(events: Sequence[Event], call: AttentionCall, read: Tensor) -> dict[str, str]:
    """`LATENT` for what is a norm of few numbers times a matrix, but for the last numbers of each head, which turn.

    Turned numbers may lie in another order, but at position 0 they are the same ones.
    """
    found = {}
    values = call.value.shape[-1]
    for letter, there in (("q", call.query), ("k", call.key), ("v", call.value)):
        heads, length, width = there.shape[1:]
        for event in (one for one in events if one.is_product and one.tokens == length):
            rows = event.tensor.flatten(1, -2)  # (B,T,·), also of (B,1,T,·)
            if rows.shape[1] != length or rows.shape[-1] % heads or _normed_product(events, event, read) is None:
                continue
            each = rows.unflatten(-1, (heads, -1)).transpose(1, 2)  # (B,H,T,·)
            keys = each.shape[-1] - values  # where it makes keys and values of each head, side by side
            if letter == "v" and keys > 0 and torch.equal(each[..., keys:], there):
                found[letter] = LATENT
            if letter == "k" and 0 < keys < width and torch.equal(each[..., :keys], there[..., :keys]):
                found[letter] = LATENT if _turned_of(events, there[..., keys:], read) else OTHER
            if letter == "q" and each.shape[-1] == width:
                kept = int((each == there).all(2).all(1).all(0).long().cumprod(-1).sum())
                if 0 < kept < width and _is_turn(each[..., kept:], there[..., kept:]):
                    found[letter] = LATENT
    return found


def with_maps(
    maps: AttentionMaps,
    events: Sequence[Event],
    call: AttentionCall,
    read: Tensor | None,
    thetas: Sequence[Tensor],
    until: int | None,
) -> AttentionMaps:
    """The same maps with those of queries and keys, in which the numbers that turn come first in a head: products of
    queries and keys are those of the pass, whatever order the model has. Without them where none are found."""
    key = None if read is None else _key(events, call, read)
    if key is None:
        return maps
    key_maps, turning = key
    positions, there = torch.arange(read.shape[1]), (call.query @ call.key.transpose(-1, -2))[0]
    for query_maps in _queries(events, call, read, turning):
        query, key = (through(made, read[0].double()) for made in (query_maps, key_maps))
        for theta in (theta for theta in thetas if 2 * len(theta) == turning):
            rotation = Rotation(tuple(theta.tolist()), "neighbours", until=until)
            for turned in (rotation, replace(rotation, pairs="halves")):
                products = turned.turn(query, positions) @ turned.turn(key, positions).transpose(-1, -2)
                if torch.allclose(products.to(there.dtype), there, rtol=EXACT, atol=EXACT * there.abs().max().item()):
                    return replace(maps, query=query_maps, key=key_maps, rotation=turned)
    return maps


def _key(events: Sequence[Event], call: AttentionCall, read: Tensor) -> tuple[Maps, int] | None:
    """How the keys of all heads are made, and how many numbers of each turn, which come first."""
    heads, length, width = call.key.shape[1:]
    for event in (one for one in events if one.is_product and one.tokens == length):
        steps, (each, keys) = _normed_product(events, event, read), _each(event, heads, call.value.shape[-1])
        if steps is None or not (0 < keys < width and torch.equal(each[..., :keys], call.key[..., :keys])):
            continue
        product, norm, turning = *steps, width - keys
        few = entered_by(events, norm).tensor.shape[-1]
        if product.tensor.shape[-1] != few + turning:
            continue

        def to_heads(x: Tensor, keys: int = keys, turning: int = turning) -> Tensor:
            """What the second product made of each head, and behind all of it what they share: (B,n,·)."""
            own = x[..., :-turning].unflatten(-1, (heads, -1))[..., :keys]  # (B,n,H,keys)
            shared = x[..., None, -turning:].expand(*own.shape[:-1], turning)
            return torch.cat((shared, own), -1).transpose(1, 2)

        made = Beside(few, (Norm(norm.module), Product(event.module)))
        return (Product(product.module), made, Rearranged(to_heads)), turning
    return None


def _queries(events: Sequence[Event], call: AttentionCall, read: Tensor, turning: int) -> Iterator[Maps]:
    """How the queries may be made, by one product or by two with a norm between them."""
    heads, length, width = call.query.shape[1:]

    def to_heads(x: Tensor) -> Tensor:
        each = x.unflatten(-1, (heads, width)).transpose(1, 2)
        return torch.cat((each[..., -turning:], each[..., :-turning]), -1)

    for event in (one for one in events if one.is_product and one.tensor.shape[1:] == (length, heads * width)):
        steps = _normed_product(events, event, read)
        if steps is not None:
            product, norm = steps
            if product.tensor.shape[-1] == entered_by(events, norm).tensor.shape[-1]:
                yield Product(product.module), Norm(norm.module), Product(event.module), Rearranged(to_heads)
        elif torch.equal(entered_by(events, event).tensor, read):
            yield Product(event.module), Rearranged(to_heads)


def _each(event: Event, heads: int, values: int) -> tuple[Tensor, int]:
    """What a product gave of each head (B,H,T,·), and how many numbers of it are no values."""
    rows = event.tensor.flatten(1, -2)  # (B,T,·), also of (B,1,T,·)
    width = rows.shape[-1] // heads
    return rows[..., : heads * width].unflatten(-1, (heads, width)).transpose(1, 2), width - values


def _normed_product(events: Sequence[Event], event: Event, read: Tensor) -> tuple[Event, Event] | None:
    """The product of what the attention reads, and the norm of (the first numbers of) it, which another product reads;
    None where it reads something else."""
    entered = entered_by(events, event)
    norm = first_event(events, lambda one: one.is_norm and one.kind == "out" and holds_same(one.tensor, entered.tensor))
    if norm is None:
        return None
    few = entered_by(events, norm).tensor
    for one in _products_of(events, read):
        if one.tensor.shape[-1] >= few.shape[-1] and torch.equal(one.tensor[..., : few.shape[-1]], few):
            return one, norm
    return None


def _products_of(events: Sequence[Event], read: Tensor) -> Iterator[Event]:
    for event in events:
        if event.is_product and torch.equal(entered_by(events, event).tensor, read):
            yield event


def _turned_of(events: Sequence[Event], there: Tensor, read: Tensor) -> bool:
    """Whether all heads share these numbers (B,H,T,·), which are the last of a product, turned."""
    if not torch.equal(there, there[:, :1].expand_as(there)):
        return False
    width = there.shape[-1]
    products = (event for event in _products_of(events, read) if event.tensor.shape[-1] >= width)
    return any(_is_turn(event.tensor[:, None, :, -width:], there[:, :1]) for event in products)


def _is_turn(before: Tensor, there: Tensor) -> bool:
    near = {"atol": EXACT, "rtol": EXACT}
    first = (one[:, :, 0].sort(-1)[0] for one in (before, there))
    return torch.allclose(*first, **near) and torch.allclose(before.norm(dim=-1), there.norm(dim=-1), **near)
