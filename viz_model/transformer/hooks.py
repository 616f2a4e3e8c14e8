"""Hook sites: where the tensors of a pass can be read and replaced.

A site is a call, `x = site("blocks.2.attn.weights", x)`, in the code that made the tensor. It asks a
ContextVar whether somebody watches. Nothing is ever registered on a model, so that threads which share
one model cannot see each other's passes.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import lru_cache

import torch
from torch import Tensor

from viz_model.arguments import of_type
from viz_model.errors import EditError, SiteError

Edit = Callable[[Tensor], Tensor]


@dataclass
class _Watch:
    """Patterns over site names, and the names that were met while it was active."""

    patterns: tuple[str, ...]
    optional: tuple[str, ...] = ()
    if_made: tuple[str, ...] = ()
    met: set[str] = field(default_factory=set)

    def __post_init__(self):
        strange = [pattern for pattern in self._all if not isinstance(pattern, str)]
        if strange:
            raise SiteError(
                "A hook site is named by a text such as 'blocks.0.attn.q', not by something of the type "
                f"{type(strange[0]).__name__}."
            )
        self._match: dict[str, tuple[str, ...]] = {}

    @property
    def _all(self) -> tuple[str, ...]:
        return (*self.patterns, *self.optional, *self.if_made)

    def matching(self, name: str) -> tuple[str, ...]:
        """The patterns that fit this name (looked up once for each name)."""
        if name not in self._match:
            self.met.add(name)
            self._match[name] = _fitting(self._all, name)
        return self._match[name]

    def asks_for(self, name: str) -> bool:
        """Whether the code must pass through that site: not if the patterns that fit take only what is made anyway."""
        return any(pattern not in self.if_made for pattern in self.matching(name))

    def refuse_unmatched(self) -> None:
        """Raise SiteError for a pattern that fitted nothing: a typing error must not look like "no data"."""
        if self.patterns and not self.met:
            raise SiteError(f"No pass ran while '{self.patterns[0]}' was watched: there is nothing to see.")
        matched = {pattern for patterns in self._match.values() for pattern in patterns}
        for pattern in self.patterns:
            if pattern not in matched:
                near = difflib.get_close_matches(pattern, sorted(self.met), n=4, cutoff=0.0)
                raise SiteError(f"There is no hook site '{pattern}' in this pass. Near names: {', '.join(near)}.")


@lru_cache(maxsize=1 << 14)  # the names of a model, which are the same in each of its passes
def _fitting(patterns: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The patterns that fit a name."""
    return tuple(pattern for pattern in patterns if _regex(pattern).match(name))


@lru_cache(maxsize=1 << 12)
def _regex(pattern: str) -> re.Pattern:
    return re.compile(translate(pattern))


@dataclass(frozen=True)
class _Active:
    captures: tuple[tuple[_Watch, dict[str, Tensor]], ...] = ()
    edits: tuple[tuple[_Watch, Mapping[str, Edit]], ...] = ()
    followers: tuple[Callable[[str], None], ...] = ()


_active: ContextVar[_Active | None] = ContextVar("viz_model.transformer.hooks", default=None)


def site(name: str, tensor: Tensor) -> Tensor:
    """Offer `tensor` under its full `name`; gives it back, or what an edit made of it.

    Without a capture or an edit this costs one look-up. Edits come first (outermost first), so a capture
    always holds what the rest of the pass went on with.
    """
    active = _active.get()
    if active is None:
        return tensor
    of_type("The name of a hook site", name, str, "a text", SiteError)
    of_type("What stands at a hook site", tensor, Tensor, "a tensor", SiteError)
    for told in active.followers:
        told(name)
    for watch, functions in active.edits:
        for pattern in watch.matching(name):
            tensor = _edited(name, tensor, functions[pattern])
    for watch, found in active.captures:
        if watch.matching(name):
            if name in found:
                raise SiteError(f"The site '{name}' was visited twice: use one capture for each pass.")
            found[name] = as_seen(tensor.detach())
    return tensor


