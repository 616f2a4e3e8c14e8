"""How an attention makes its queries, keys and values of what it reads, and how it turns them by their position.

Found in the first pass, by what the modules before the product gave; what fits nothing is said to be the model's own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from viz_model.hub import find_latent
from viz_model.hub.attention import AttentionCall
from viz_model.hub.host import HubTransformer
from viz_model.hub.recording import EXACT, Event, entered_by, first_event, holds_same
from viz_model.transformer.attention import LATENT, LINEAR, NORMED, OTHER, TURNED_NORMED, Equation
from viz_model.transformer.hooks import site
from viz_model.transformer.linear_maps import AttentionMaps, Maps, Norm, Product, Rearranged
from viz_model.transformer.positions import Rotation, rotary_angles

PAIRS = ("halves", "neighbours")
LATE_TURNS = {LATENT, TURNED_NORMED}


@dataclass(frozen=True)
class HeadAxes:
    """How the numbers of some heads lie in what a module gives: `take` them as (B,heads,T,D), `put` them back."""

    take: Callable[[Tensor], Tensor]
    put: Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Projection:
    """What a module gave that became the queries, keys or values (B,heads,T,D) of a product.

    factor: what it was multiplied with. turned: whether it was turned by its position, too.
    """

    event: Event
    axes: HeadAxes
    factor: float
    turned: bool

    @property
    def before(self) -> Tensor:
        return self.axes.take(self.event.tensor)


def install(
    name: str,
    events: Sequence[Event],
    call: AttentionCall,
    read: Tensor,
    thetas: Sequence[Tensor],
    until: int | None = None,
    *,
    clips: bool = False,
) -> tuple[Equation, AttentionMaps]:
    """Offer q_pre and k_pre of an attention, where it turns what a module gave; gives its equation, and the maps that
    make its queries, keys and values.

    events: those of its block before the product. read: what its queries are made of (B,T,C). thetas: frequencies that
    a rotation of this model may have, in texts of up to `until` tokens. clips: whether large numbers of queries, keys
    and values are cut off, so that what three tokens show need not hold of others.
    """
    found = {letter: _projection(events, letter, call) for letter in "qkv"}
    turned = any(one is not None and one.turned for one in found.values())
    found = dict.fromkeys("qkv") if clips else found
    for letter in "qk":
        if found[letter] is not None and found[letter].turned:
            _offer(f"{name}.{letter}_pre", found[letter])
    source = None if name.endswith(".cross") else read  # keys and values of cross-attention are made of another text
    rotation = _rotation(found, call, thetas, until)
    made = {letter: _made(events, found[letter], read if letter == "q" else source) for letter in "qkv"}
    kinds = {letter: _kind(maps) for letter, maps in made.items()}
    kinds |= {
        letter: how for letter, how in _made_otherwise(events, found, call, read).items() if kinds[letter] == OTHER
    }
    turned = turned or LATE_TURNS & set(kinds.values())
    equation = replace(
        call.equation,
        query=kinds["q"],
        query_factor=1.0 if found["q"] is None or found["q"].turned else _factor(found["q"]),
        key=kinds["k"],
        value=kinds["v"],
        rotation=rotation,
        turns_otherwise=rotation is None and bool(turned),
        slopes=None if call.bias is None else slopes(call.bias),
    )
    maps = AttentionMaps(query=made["q"], key=made["k"], value=made["v"])
    if kinds["k"] == LATENT:
        maps = find_latent.with_maps(maps, events, call, read, thetas, until)
    return equation, maps


def clips(host: HubTransformer) -> bool:
    """Whether a model cuts off large numbers of its queries, keys and values (MPT, OLMo), by its config."""
    said = _said(host)
    return (said.get("clip_qkv") or (said.get("attn_config") or {}).get("clip_qkv")) is not None


def slopes(bias: Tensor) -> tuple[float, ...] | None:
    """Of a bias (B,H,T,S) that grows by the same number from each key to the next, in all rows of a head: that number.

    Press et al. 2022, "Train Short, Test Long: Attention with Linear Biases", §3. None for any other bias.
    """
    steps = bias[..., 1:] - bias[..., :-1]
    of_head = steps[:1, :, :1, :1]
    return tuple(of_head.flatten().tolist()) if torch.allclose(steps, of_head.expand_as(steps)) else None


def made_of(events: Sequence[Event], out: Event | None, mixed: Tensor) -> str:
    """How what an attention writes comes of its mixed values (B,H,T,D)."""
    if out is None:
        return OTHER
    entered, joined = entered_by(events, out).tensor, mixed.transpose(1, 2).flatten(-2)
    if holds_same(joined, entered):
        return LINEAR
    norms = (event for event in events if event.is_norm and event.kind == "out")
    norm = first_event(norms, lambda event: holds_same(event.tensor, entered))
    return NORMED if norm is not None and holds_same(joined, entered_by(events, norm).tensor) else OTHER


def facts(host: HubTransformer) -> dict:
    """Whether positions enter by a rotation, its base, and how its pairs lie, where all layers turn in a known way."""
    said, turning = _said(host), [equation for equation in host.equations.values() if equation.turns]
    if not turning and not said.get("rope_parameters") and "rotary_dim" not in said:
        return {"position": "none"}
    base = (said.get("rope_parameters") or {}).get("rope_theta")
    known = turning and all(equation.rotation for equation in turning)
    return {
        "position": "rotary",
        "rotary_base": base if isinstance(base, int | float) else None,
        "rotary_pairs": turning[0].rotation.pairs if known else None,
    }


def possible_thetas(host: HubTransformer, width: int) -> list[Tensor]:
    """Frequencies by the base that the config says, and those that the model keeps itself: (pairs,) each, float64."""
    said = _said(host)
    rope = said.get("rope_parameters") or {}
    base = rope.get("rope_theta", 10000.0)
    share = rope.get("partial_rotary_factor", said.get("partial_rotary_factor", 1.0))
    turning = {width, int(width * share) if isinstance(share, int | float) else width, said.get("rotary_dim") or width}
    found = []
    if isinstance(base, int | float):
        found += [rotary_angles(torch.tensor(1), n, base) for n in sorted(turning, reverse=True) if n % 2 == 0]
    kept = (buffer for name, buffer in host.model.named_buffers() if name.endswith("inv_freq"))
    return found + [buffer.double() for buffer in kept if buffer.dim() == 1 and 2 * len(buffer) <= width]


def angles_switch_at(host: HubTransformer) -> int | None:
    """The length up to which a model turns by other angles than beyond it (Phi-3's longrope); None for one that does
    not change them."""
    said = _said(host)
    rope = said.get("rope_parameters") or {}
    if rope.get("rope_type", rope.get("type")) != "longrope":
        return None
    length = rope.get("original_max_position_embeddings", said.get("original_max_position_embeddings"))
    return length if isinstance(length, int) else None


def _said(host: HubTransformer) -> dict:
    return host.model.config.get_text_config().to_dict()


def _projection(events: Sequence[Event], letter: str, call: AttentionCall) -> Projection | None:
    """The last module that gave them, but for a factor and a turn.

    Rotation by position 0 is none, and no rotation changes a length. So what is a multiple of the query at position 0,
    and of its lengths everywhere, but not at position 1, is the query before its rotation.
    """
    there = {"q": call.query, "k": call.key, "v": call.value}[letter]
    for event, axes in _candidates(events, letter, call):
        before = axes.take(event.tensor)
        if before.shape != there.shape:
            continue
        first, near = before[:, :, 0], {"atol": EXACT, "rtol": EXACT}
        factor = ((first * there[:, :, 0]).sum() / (first * first).sum()).item()
        if not factor > 0 or not torch.allclose(factor * first, there[:, :, 0], **near):
            continue
        if torch.allclose(factor * before, there, **near):
            return Projection(event, axes, factor, turned=False)
        if letter != "v" and torch.allclose(factor * before.norm(dim=-1), there.norm(dim=-1), **near):
            return Projection(event, axes, factor, turned=True)
    return None


def _factor(found: Projection) -> float:
    """1 where it is nothing but rounding."""
    return 1.0 if abs(found.factor - 1) < EXACT else found.factor


def _rotation(found: dict, call: AttentionCall, thetas: Sequence[Tensor], until: int | None) -> Rotation | None:
    """The one that makes both queries and keys what they are in the product, if one of them does."""
    query, key = found["q"], found["k"]
    if query is None or key is None or not (query.turned and key.turned):
        return None
    positions = torch.arange(call.query.shape[-2])
    for theta in thetas:
        for pairs in PAIRS:
            rotation = Rotation(tuple(theta.tolist()), pairs, _factor(query), until)
            turned = (rotation.turn(one.before, positions) for one in (query, key))
            if all(
                torch.allclose(mine, there, atol=EXACT, rtol=EXACT)
                for mine, there in zip(turned, (call.query, call.key), strict=True)
            ):
                return rotation
    return None


def _made(events: Sequence[Event], found: Projection | None, read: Tensor | None) -> Maps | None:
    """From what is read (None: whatever it is) to heads: a product, perhaps with a norm behind it; None where it is
    something else."""
    if found is None:
        return None
    event, norm, take = found.event, (), found.axes.take
    if event.is_norm:
        entered = first_event(events, lambda other: other.kind == "in" and other.module is event.module)
        module = event.module
        event = first_event(events, lambda other: other.is_product and holds_same(other.tensor, entered.tensor))
        if event is not None:
            apart, take = _as_read(event.tensor, entered.tensor, take)
            norm = (*apart, Norm(module))
    if event is None or not event.is_product:
        return None
    entered = first_event(events, lambda other: other.kind == "in" and other.module is event.module)
    if read is not None and not (entered.tensor.shape == read.shape and torch.equal(entered.tensor, read)):
        return None
    return (Product(event.module), *norm, Rearranged(take))


def _kind(made: Maps | None) -> str:
    if made is None:
        return OTHER
    return NORMED if any(isinstance(step, Norm) for step in made) else LINEAR


def _as_read(made: Tensor, entered: Tensor, take: Callable[[Tensor], Tensor]) -> tuple[Maps, Callable]:
    """How a norm reads what a product gave (B,T,H·D), heads apart or not; and how heads are taken of what it gives."""
    if entered.dim() == 3:
        return (), take
    apart = (Rearranged(lambda x: x.unflatten(-1, (-1, entered.shape[-1]))),)  # (B,T,H,D)
    if torch.equal(made.reshape(entered.shape), entered):
        return apart, take
    return apart, lambda x: take(x.transpose(-2, -3))  # it reads (B,H,T,D)


def _made_otherwise(events: Sequence[Event], found: dict, call: AttentionCall, read: Tensor | None) -> dict[str, str]:
    """`TURNED_NORMED` or `LATENT`, for what is neither a product nor the norm of one."""
    made = {}
    for letter in "qk":
        norm = found[letter] and found[letter].event
        if norm is not None and norm.is_norm and read is not None:
            product = _turned_into(events, entered_by(events, norm).tensor)
            if product is not None and torch.equal(entered_by(events, product).tensor, read):
                made[letter] = TURNED_NORMED
    return made if read is None else made | find_latent.kinds(events, call, read)


def _turned_into(events: Sequence[Event], heads: Tensor) -> Event | None:
    """The product whose heads were turned into these, (B,T,H,D) or (B,H,T,D): the same at position 0, and as long at
    all others."""
    near = {"atol": EXACT, "rtol": EXACT}
    for event in (one for one in events if one.is_product):
        for turned in (heads, heads.transpose(1, 2)):
            if turned.dim() == 4 and event.tensor.shape == turned.flatten(-2).shape:
                before = event.tensor.unflatten(-1, turned.shape[-2:])
                same_length = torch.allclose(before.norm(dim=-1), turned.norm(dim=-1), **near)
                if torch.allclose(before[:, 0], turned[:, 0], **near) and same_length:
                    return event
    return None


def _candidates(events: Sequence[Event], letter: str, call: AttentionCall) -> Iterator[tuple[Event, HeadAxes]]:
    """Every way to read H (or G) heads of D numbers out of what a module before the product gave, the last first."""
    (heads, _, width), groups = call.query.shape[1:], call.key.shape[1]
    own, length, of_head = {"q": call.query, "k": call.key, "v": call.value}[letter].shape[1:]
    start = {"q": 0, "k": heads * width, "v": (heads + groups) * width}[letter]
    whole = (heads + groups) * width + groups * call.value.shape[-1]
    for event in reversed(events):
        shape = event.tensor.shape[1:]
        if event.kind != "out" or event.key != 0:
            continue
        if shape == (own, length, of_head):
            yield event, HeadAxes(lambda x: x, lambda x, new: new)
        if shape == (length, own, of_head):
            yield event, HeadAxes(lambda x: x.transpose(1, 2), lambda x, new: new.transpose(1, 2))
        if shape == (length, own * of_head):
            yield event, _slice(own, of_head, 0)
        if shape == (length, whole):
            yield event, _slice(own, of_head, start)
            if call.value.shape[-1] == width:
                yield event, _grouped(groups, width, letter)


def _slice(heads: int, width: int, start: int) -> HeadAxes:
    """Heads side by side, from a place on: (B,T,…) -> (B,heads,T,D)."""
    end = start + heads * width

    def put(x: Tensor, new: Tensor) -> Tensor:
        return torch.cat((x[..., :start], new.transpose(1, 2).flatten(-2), x[..., end:]), -1)

    return HeadAxes(lambda x: x[..., start:end].unflatten(-1, (heads, width)).transpose(1, 2), put)


def _grouped(groups: int, width: int, letter: str) -> HeadAxes:
    """The queries of each group, its key and its value side by side (Falcon; GPT-NeoX, where H = G): (B,T,…)."""
    place = {"q": slice(None, -2), "k": slice(-2, -1), "v": slice(-1, None)}[letter]

    def by_group(x: Tensor) -> Tensor:
        return x.unflatten(-1, (groups, -1, width))  # (B,T,G,H/G+2,D)

    def put(x: Tensor, new: Tensor) -> Tensor:
        parts = by_group(x).clone()
        parts[..., place, :] = new.transpose(1, 2).unflatten(2, (groups, -1))
        return parts.flatten(-3)

    return HeadAxes(lambda x: by_group(x)[..., place, :].flatten(2, 3).transpose(1, 2), put)


def _offer(name: str, found: Projection) -> None:
    axes = found.axes

    def hook(module, arguments, result):
        before = axes.take(result)
        changed = site(name, before)
        return result if changed is before else axes.put(result, changed)

    found.event.module.register_forward_hook(hook)
