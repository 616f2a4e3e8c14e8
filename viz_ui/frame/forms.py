"""What a choice looks like in the address: its form reads it from there, writes it, and refuses what it cannot be.

A form knows three things of the values of one parameter: `read` makes one of the texts in an address, `write` makes
the text of one, and `fit` brings one into range that was possible before the prompt or the model became smaller. `read`
and `fit` raise ValueError for what no value can be made of.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Texts = Sequence[str]  # of a parameter in the address, which may stand there several times
Address = Mapping[str, Texts]


@dataclass(frozen=True)
class Form:
    """Of any value; each kind of value has a form of its own."""

    def read_from(self, address: Address, name: str) -> Any:
        """The value of the parameter `name` in an address."""
        if name not in address:
            raise ValueError(f"{name} is not in the address")
        return self.read(address[name])

    def read(self, texts: Texts) -> Any:
        raise NotImplementedError

    def write(self, value: Any) -> str | list[str]:
        return str(value)

    def fit(self, value: Any) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Whole(Form):
    """A whole number from `low` to `high`, in the digits 0 to 9."""

    low: int
    high: int

    def read(self, texts: Texts) -> int:
        if not re.fullmatch(r"-?[0-9]{1,15}", texts[-1]):
            raise ValueError(f"{texts[-1]!r} is no whole number")
        return _within(int(texts[-1]), self.low, self.high)

    def fit(self, value: Any) -> int:
        if type(value) is not int:
            raise ValueError(f"{value!r} is no whole number")
        return min(max(value, self.low), self.high)


@dataclass(frozen=True)
class Fraction(Form):
    """A number from `low` to `high`, such as 0.8; no "inf", no "1e9"."""

    low: float
    high: float

    def read(self, texts: Texts) -> float:
        if not re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,12})?", texts[-1]):
            raise ValueError(f"{texts[-1]!r} is no number")
        return _within(float(texts[-1]), self.low, self.high)

    def write(self, value: float) -> str:
        return f"{value:.12f}".rstrip("0").rstrip(".")

    def fit(self, value: Any) -> float:
        if type(value) not in (int, float) or value != value:
            raise ValueError(f"{value!r} is no number")
        return min(max(float(value), self.low), self.high)


@dataclass(frozen=True)
class Text(Form):
    """Any text; what is longer is cut, for a link may hold more than a box allows."""

    longest: int

    def read(self, texts: Texts) -> str:
        return texts[-1][: self.longest]

    def fit(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is no text")
        return value[: self.longest]


@dataclass(frozen=True)
class SomeTexts(Form):
    """Up to `most` texts, each as `Text`."""

    longest: int
    most: int

    def read(self, texts: Texts) -> list[str]:
        return self.fit([text for text in texts if text])

    def write(self, value: Sequence[str]) -> list[str]:
        return list(value)

    def fit(self, value: Any) -> list[str]:
        if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
            raise ValueError(f"{value!r} is no list of texts")
        return [text[: self.longest] for text in dict.fromkeys(value)][: self.most]


@dataclass(frozen=True)
class Switch(Form):
    """On or off."""

    def read(self, texts: Texts) -> bool:
        return {"true": True, "false": False}[_known(texts[-1].lower(), ("true", "false"))]

    def write(self, value: bool) -> str:
        return str(value).lower()

    def fit(self, value: Any) -> bool:
        return _known(value, (True, False))


@dataclass(frozen=True)
class OneOf(Form):
    """One of the options, by the words that stand on screen for it, by its own name, or as links of before called it.

    former: the words that such links have, and the options that they stand for.
    """

    options: tuple
    words: Callable[[Any], str] = str
    former: Mapping[str, Any] = field(default_factory=dict)

    def read(self, texts: Texts) -> Any:
        by_name = self.former | {str(option): option for option in self.options}
        by_name |= {self.words(option): option for option in self.options}
        return by_name[_known(texts[-1], by_name)]

    def write(self, value: Any) -> str:
        return self.words(value)

    def fit(self, value: Any) -> Any:
        return _known(value, self.options)


@dataclass(frozen=True)
class SomeOf(Form):
    """Any number of the options, in their order."""

    options: tuple
    words: Callable[[Any], str] = str

    def read(self, texts: Texts) -> list:
        one = OneOf(self.options, self.words)
        chosen = [one.read([text]) for text in texts if text]
        return [option for option in self.options if option in chosen]

    def write(self, value: Sequence) -> list[str]:
        return [self.words(option) for option in value]

    def fit(self, value: Any) -> list:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{value!r} is no choice of several")
        return [option for option in value if option in self.options]


@dataclass(frozen=True)
class PairOfNumbers(Form):
    """Two whole numbers that are one choice, "2.6": a head is a layer and a head, a cell a query and a key.

    former: the names of the two parameters that links of before have in its place. missing: what a half is that is not
    there: 0, for those links left a 0 out that nobody had typed; or None, where the second may be left open ("3.").
    """

    former: tuple[str, str]
    missing: int | None = 0

    def read_from(self, address: Address, name: str) -> tuple[int, int | None]:
        try:
            return super().read_from(address, name)
        except ValueError:
            halves = [self._half(address, former) for former in self.former]
            if halves == [None, None]:
                raise
            return halves[0] or 0, self.missing if halves[1] is None else halves[1]

    def _half(self, address: Address, former: str) -> int | None:
        try:
            return Whole(0, 999_999).read_from(address, former)
        except ValueError:
            return None

    def read(self, texts: Texts) -> tuple[int, int | None]:
        if not re.fullmatch(r"[0-9]{1,6}\.[0-9]{0,6}", texts[-1]):
            raise ValueError(f"{texts[-1]!r} is no pair of numbers")
        first, second = texts[-1].split(".")
        return self.fit((int(first), int(second) if second else None))

    def write(self, value: tuple[int, int | None]) -> str:
        return f"{value[0]}.{'' if value[1] is None else value[1]}"

    def fit(self, value: Any) -> tuple[int, int | None]:
        match value:
            case (int(first), int(second)) if first >= 0 and second >= 0:
                return first, second
            case (int(first), None) if first >= 0 and self.missing is None:
                return first, None
        raise ValueError(f"{value!r} is no pair of numbers")


def _within(number, low, high):
    if not low <= number <= high:
        raise ValueError(f"{number} is not from {low} to {high}")
    return number


def _known(value, options):
    if value not in options:
        raise ValueError(f"{value!r} is none of the options")
    return value
