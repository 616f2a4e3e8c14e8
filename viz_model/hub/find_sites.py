"""Where the residual stream, norms and feed-forward tensors of any model are: found by the equations they fulfil.

A block adds to its stream what attention and feed-forward give. So after the first pass, of which every module's
tensors were recorded, the stream after attention is that tensor which equals stream + attention out, number by
number, and so on. What does not fulfil its equation gets no site: it is left out, never guessed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn

from viz_model.errors import EditError
from viz_model.hub.recording import Event, first_event
from viz_model.transformer.hooks import site

_batch: ContextVar[int] = ContextVar("viz_model.hub.find_sites", default=1)


@dataclass
class BlockSites:
    """Of one block: the events of its sites by local name, and where its norms stand ("pre", "post" or None).

    scaled: attentions of which the stream gets a multiple of what they write (Granite), and the factor.
    read: what the feed-forward half reads. products: what its matrices first make of it: one or two tensors of F
    numbers.
    """

    sites: dict[str, Event] = field(default_factory=dict)
    norm_place: str | None = None
    scaled: dict[str, float] = field(default_factory=dict)
    read: Tensor | None = None
    products: list[Tensor] = field(default_factory=list)


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
        middle, added = _sum_of(rest, stream, _branches(out, rest))
        found.norm_place = "pre" if before is not None else None
        if middle is None:  # both halves read the same stream (GPT-J)
            _find_feed_forward(found, events[:-1], block_out, stream, out.tensor)
            return found
        if not torch.allclose(middle.tensor, stream + added.tensor, atol=1e-4 * stream.abs().max().item()):
            found.scaled[name] = _factor(middle.tensor - stream, added.tensor)
        if middle.kind == "in" and middle.is_norm and before is None and not _goes_on(rest, middle, block_out):
            found.norm_place = "post"
            found.sites[norms[name]] = middle = _output_of(rest, middle)
        if added is not out:
            found.sites[f"{name}.out_norm"] = added
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

    def added_to(end: Tensor) -> Event | None:
        return first_event(reversed(givers), lambda event: _is_added(end - base, event.tensor, base))

    branch = added_to(block_out.tensor)
    if branch is None:  # post-norm: the norm of the sum is the stream
        last = first_event(events, lambda event: event.is_norm and event.kind == "out" and _same(event, block_out))
        summed = last and first_event(events, lambda event: event.kind == "in" and event.module is last.module)
        branch = summed and added_to(summed.tensor)
        if branch is None:
            return
        found.sites["norm2"] = last
    elif before is not None:
        found.sites["norm2"] = before
    upto = events[: events.index(branch) + 1]
    out = branch
    if branch.is_norm:  # what it reads is what the half gives (Gemma 2)
        read = first_event(upto, lambda event: event.kind == "in" and event.module is branch.module)
        out = first_event(reversed(givers), lambda event: event in upto and _same(event, read))
        if out is None:
            return
        found.sites["ffn.out_norm"] = branch
    linear = first_event(upto, lambda event: _is_projection(event, stream) and _same(event, out))
    found.sites["ffn.out"] = linear or out
    shared = norm if parallel is not None and before is None else before  # one norm for both halves (Cohere)
    found.read = stream if shared is None else shared.tensor
    if linear is not None:
        hidden = first_event(events, lambda event: event.kind == "in" and event.module is linear.module)
        found.sites["ffn.hidden"] = hidden
        found.products = _products(upto, found.read, hidden.tensor.shape[-1])


def _products(events: Sequence[Event], read: Tensor, width: int) -> list[Tensor]:
    """Those of F numbers that read what the half reads: one, or two, which may lie in one matrix."""
    readers = [event for event in events if event.kind == "in" and event.is_linear and _holds_same(event.tensor, read)]
    made = [event.tensor for event in (_output_of(events, reader) for reader in readers) if event is not None]
    both = [half for tensor in made if tensor.shape[-1] == 2 * width for half in tensor.chunk(2, -1)]
    return [tensor for tensor in made if tensor.shape[-1] == width] + both


def _norm_reading(events, stream: Tensor) -> Event | None:
    """The output of a norm that reads the stream as it is."""
    read = first_event(events, lambda event: event.kind == "in" and event.is_norm and torch.equal(event.tensor, stream))
    return read and _output_of(events, read)


def _output_of(events, read: Event) -> Event | None:
    return first_event(events, lambda event: event.kind == "out" and event.module is read.module)


def _is_projection(event: Event, stream: Tensor) -> bool:
    return event.kind == "out" and event.is_linear and event.tensor.shape == stream.shape


def _goes_on(events, stream: Event, block_out: Event) -> bool:
    """Whether the block ends with a sum of this very stream: then its norm is of the half that follows. (The first
    block of ModernBERT has none before its attention.)"""
    givers = (event for event in events if event.kind == "out" and event.tensor.shape == stream.tensor.shape)
    return any(_is_added(block_out.tensor - stream.tensor, event.tensor, stream.tensor) for event in givers)


def _branches(out: Event, events) -> list[Event]:
    """What a half may add to the stream: the projection itself, or what a norm makes of it (Gemma 2, OLMo 2)."""
    read = first_event(events, lambda event: event.kind == "in" and event.is_norm and _same(event, out))
    normed = read and _output_of(events, read)
    return [out] if normed is None else [out, normed]


def _sum_of(events, stream: Tensor, branches: Sequence[Event]) -> tuple[Event | None, Event | None]:
    """The first tensor that is stream + branch, or a multiple of the branch (Granite), and that branch."""
    for event in events:
        if event.tensor.shape == stream.shape:
            for branch in branches:
                if _is_added(event.tensor - stream, branch.tensor, stream):
                    return event, branch
    return None, None


def _is_added(difference: Tensor, branch: Tensor, stream: Tensor) -> bool:
    """Whether y − stream is the branch, or a multiple of it, up to the rounding of the sum; never where the branch is
    lost in it."""
    rounding = 8 * torch.finfo(stream.dtype).eps * stream.abs().max()
    branch = _factor(difference, branch) * branch
    largest = branch.abs().max()
    return bool(largest > 4 * rounding and (difference - branch).abs().max() <= rounding + 1e-5 * largest)


def _factor(multiple: Tensor, branch: Tensor) -> float:
    """What a branch is multiplied with to come nearest."""
    multiple, branch = multiple.double(), branch.double()
    return ((multiple * branch).sum() / branch.square().sum().clamp(min=torch.finfo(torch.float64).tiny)).item()


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

    def offered(tensor: Tensor) -> Tensor:
        if not event.flat:
            return site(name, tensor)
        rows = tensor.unflatten(0, (batch_of_pass(), -1))  # (B·T,…) -> (B,T,…)
        changed = site(name, rows)
        return tensor if changed is rows else changed.flatten(0, 1)

    if event.kind == "out":
        copies = event.is_overwritten
        event.module.register_forward_hook(
            lambda module, arguments, result: _offer_output(offered, key, result, copies)
        )
    else:
        event.module.register_forward_pre_hook(
            lambda module, arguments, options: _offer_input(name, offered, key, arguments, options, replaceable),
            with_kwargs=True,
        )


def batch_of_pass() -> int:
    """How many texts the running pass of this thread reads at once."""
    return _batch.get()


@contextmanager
def of_batch(size: int) -> Iterator[None]:
    """Within it, the passes of this thread read so many texts at once."""
    token = _batch.set(size)
    try:
        yield
    finally:
        _batch.reset(token)


def _offer_output(offered: Callable[[Tensor], Tensor], key: int, result, copies: bool):
    """copies: what the model overwrites later is offered as a copy, so that who captures it holds what it was."""
    is_one = not isinstance(result, tuple | list)
    given = result if is_one else result[key]
    shown = given.clone() if copies else given
    changed = offered(shown)
    if changed is shown:
        return result
    if is_one:
        return changed
    return type(result)((*result[:key], changed, *result[key + 1 :]))


def _offer_input(
    name: str, offered: Callable[[Tensor], Tensor], key: int | str, arguments: tuple, options: dict, replaceable: bool
):
    tensor = options[key] if isinstance(key, str) else arguments[key]
    changed = offered(tensor)
    if changed is tensor:
        return arguments, options
    if not replaceable:
        refuse_change(name, tensor, changed)
        return arguments, options
    if isinstance(key, str):
        return arguments, options | {key: changed}
    return (*arguments[:key], changed, *arguments[key + 1 :]), options


def refuse_change(name: str, tensor: Tensor, changed: Tensor) -> None:
    """Raises EditError where an edit did more than look at a tensor that cannot be replaced."""
    if changed is not tensor and not torch.allclose(changed, tensor, rtol=0, atol=0, equal_nan=True):
        raise EditError(
            f"'{name}' of this model can be captured, but not replaced, because the model's own code computes the "
            "sum. Edit what is added to it, or the stream at another place."
        )
