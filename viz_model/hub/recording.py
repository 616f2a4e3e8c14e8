"""What the modules of a model read and gave in its first pass: the evidence by which their hook sites are found."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

EXACT = 1e-4  # how far apart two numbers may be that are taken for the same one, of a pass in float32


@dataclass(frozen=True, eq=False)
class Event:
    """A tensor that a module read ("in", under `key`: a place among its arguments, or a name) or gave ("out").

    tensor: a copy of it as it was then; itself: the very tensor, which later code may have changed in place.
    flat: whether the module has all tokens of a batch in one row (OPT's feed-forward half); here it is (1,T,…) too.
    """

    module: nn.Module
    name: str
    kind: str
    key: int | str
    tensor: Tensor
    itself: Tensor
    flat: bool = False

    @property
    def is_overwritten(self) -> bool:
        """Whether it was changed in place later in the pass (Falcon adds attention to what its feed-forward gave)."""
        return not torch.equal(self.tensor, self.itself)

    @property
    def tokens(self) -> int:
        """How many tokens it is of: T of (…,T,C)."""
        return self.tensor.shape[-2] if self.tensor.dim() > 1 else 0

    @property
    def is_leaf(self) -> bool:
        return next(self.module.children(), None) is None

    @property
    def is_norm(self) -> bool:
        return self.is_leaf and "norm" in type(self.module).__name__.lower()

    @property
    def is_linear(self) -> bool:
        weight = dict(self.module.named_parameters(recurse=False)).get("weight")
        return self.is_leaf and weight is not None and weight.dim() == 2

    @property
    def is_product(self) -> bool:
        """Whether it is what a matrix product gave, not a row that was looked up."""
        return self.kind == "out" and self.is_linear and not isinstance(self.module, nn.Embedding)


def first_event(events: Iterable[Event], fits: Callable[[Event], bool]) -> Event | None:
    """The first that fits, or None."""
    return next((event for event in events if fits(event)), None)


def entered_by(events: Sequence[Event], given: Event) -> Event:
    """What a module read when it gave this; it may be called more than once (Llama 4 has one norm for both)."""
    before = events[: events.index(given)]
    return first_event(reversed(before), lambda event: event.kind == "in" and event.module is given.module)


def holds_same(made: Tensor, entered: Tensor) -> bool:
    """Whether both are the same numbers, heads put apart (B,T,H·D) -> (B,T,H,D) or (B,H,T,D), or not."""
    if made.numel() != entered.numel():
        return False
    shapes = (entered, entered.transpose(1, 2)) if entered.dim() == 4 else (entered,)
    return any(torch.equal(made, one.reshape(made.shape)) for one in shapes)


def has_bias(module: nn.Module) -> bool:
    """Whether a bias was learned in this very module."""
    return "bias" in dict(module.named_parameters(recurse=False))


@contextmanager
def recording(model: nn.Module) -> Iterator[list[Event]]:
    """Every event within it, in the order of the pass; the first tensor of floating-point numbers of each."""
    events: list[Event] = []
    handles = []
    for name, module in model.named_modules():

        def before(module, arguments, options, name=name):
            if found := first_tensor(arguments, options):
                events.append(_event(module, name, "in", *found))

        def after(module, arguments, result, name=name):
            given = result if isinstance(result, tuple | list) else (result,)
            if found := first_tensor(given, {}):
                events.append(_event(module, name, "out", *found))

        handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        handles.append(module.register_forward_hook(after))
    try:
        yield events
    finally:
        for handle in handles:
            handle.remove()


def first_tensor(arguments, options) -> tuple[int | str, Tensor] | None:
    """The first tensor of floating-point numbers among arguments, and where it stands."""
    for key, value in (*enumerate(arguments), *options.items()):
        if isinstance(value, Tensor) and value.is_floating_point():
            return key, value
    return None


def _event(module: nn.Module, name: str, kind: str, key: int | str, tensor: Tensor) -> Event:
    flat = tensor.dim() == 2  # the first pass has one text
    itself = tensor[None] if flat else tensor
    return Event(module, name, kind, key, itself.clone(), itself, flat)
