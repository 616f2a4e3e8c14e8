"""Blocks that a pass leaves out, because what they would write to the stream is known and put in its place."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass
class _Skipped:
    """The blocks by name; given: what the block before them gave back, in whatever form a model's code has for it."""

    blocks: frozenset[str]
    given: Any = None


_skipped: ContextVar[_Skipped | None] = ContextVar("viz_model.transformer.skipping", default=None)


@contextmanager
def skipping(blocks: Iterable[str]) -> Iterator[None]:
    """Within it, passes of this thread compute nothing in these blocks: what the block before gave is handed on."""
    token = _skipped.set(_Skipped(frozenset(blocks)))
    try:
        yield
    finally:
        _skipped.reset(token)


def is_skipped(block: str) -> bool:
    """Whether the running pass of this thread computes nothing in it."""
    running = _skipped.get()
    return running is not None and block in running.blocks


def skippable(name: str, block: Callable) -> Callable:
    """The forward of a block of a model's own code, which hands on what the block before gave where it is skipped."""

    def forward(*arguments, **options):
        running = _skipped.get()
        if running is None:
            return block(*arguments, **options)
        if name not in running.blocks:
            running.given = block(*arguments, **options)
        return running.given

    return forward
