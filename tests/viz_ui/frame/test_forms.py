"""The forms of parameters: what is written is read again, and no text of an address breaks one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.properties import examples
from viz_ui.frame.forms import Fraction, OneOf, PairOfNumbers, SomeOf, SomeTexts, Switch, Text, Whole

WORDS = {"none": "No positions", "rotary": "RoPE", 8: "1,024"}

FORMS = {
    "whole": (Whole(0, 4096), st.integers(0, 4096)),
    "of both signs": (Whole(-100_000, 100_000), st.integers(-100_000, 100_000)),
    "fraction": (Fraction(0.05, 10.0), st.integers(5, 1000).map(lambda hundredths: hundredths / 100)),
    "text": (Text(40), st.text(max_size=40)),
    "some texts": (SomeTexts(9, 3), st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=3, unique=True)),
    "switch": (Switch(), st.booleans()),
    "one of": (OneOf(("weights", "raw scores", 4)), st.sampled_from(["weights", "raw scores", 4])),
    "one of, in words": (OneOf(tuple(WORDS), WORDS.get), st.sampled_from(list(WORDS))),
    "some of": (
        SomeOf(("attention", "feed-forward", "norms")),
        st.sets(st.sampled_from(["attention", "feed-forward", "norms"])).map(
            lambda chosen: [part for part in ("attention", "feed-forward", "norms") if part in chosen]
        ),
    ),
    "pair": (PairOfNumbers(("layer", "head")), st.tuples(st.integers(0, 999_999), st.integers(0, 999_999))),
    "open pair": (
        PairOfNumbers(("digit", "letter"), missing=None),
        st.tuples(st.integers(0, 999_999), st.none() | st.integers(0, 999_999)),
    ),
}

HOSTILE = ["", " ", "inf", "-inf", "NaN", "1e9", "10" * 30, "-1", "1.5", "٣", "３", "²", "0x10", "1_000", "+1", "1,0"]
HOSTILE += ["2.6.1", ".", "2.", ".6", "-2.6", "2.-6", "true ", "None", "\x00", "\ud800", "<b>", "❤", "1\n", "2.6\n"]


@pytest.mark.parametrize("kind", FORMS)
@given(data=st.data())
@examples(60)
def test_what_is_written_is_read_again(kind, data):
    form, values = FORMS[kind]
    value = data.draw(values)
    texts = form.write(value)
    assert form.read([texts] if isinstance(texts, str) else texts) == value
    assert form.fit(value) == value


@pytest.mark.parametrize("kind", FORMS)
@given(texts=st.lists(st.sampled_from(HOSTILE) | st.text(), min_size=1, max_size=3))
@examples(200)
def test_a_text_is_a_value_or_refused(kind, texts):
    """Whatever is read could have been chosen: it stays as it is when it is brought into range, and is written."""
    form, _ = FORMS[kind]
    try:
        value = form.read(texts)
    except ValueError:
        return
    assert form.fit(value) == value
    again = form.write(value)
    assert form.read([again] if isinstance(again, str) else again or [""]) == value


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("kind", ["whole", "fraction", "switch", "one of", "pair"])
def test_nonsense_is_refused(kind, text):
    if (kind, text) in (("fraction", "1.5"), ("pair", "1.5")):
        text = f"{text}0000000000000"  # which is none
    with pytest.raises(ValueError, match=r"."):
        FORMS[kind][0].read([text])


@given(
    value=st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers()) | st.binary()
)
@examples(200)
def test_what_a_browser_forges_is_brought_into_range_or_refused(value):
    """A value of a widget is a visitor's to forge, and what was possible may be so no longer."""
    for form, _ in FORMS.values():
        try:
            fitting = form.fit(value)
        except ValueError:
            continue
        assert form.fit(fitting) == fitting
        if isinstance(form, Whole | Fraction):
            assert form.low <= fitting <= form.high
            assert not math.isnan(fitting)


OLD_HEADS = [
    ({"layer": ["2"], "head": ["6"]}, (2, 6)),
    ({"layer": ["0"], "head": ["6"]}, (0, 6)),
    ({"head": ["6"]}, (0, 6)),  # a 0 that nobody typed was left out
    ({"layer": ["3"]}, (3, 0)),
    ({"layer": ["3"], "head": ["inf"]}, (3, 0)),
    ({"head": ["1.7"], "layer": ["3"]}, (1, 7)),  # the new form is the later one
    ({"head": ["9", "1.7"]}, (1, 7)),
]


@pytest.mark.parametrize(("address", "head"), OLD_HEADS, ids=repr)
def test_a_head_of_before_is_the_same_head(address, head):
    assert PairOfNumbers(("layer", "head")).read_from(address, "head") == head


@pytest.mark.parametrize("address", [{}, {"layer": ["x"]}, {"head": [""]}, {"query": ["3"]}], ids=repr)
def test_an_address_without_a_head_has_none(address):
    with pytest.raises(ValueError, match=r"."):
        PairOfNumbers(("layer", "head")).read_from(address, "head")


def test_an_option_of_before_is_the_one_of_today():
    form = OneOf(("0 to 1", "scale to this head"), former={"own range": "scale to this head"})
    assert form.read(["own range"]) == "scale to this head"
    assert form.write("scale to this head") == "scale to this head"


def test_a_digit_without_a_letter_stays_open():
    assert PairOfNumbers(("digit", "letter"), missing=None).read_from({"digit": ["6"]}, "cross_cell") == (6, None)
