"""Written dates in many forms, and what they are in ISO 8601: what tiny-seq2seq learns to translate.

Every form can be read in one way only: dots put the day first, strokes say whose habit they follow, and a year of
two digits is the one that POSIX means by it (69 to 99 are 19.., 00 to 68 are 20..).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache

import numpy as np

from viz_model.training.data import IGNORED

MONTHS = ("January", "February", "March", "April", "May", "June", "July")
MONTHS += ("August", "September", "October", "November", "December")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
ROMAN = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh")
ORDINALS += ("twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth")
ORDINALS += ("nineteenth", "twentieth", *(f"twenty-{word}" for word in ORDINALS[:9]), "thirtieth", "thirty-first")

FORMS = (
    "the {nth} of {month} {year}",
    "the {ordinal} of {month} {year}",
    "{nth} {month} {year}",
    "{d} {month} {year}",
    "{d} {mon} {year}",
    "{month} {d}, {year}",
    "{month} {nth}, '{yy}",
    "{mon} {d}, {year}",
    "{weekday}, {d} {month} {year}",
    "{weekday}, {month} {d}, {year}",
    "{wday} {dd} {mon} {year}",
    "{year} {month} {d}",
    "{year}/{mm}/{dd}",
    "{year}{mm}{dd}",
    "{dd}-{mon}-{year}",
    "{d}.{m}.{year}",
    "{dd}.{mm}.{yy}",
    "{d}. {roman}. {year}",
    "{m}/{d}/{year} (US)",
    "{m}/{d}/{yy} (US)",
    "{d}/{m}/{year} (UK)",
    "{dd}/{mm}/{yy} (UK)",
)

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
TWO_DIGITS_FROM, TWO_DIGITS_TO = 1969, 2068  # the years that POSIX reads from two digits
HELD_OUT_SHARE, SPLIT_SEED = 0.05, 2017

FIELDS = {"year": ("year", "yy"), "month": ("month", "mon", "mm", "m", "roman"), "day": ("nth", "ordinal", "dd", "d")}
FIELD_OF_DIGIT = {
    place: field for field, places in (("year", range(4)), ("month", (5, 6)), ("day", (8, 9))) for place in places
}
CASES = ((0.8, str), (0.1, str.lower), (0.1, str.upper))  # how often a date is written as it is, small, or in capitals


@dataclass(frozen=True)
class Written:
    """A written date, and where in its text the letters of year, month and day stand."""

    text: str
    letters: dict[str, slice]


def written(form: str, day: date) -> Written:
    """A date in a form of `FORMS`."""
    words = _words(day)
    text, letters = "", {}
    for before, name in re.findall(r"([^{]*)(?:\{(\w+)\})?", form):
        text += before
        if name:
            letters |= {
                field: slice(len(text), len(text) + len(words[name])) for field in FIELDS if name in FIELDS[field]
            }
            text += words[name]
    return Written(text, letters)


def forms_of(day: date) -> tuple[str, ...]:
    """The forms that this date can be written in and read back from."""
    two_digits = TWO_DIGITS_FROM <= day.year <= TWO_DIGITS_TO
    return tuple(form for form in FORMS if two_digits or "{yy}" not in form)


def in_turn(days: Sequence[date]) -> list[tuple[date, Written]]:
    """Every day once, in one of its forms."""
    forms = [forms_of(day) for day in days]
    return [(day, written(its[n % len(its)], day)) for n, (day, its) in enumerate(zip(days, forms, strict=True))]


@cache
def split_days() -> tuple[tuple[date, ...], tuple[date, ...]]:
    """All days, in training and held out: a held-out day is in training in no form at all."""
    every = [FIRST + timedelta(days) for days in range((LAST - FIRST).days + 1)]
    held_out = np.random.default_rng(SPLIT_SEED).random(len(every)) < HELD_OUT_SHARE
    return tuple(day for day, out in zip(every, held_out, strict=True) if not out), tuple(
        day for day, out in zip(every, held_out, strict=True) if out
    )


@dataclass(frozen=True)
class Pairs:
    """source (B,S) and its padding (B,S), True behind the text; ids (B,T) that the decoder reads, targets (B,T)."""

    source: np.ndarray
    padding: np.ndarray
    ids: np.ndarray
    targets: np.ndarray


def date_batch(rows: int, end_of_text: int, random: np.random.Generator) -> Pairs:
    """Random training days in random forms, with their translations."""
    days = split_days()[0]
    pairs = []
    for index in random.integers(0, len(days), rows):
        form = str(random.choice(forms_of(days[index])))
        case = CASES[random.choice(len(CASES), p=[share for share, _ in CASES])][1]
        pairs.append((case(written(form, days[index]).text), days[index].isoformat()))
    return pairs_of_texts(pairs, end_of_text)


def pairs_of_texts(pairs: list[tuple[str, str]], end_of_text: int) -> Pairs:
    """Texts and their translations as bytes.

    The decoder reads the translation behind the end-of-text token, and is to say it with that token at its end.
    """
    sources = [list(text.encode()) for text, _ in pairs]
    source, padding = _padded(sources, end_of_text)
    ids, behind = _padded([[end_of_text, *translation.encode()] for _, translation in pairs], end_of_text)
    targets, _ = _padded([[*translation.encode(), end_of_text] for _, translation in pairs], end_of_text)
    return Pairs(source, padding, ids, np.where(behind, IGNORED, targets))


def _padded(rows: list[list[int]], filler: int) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(row) for row in rows])
    padding = np.arange(lengths.max()) >= lengths[:, None]
    ids = np.full(padding.shape, filler, dtype=np.int64)
    ids[~padding] = np.concatenate(rows)
    return ids, padding


def _words(day: date) -> dict[str, str]:
    """What a form may say of a date."""
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    return {
        "year": str(day.year),
        "yy": f"{day.year % 100:02}",
        "month": month,
        "mon": month[:3],
        "mm": f"{day.month:02}",
        "m": str(day.month),
        "roman": ROMAN[day.month - 1],
        "dd": f"{day.day:02}",
        "d": str(day.day),
        "nth": f"{day.day}{_ending(day.day)}",
        "ordinal": ORDINALS[day.day - 1],
        "weekday": weekday,
        "wday": weekday[:3],
    }


def _ending(number: int) -> str:
    return "th" if 10 < number < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
