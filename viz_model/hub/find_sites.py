"""Where the residual stream, norms and feed-forward tensors of any model are: found by the equations they fulfil.

A block adds to its stream what attention and feed-forward give. So after the first pass, of which every module's
tensors were recorded, the stream after attention is that tensor which equals stream + attention out, number by
number, and so on. What does not fulfil its equation gets no site: it is left out, never guessed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from viz_model.errors import EditError
from viz_model.hub.recording import Event, first_event
from viz_model.transformer.block import ACTIVATIONS
from viz_model.transformer.hooks import site


@dataclass
class BlockSites:
    """Of one block: the events of its sites by local name, and where its norms stand ("pre", "post" or None).

    normed: of "attn" or "cross", the norm that what it gives goes through before it is added to the stream (Gemma 2).
    gated: whether the feed-forward half is φ(x·W_g) ⊙ x·W₁ or φ(x·W₁); None where it is neither, or was not found.
    activation: the name of φ where that is known by what it did.
    """

    sites: dict[str, Event] = field(default_factory=dict)
    norm_place: str | None = None
    normed: dict[str, nn.Module] = field(default_factory=dict)
    gated: bool | None = None
    activation: str | None = None


def find_sites(events: Sequence[Event], attentions: Sequence[int], names: Sequence[str]) -> BlockSites:
    """The sites of a block. events: of the block, its own input first and its output last.

    attentions: how many events were over when each attention was called; names: of these, ("attn",) or
    ("attn", "cross").
    """
    block_in, block_out = events[0], events[-1]
    found = BlockSites({"resid_pre": block_in, "resid_post": block_out})
    stream, at = block_in.tensor, 0  # where in the events the stream is read
    norms = {"attn": "norm1", "cross": "norm_cross"}
    after = ("resid_self", "resid_mid")[-len(names) :]
    for attention, name, resid in zip(attentions, names, after, strict=True):
        before = _norm_reading(events[at:attention], stream)
        if before is not None:
            found.sites[norms[name]] = before
        out = first_event(events[attention:], partial(_is_projection, stream=stream))
        if out is None:
            return found
        found.sites[f"{name}.out"] = out
        rest = events[events.index(out) + 1 : -1]
        middle, branch = _sum_of(rest, stream, _branches(out, rest))
        found.norm_place = "pre" if before is not None else None
        if middle is None:  # both halves read the same stream (GPT-J), or it is scaled (Granite)
            _find_feed_forward(found, events[:-1], block_out, stream, out.tensor)
            return found
        if branch is not out:
            found.normed[name] = branch.module
        if middle.kind == "in" and middle.is_norm and before is None:
            found.norm_place = "post"
            found.sites[norms[name]] = middle = _output_of(rest, middle)
        found.sites[resid] = middle
        stream, at = middle.tensor, events.index(middle)
    _find_feed_forward(found, events[at:-1], block_out, stream, None)
    return found


def _find_feed_forward(found: BlockSites, events, block_out: Event, stream: Tensor, parallel: Tensor | None) -> None:
    """The second half: the block's end is stream + feed-forward out (+ attention out, where that runs beside it)."""
    norm = found.sites.get("norm1")
    before = _norm_reading([event for event in events if norm is None or event.module is not norm.module], stream)
    base = stream if parallel is None else stream + parallel
    givers = [event for event in events if event.kind == "out" and event.tensor.shape == stream.shape]
    branch = first_event(givers, lambda event: _equal(block_out.tensor - base, event.tensor, base))
    if branch is None:  # post-norm: the norm of the sum is the stream
        last = first_event(events, lambda event: event.is_norm and event.kind == "out" and _same(event, block_out))
        summed = last and first_event(events, lambda event: event.kind == "in" and event.module is last.module)
        branch = summed and first_event(givers, lambda event: _equal(summed.tensor - base, event.tensor, base))
        if branch is None:
            return
        found.sites["norm2"] = last
    elif before is not None:
        found.sites["norm2"] = before
    upto = events[: events.index(branch) + 1]
    linear = first_event(reversed(upto), lambda event: event.kind == "out" and _is_projection(event, stream))
    out = linear or branch
    found.sites["ffn.out"] = out
    if linear is not None:
        hidden = first_event(events, lambda event: event.kind == "in" and event.module is linear.module)
        found.sites["ffn.hidden"] = hidden
        shared = norm if parallel is not None and before is None else before  # one norm for both halves (Cohere)
        made = _products_of(upto, stream if shared is None else shared.tensor, hidden.tensor.shape[-1])
        found.gated = _is_gated(made, hidden.tensor.shape[-1])
        if found.gated is False:
            found.activation = _activation(made[0].tensor, hidden.tensor)