def _edited(name: str, tensor: Tensor, function: Edit) -> Tensor:
    # A copy: the same numbers may stand under an earlier site, or (the mask) in every layer.
    there, tensor = tensor, as_seen(tensor)
    result = function(tensor.clone())
    if not isinstance(result, Tensor):
        raise EditError(f"An edit of '{name}' must give back a tensor, but it gave {type(result).__name__}.")
    if result.shape != tensor.shape or result.dtype != tensor.dtype:
        raise EditError(
            f"An edit of '{name}' must give back a {tensor.dtype} tensor of shape {tuple(tensor.shape)}, "
            f"but it gave a {result.dtype} tensor of shape {tuple(result.shape)}."
        )
    return result.to(there)


def as_seen(tensor: Tensor) -> Tensor:
    """A tensor as whoever looks on has it, wherever and in whatever half precision a model computes: on the CPU, and
    with no less than float32."""
    is_half = tensor.dtype in (torch.bfloat16, torch.float16)
    return tensor.to("cpu", torch.float32 if is_half else tensor.dtype)


def wanted(*names: str) -> bool:
    """Whether a capture or an edit asks for any of these sites: then the code must pass through them."""
    active = _active.get()
    if active is None:
        return False
    watches = [watch for watch, _ in (*active.captures, *active.edits)]
    return any(watch.asks_for(name) for watch in watches for name in names)


@contextmanager
def capture(*patterns: str, optional: Sequence[str] = (), if_made: Sequence[str] = ()) -> Iterator[dict[str, Tensor]]:
    """Hold the tensors of one pass: `with capture("blocks.*.attn.q") as found: model(ids)`.

    Patterns are shell patterns over full site names; the optional ones may fit nothing. Those of
    if_made may, too, and are no reason to compute what the pass can do without (`wanted`). `found` maps names to the
    tensors themselves, with their batch dimension, detached and not copied: no code changes a tensor in place after
    its site.
    Captures nest and are local to the thread (and asyncio task).

    Raises SiteError when a pattern fits no site of the pass (it names near ones), or when a second pass
    runs within the same capture.
    """
    of_type("The optional patterns", optional, list | tuple, "a list of texts", SiteError)
    of_type("The patterns of what is made", if_made, list | tuple, "a list of texts", SiteError)
    watch, found = _Watch(patterns, tuple(optional), tuple(if_made)), {}
    active = _active.get() or _Active()
    token = _active.set(replace(active, captures=(*active.captures, (watch, found))))
    try:
        yield found
    finally:
        _active.reset(token)
    watch.refuse_unmatched()


@contextmanager
def edit(functions: Mapping[str, Edit]) -> Iterator[None]:
    """Replace tensors at their sites: `with edit({"blocks.2.attn.weights": fn}): model(ids)`.

    Each function gets a copy of the tensor, which it may change, and gives back a tensor of the same shape
    and dtype.

    Raises SiteError when a pattern fits no site of the pass, EditError when a result does not fit.
    """
    if not isinstance(functions, Mapping) or not all(map(callable, functions.values())):
        raise EditError("Edits are functions by the names of their hook sites, such as {'blocks.0.attn.q': fn}.")
    watch = _Watch(tuple(functions))
    active = _active.get() or _Active()
    token = _active.set(replace(active, edits=(*active.edits, (watch, functions))))
    try:
        yield
    finally:
        _active.reset(token)
    watch.refuse_unmatched()


@contextmanager
def own_edits(functions: Mapping[str, Edit]) -> Iterator[None]:
    """Edits that belong to the model that runs: they come before those of whoever looks on, and may meet no site."""
    watch = _Watch((), tuple(functions))
    active = _active.get() or _Active()
    token = _active.set(replace(active, edits=((watch, functions), *active.edits)))
    try:
        yield
    finally:
        _active.reset(token)


@contextmanager
def follow(told: Callable[[str], None]) -> Iterator[None]:
    """Tell the name of each site that a pass comes to: how far it is. What `told` raises ends the pass there."""
    active = _active.get() or _Active()
    token = _active.set(replace(active, followers=(*active.followers, told)))
    try:
        yield
    finally:
        _active.reset(token)


@contextmanager
def unwatched() -> Iterator[None]:
    """Within it, passes are nobody's: no capture holds them, no edit changes them and nobody follows them."""
    token = _active.set(None)
    try:
        yield
    finally:
        _active.reset(token)
