"""Changes: what a model does to tensors of its own passes, at their hook sites, whoever runs it."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

from torch import Tensor

from viz_model.transformer.cache import KVCache
from viz_model.transformer.hooks import own_edits

Rows = Callable[[Tensor, int], Tensor]
Runner = TypeVar("Runner")


@dataclass(frozen=True, eq=False)
class Change:
    """What happens at a hook site in every pass.

    rows: from what stands there, (…,T,n), and how many tokens a cache held before the pass, to what shall stand there;
    it may write into what it is given. head: the head (axis 1) that it is of; None where the tensor has none. At a
    residual stream a change adds something, and nothing else. factor: where it multiplies all rows by a number, that;
    else None. is_of_pass: whether it puts one vector at every token,
    which it works out from all tokens of the pass; see `settled`.
    """

    site: str
    head: int | None
    rows: Rows
    factor: float | None = None
    is_of_pass: bool = False

    def __call__(self, tensor: Tensor, start: int = 0) -> Tensor:
        """The tensor of the site, (B,…), changed."""
        if self.head is None:
            return self.rows(tensor, start)
        tensor[:, self.head] = self.rows(tensor[:, self.head], start)
        return tensor


def with_changes(host: Runner, changes: Sequence[Change]) -> Runner:
    """The same model, modules and all, with these changes instead of its own."""
    host = copy.copy(host)
    host.changes = tuple(changes)
    return host


def changed(changes: Sequence[Change], site: str, rows: Tensor, head: int | None = None, start: int = 0) -> Tensor:
    """What changes make of rows (T,n) of a site, which they may write into. head: whose they are, where there are
    several. start: how many tokens were read before them."""
    for change in changes:
        if change.site == site and change.head == head:
            rows = change.rows(rows, start)
    return rows


def changed_heads(changes: Sequence[Change], site: str) -> list[int]:
    """The heads whose rows change at a site."""
    return sorted({change.head for change in changes if change.site == site})


def settled(host: Runner, run: Callable[[Runner], object]) -> list[Change]:
    """The changes of a host, where those that work a vector out from their pass put the one that they put in the pass
    which `run` makes."""
    if not any(change.is_of_pass for change in host.changes):
        return [*host.changes]
    vectors: dict[Change, Tensor] = {}

    def noting(change: Change) -> Change:
        def rows(tensor: Tensor, start: int) -> Tensor:
            tensor = change.rows(tensor, start)
            vectors[change] = tensor[0, 0].clone()  # (B,T,n) -> (n,)
            return tensor

        return Change(change.site, change.head, rows)

    run(with_changes(host, [noting(change) if change.is_of_pass else change for change in host.changes]))

    def fixed(change: Change) -> Change:
        vector = vectors[change]
        return Change(change.site, change.head, lambda rows, _: vector.expand_as(rows))

    return [fixed(change) if change.is_of_pass else change for change in host.changes]


def under_changes(hidden: Callable) -> Callable:
    """Let the `hidden` of a host run under the host's `changes`."""

    @wraps(hidden)
    def under(self: object, ids: Tensor, **choices) -> Tensor:
        if not self.changes:
            return hidden(self, ids, **choices)
        cache = choices.get("cache")
        start = cache.length if isinstance(cache, KVCache) else 0
        with own_edits(_by_site(self.changes, start)):
            return hidden(self, ids, **choices)

    return under


def _by_site(changes: Sequence[Change], start: int) -> dict[str, Callable[[Tensor], Tensor]]:
    of_site: dict[str, list[Change]] = {}
    for change in changes:
        of_site.setdefault(change.site, []).append(change)

    def function(several: list[Change]) -> Callable[[Tensor], Tensor]:
        def edited(tensor: Tensor) -> Tensor:
            for change in several:
                # The numbers of the encoder are of the whole source in every pass.
                tensor = change(tensor, 0 if change.site.startswith("encoder.") else start)
            return tensor

        return edited

    return {site: function(several) for site, several in of_site.items()}
