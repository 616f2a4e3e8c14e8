"""What Python may hand to a public function: of the type and shape that is wanted; else a sentence says what is."""

import operator
from typing import TypeVar

import torch
from torch import Tensor

from viz_model.errors import VizError

Kind = TypeVar("Kind")

LARGEST = 2**63 - 1  # what torch, and whoever counts bytes, has room for

# Kinds of numbers in a tensor, by what a sentence calls them.
BOOLEANS, WHOLE, REAL = "booleans", "whole numbers", "floating-point numbers"
DTYPES = {
    BOOLEANS: {torch.bool},
    WHOLE: {torch.int32, torch.int64},
    REAL: {torch.float16, torch.bfloat16, torch.float32, torch.float64},
}


def whole_number(
    what: str, value: object, least: int = -LARGEST, most: int = LARGEST, error: type[VizError] = VizError
) -> int:
    """The argument as an int; raises VizError where it is no whole number, less than `least` or more than `most`."""
    try:
        number = operator.index(value)
    except Exception:  # each library has its own word for a thing that is no number
        raise error(f"{what} must be a whole number, but it is of the type {type(value).__name__}.") from None
    if not -LARGEST <= number <= LARGEST:
        raise error(f"{what} is a number of more than 63 bits. Choose a smaller one.")
    if number < least:
        raise error(f"{what} is {number}; choose at least {least}.")
    if number > most:
        raise error(f"{what} is {number}; choose at most {most}.")
    return number


def real_number(what: str, value: object) -> float:
    """The argument as a float; raises VizError where it is no number."""
    try:
        if isinstance(value, str | bytes | bytearray):
            raise TypeError
        return float(value)
    except Exception:  # as above
        raise VizError(f"{what} must be a number, but it is of the type {type(value).__name__}.") from None


def of_type(what: str, value: object, kind: type[Kind], wanted: str, error: type[VizError] = VizError) -> Kind:
    """The argument, of that type; else raises VizError: it must be `wanted`."""
    if not isinstance(value, kind):
        raise error(f"{what} must be {wanted}, but it is of the type {type(value).__name__}.")
    return value


def text(what: str, value: object, error: type[VizError] = VizError) -> str:
    return of_type(what, value, str, "a text", error)


def switch(what: str, value: object) -> bool:
    return of_type(what, value, bool, "True or False")


def tensor(
    what: str,
    value: object,
    kind: str,
    axes: str,
    sizes: tuple[int | None, ...],
    device: torch.device | None = None,
    error: type[VizError] = VizError,
) -> Tensor:
    """The argument as a plain tensor of that kind and shape, on that device; else raises VizError.

    axes: the shape as a sentence calls it, such as "(B,T)". sizes: the shape; of None any, but at least 1.
    """
    if not isinstance(value, Tensor):  # written out, for this stands in the way of every pass
        of_type(what, value, Tensor, f"a tensor of {kind} of shape {axes}", error)
    if value.dtype not in DTYPES[kind] or not _fits(value.shape, sizes):
        known = ", ".join("any" if size is None else str(size) for size in sizes)
        raise error(
            f"{what} must be a tensor of {kind} of shape {axes}, here ({known}), but it is one of {value.dtype} of "
            f"shape {tuple(value.shape)}."
        )
    return dense(what, value, device, error)


def _fits(shape: torch.Size, sizes: tuple[int | None, ...]) -> bool:
    if len(shape) != len(sizes):
        return False
    for found, size in zip(shape, sizes, strict=True):
        if found != size and (size is not None or not found):
            return False
    return True


def dense(what: str, value: Tensor, device: torch.device | None = None, error: type[VizError] = VizError) -> Tensor:
    """The tensor, whose numbers all lie in the memory of that device; else raises VizError."""
    if value.layout != torch.strided or value.is_meta or (device is not None and value.device != device):
        raise error(f"{what} must be a plain tensor where the model is, but it is {value.layout} on {value.device}.")
    return value


def said(value: object) -> str:
    """A value in a few letters, whatever it is; of what has no such, its type."""
    try:
        return repr(value[:40] if isinstance(value, str) else value)[:60]
    except Exception:  # a number of thousands of digits, an object that answers nothing
        return f"something of the type {type(value).__name__}"