def _products_of(events: Sequence[Event], read: Tensor, width: int) -> list[Event]:
    """What matrices make of what the half reads, where it is as wide as its hidden numbers."""
    readers = [event for event in events if event.kind == "in" and event.is_linear and _holds_same(event.tensor, read)]
    made = [_output_of(events, reader) for reader in readers]
    return [event for event in made if event is not None and event.tensor.shape[-1] >= width]


def _is_gated(made: Sequence[Event], width: int) -> bool | None:
    """By these products: one of F numbers, or two (which may lie in one matrix)."""
    widths = tuple(event.tensor.shape[-1] for event in made)
    return {(width,): False, (width, width): True, (2 * width,): True}.get(widths)


def _activation(before: Tensor, hidden: Tensor) -> str | None:
    """Which of ours makes the hidden numbers of the product; None where none does."""
    known = {name: function for name, function in ACTIVATIONS.items() if name != "swiglu"}  # that is of two products
    return next((name for name, of in known.items() if torch.allclose(of(before), hidden, atol=1e-5)), None)


def _norm_reading(events, stream: Tensor) -> Event | None:
    """The output of a norm that reads the stream as it is."""
    read = first_event(events, lambda event: event.kind == "in" and event.is_norm and torch.equal(event.tensor, stream))
    return read and _output_of(events, read)


def _output_of(events, read: Event) -> Event | None:
    return first_event(events, lambda event: event.kind == "out" and event.module is read.module)


def _is_projection(event: Event, stream: Tensor) -> bool:
    return event.kind == "out" and event.is_linear and event.tensor.shape == stream.shape


def _branches(out: Event, events) -> list[Event]:
    """What a half may add to the stream: the projection itself, or what a norm makes of it (Gemma 2, OLMo 2)."""
    read = first_event(events, lambda event: event.kind == "in" and event.is_norm and _same(event, out))
    normed = read and _output_of(events, read)
    return [out] if normed is None else [out, normed]


def _sum_of(events, stream: Tensor, branches: Sequence[Event]) -> tuple[Event | None, Event | None]:
    """The first tensor that is stream + branch, and that branch."""
    for event in events:
        if event.tensor.shape == stream.shape:
            for branch in branches:
                if _equal(event.tensor - stream, branch.tensor, stream):
                    return event, branch
    return None, None


def _equal(difference: Tensor, branch: Tensor, stream: Tensor) -> bool:
    """Whether y − stream is the branch, up to the rounding of the sum; never where the branch is lost in it."""
    rounding = 8 * torch.finfo(stream.dtype).eps * stream.abs().max()
    largest = branch.abs().max()
    return bool(largest > 4 * rounding and (difference - branch).abs().max() <= rounding + 1e-5 * largest)


def _same(one: Event, other: Event) -> bool:
    return _equals(one.tensor, other.tensor)


def _equals(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


def _holds_same(one: Tensor, other: Tensor) -> bool:
    """The same numbers in the same order; OPT reads all tokens of a batch in one row."""
    return one.numel() == other.numel() and torch.equal(one.flatten(), other.flatten())


def install(name: str, event: Event, block: nn.Module | None = None) -> None:
    """Once, when the model is loaded: let the module of this event offer its tensor under a site's full name.

    What a module inside the block reads can be seen but not replaced there, for the stream goes past it; the input
    of the block itself, or what only this module reads, can.
    """
    key, replaceable = event.key, event.kind == "out" or event.module is block or name.endswith("ffn.hidden")
    if event.kind == "out":
        copies = event.is_overwritten
        event.module.register_forward_hook(lambda module, arguments, result: _offer_output(name, key, result, copies))
    else:
        event.module.register_forward_pre_hook(
            lambda module, arguments, options: _offer_input(name, key, arguments, options, replaceable),
            with_kwargs=True,
        )


def _offer_output(name: str, key: int, result, copies: bool):
    """copies: what the model overwrites later is offered as a copy, so that who captures it holds what it was."""
    is_one = not isinstance(result, tuple | list)
    given = result if is_one else result[key]
    offered = given.clone() if copies else given
    changed = site(name, offered)
    if changed is offered:
        return result
    if is_one:
        return changed
    return type(result)((*result[:key], changed, *result[key + 1 :]))


def _offer_input(name: str, key: int | str, arguments: tuple, options: dict, replaceable: bool):
    tensor = options[key] if isinstance(key, str) else arguments[key]
    changed = site(name, tensor)
    if changed is tensor:
        return arguments, options
    if not replaceable and torch.allclose(changed, tensor, rtol=0, atol=0, equal_nan=True):
        return arguments, options  # the edit only looked at it
    if not replaceable:
        raise EditError(
            f"'{name}' of this model can be captured, but not replaced, because the model's own code computes the "
            "sum. Edit what is added to it, or the stream at another place."
        )
    if isinstance(key, str):
        return arguments, options | {key: changed}
    return (*arguments[:key], changed, *arguments[key + 1 :]), options
