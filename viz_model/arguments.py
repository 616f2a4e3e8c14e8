"""What Python may hand to a public function: numbers that are numbers; else a sentence says what is wanted."""

import operator

from viz_model.errors import VizError


def whole_number(what: str, value: object, least: int | None = None) -> int:
    """The argument as an int; raises VizError where it is no whole number, or less than `least`."""
    try:
        number = operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        raise VizError(f"{what} must be a whole number, but it is of the type {type(value).__name__}.") from None
    if least is not None and number < least:
        raise VizError(f"{what} is {number}; choose at least {least}.")
    return number


def real_number(what: str, value: object) -> float:
    """The argument as a float; raises VizError where it is no number."""
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise VizError(f"{what} must be a number, but it is of the type {type(value).__name__}.") from None
