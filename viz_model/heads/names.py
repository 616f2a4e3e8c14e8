"""Names of heads: what a head does over a text in few words, and the names of all heads of an attention, as they are
kept.

A head is never named without the share of its attention that the name explains.
Symbols: L layers, H heads.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from viz_model.arguments import whole_number
from viz_model.errors import VizError
from viz_model.heads.patterns import PATTERNS

NAMED = 0.5  # a name explains at least this share of the attention
MIXED = "mixed"
LONGEST, DIGITS = 200, 5  # characters of a text that is kept, and decimals of a share


@dataclass(frozen=True)
class HeadName:
    """What a head does: at most two patterns, the share of its attention that they explain, and its interval.

    explaining: the patterns in words, such as "3 before and first token". low and high are NaN for few windows.
    """

    patterns: tuple[str, ...]
    explaining: str
    share: float
    low: float
    high: float

    @property
    def is_mixed(self) -> bool:
        """Whether no two patterns explain half of its attention."""
        return self.share < NAMED

    @property
    def words(self) -> str:
        """ "previous token", "3 before and first token", or "mixed"."""
        return MIXED if self.is_mixed else self.explaining

    def __str__(self) -> str:
        return f"{self.words} ({self.share:.1%})"


@dataclass(frozen=True)
class HeadNames:
    """The names of all heads of an attention, and what they were measured on.

    names (L,H). text: whose windows those were, such as "of fairy tales that were kept out of training".
    """

    text: str
    windows: int
    tokens: int
    names: tuple[tuple[HeadName, ...], ...]

    def name(self, layer: int, head: int) -> HeadName:
        """Raises VizError for a head that is not there."""
        layer = whole_number("The layer", layer, 0, len(self.names) - 1)
        return self.names[layer][whole_number("The head", head, 0, len(self.names[layer]) - 1)]

    def to_json(self) -> dict:
        """As `from_json` reads it."""
        return asdict(self) | {"names": [[_to_json(name) for name in of_layer] for of_layer in self.names]}

    @classmethod
    def from_json(cls, content: object, shape: tuple[int, int]):
        """Raises VizError for what are no names of so many layers and heads."""
        try:
            values = {name: content[name] for name in ("text", "windows", "tokens")}
            names = tuple(tuple(_from_json(name) for name in of_layer) for of_layer in content["names"])
        except (TypeError, KeyError, ValueError, RecursionError) as error:
            raise VizError(
                f"These are no names of heads ({type(error).__name__}: {error}). Work them out again."
            ) from None
        sizes = {len(of_layer) for of_layer in names}
        if (len(names), sizes) != (shape[0], {shape[1]}):
            raise VizError(f"These are no names of {shape[0]} × {shape[1]} heads. Work them out again.")
        if not _is_text(values["text"]) or not all(type(values[name]) is int for name in ("windows", "tokens")):
            raise VizError("These names of heads do not say of what text they are. Work them out again.")
        return cls(**values, names=names)


def _to_json(name: HeadName) -> dict:
    numbers = {end: getattr(name, end) for end in ("share", "low", "high")}
    rounded = {end: None if math.isnan(value) else round(value, DIGITS) for end, value in numbers.items()}
    return {"patterns": [*name.patterns], "explaining": name.explaining} | rounded


def _from_json(content: Mapping) -> HeadName:
    values = {field.name: content[field.name] for field in fields(HeadName)}
    ends = {end: math.nan if values[end] is None else float(values[end]) for end in ("low", "high")}
    values |= ends | {"patterns": tuple(values["patterns"]), "share": float(values["share"])}
    if not values["patterns"] or not set(values["patterns"]) <= PATTERNS.keys() or not _is_text(values["explaining"]):
        raise ValueError("no known patterns")
    if not all(0 <= share <= 1.001 for share in (values["share"], *ends.values()) if not math.isnan(share)):
        raise ValueError("a share that is none")
    return HeadName(**values)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST
