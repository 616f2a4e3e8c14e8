"""Written dates read back by `datetime`, and the split: no held-out day in training in any form."""

import calendar
import re
from datetime import date, datetime, timedelta

import numpy as np
import pytest

from viz_model.training.data import IGNORED
from viz_model.training.dates import (
    FIELD_OF_DIGIT,
    FORMS,
    HELD_OUT_SHARE,
    date_batch,
    forms_of,
    pairs_of_texts,
    split_days,
    written,
)

END = 256
NAMES = {"year": "%Y", "yy": "%y", "month": "%B", "mon": "%b", "mm": "%m", "m": "%m", "dd": "%d", "d": "%d"}
NAMES |= {"weekday": "%A", "wday": "%a", "nth": "%d", "ordinal": "%d", "roman": "%m"}
ONES = ["", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"]


def everyday(step=1, first=date(1900, 1, 1), last=date(2099, 12, 31)):
    return [first + timedelta(n) for n in range(0, (last - first).days + 1, step)]


def in_digits(form, text):
    """Roman months, numbers with endings and numbers in words as digits."""
    if "{roman}" in form:
        numbers = [{"I": 1, "V": 5, "X": 10}[letter] for letter in re.search(r"[IVX]+", text)[0]]
        value = sum(-n if n < max(numbers[i:]) else n for i, n in enumerate(numbers))
        return re.sub(r"[IVX]+", str(value), text)
    if "{ordinal}" in form:
        word = text.split()[1]
        tens, _, ones = word.rpartition("-")
        teens = ["tenth", "eleventh", "twelfth", *(f"{stem}teenth" for stem in ("thir", "four", "fif", "six"))]
        teens += [f"{stem}teenth" for stem in ("seven", "eigh", "nine")]
        values = {name: n for n, name in enumerate(ONES)} | {name: 10 + n for n, name in enumerate(teens)}
        values |= {"twentieth": 20, "thirtieth": 30}
        return text.replace(word, str({"": 0, "twenty": 20, "thirty": 30}[tens] + values[ones]))
    return re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", text)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read_back_by_datetime(form):
    pattern = re.sub(r"\{(\w+)\}", lambda name: NAMES[name[1]], form)
    two_digits = 0
    for day in everyday(97):
        if form not in forms_of(day):
            two_digits += 1
            continue
        text = written(form, day).text
        assert datetime.strptime(in_digits(form, text), pattern).date() == day, text
        if "weekday" in form or "wday" in form:
            assert text.startswith(calendar.day_name[day.weekday()][:3]), text
    assert bool(two_digits) == ("{yy}" in form)  # such years are 1969 to 2068, which strptime's %y reads


def test_endings_of_numbers():
    endings = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}
    for day in everyday(1, date(2024, 1, 1), date(2024, 1, 31)):
        ending = endings.get(day.day, "th")
        assert written("the {nth} of {month} {year}", day).text == f"the {day.day}{ending} of January 2024"


def test_no_text_stands_for_two_days():
    meant = {}
    for day in (*everyday(1, date(1969, 1, 1), date(1973, 12, 31)), *everyday(1, date(2001, 1, 1), date(2012, 12, 31))):
        for form in forms_of(day):
            assert meant.setdefault(written(form, day).text, day) == day


@pytest.mark.parametrize("form", FORMS)
def test_the_letters_of_a_field_say_it(form):
    day = date(2031, 11, 22)
    found = written(form, day)
    year, month, number = (found.text[found.letters[field]] for field in ("year", "month", "day"))
    assert year in ("2031", "31")
    assert month in ("November", "Nov", "11", "XI")
    assert number in ("22", "22nd", "twenty-second")
    digits = "".join(day.isoformat()[place] for place in FIELD_OF_DIGIT)
    assert digits == "20311122"


def test_every_day_is_either_in_training_or_held_out():
    training, held_out = split_days()
    assert sorted((*training, *held_out)) == everyday()
    assert not set(training) & set(held_out)
    assert len(held_out) / len(everyday()) == pytest.approx(HELD_OUT_SHARE, abs=0.004)
    assert {day.year for day in held_out} == set(range(1900, 2100))


def test_batches_hold_no_held_out_day_and_every_form_in_small_and_capital_letters():
    forbidden, sources, translations = {day.isoformat() for day in split_days()[1]}, [], []
    for seed in range(40):
        batch = date_batch(64, END, np.random.default_rng(seed))
        for source, padding, targets in zip(batch.source, batch.padding, batch.targets, strict=True):
            sources.append(bytes(source[~padding].astype(np.uint8)).decode())
            translations.append(bytes(targets[:-1].astype(np.uint8)).decode())
    assert len(sources) == 64 * 40
    assert not forbidden & set(translations)
    in_words = [text for text in sources if re.search("[a-z]{3}", text, re.I)]
    for is_so in (str.islower, str.isupper):
        assert 0.07 < sum(map(is_so, in_words)) / len(in_words) < 0.16
    days = [date.fromisoformat(translation) for translation in translations]
    counts = dict.fromkeys(FORMS, 0)
    for text, day in zip(sources, days, strict=True):
        form = next(form for form in FORMS if written(form, day).text.lower() == text.lower())
        counts[form] += 1
    rare = [form for form, count in counts.items() if count < 20]
    assert set(rare) <= {"{mon} {d}, {year}", "{d} {mon} {year}"}, rare  # in May these read as their long forms


def test_pairs_are_padded_and_shifted():
    pairs = pairs_of_texts([("ab", "xyz"), ("c", "u")], END)
    assert pairs.source.tolist() == [[97, 98], [99, END]]
    assert pairs.padding.tolist() == [[False, False], [False, True]]
    assert pairs.ids.tolist() == [[END, 120, 121, 122], [END, 117, END, END]]
    assert pairs.targets.tolist() == [[120, 121, 122, END], [117, END, IGNORED, IGNORED]]
