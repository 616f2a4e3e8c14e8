"""How colours grow with numbers: tests/support/colour_scales.json has cases written out, which the script reads too."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viz_ui.look.colours import LAWS, colour_places, value_at

CASES = json.loads(Path("tests/support/colour_scales.json").read_text())


def test_places_are_those_of_the_scale_written_out():
    for case in CASES:
        found = colour_places(case["value"], case["low"], case["high"], case["law"])
        assert found == pytest.approx(case["place"], abs=1e-12), case


@given(st.sampled_from(LAWS), st.floats(0.01, 1), st.sampled_from([0, -1]), st.floats(0.1, 100))
def test_the_value_at_a_place_has_that_place(law, place, sign, high):
    low = sign * high
    assert colour_places(value_at(place, low, high, law), low, high, law) == pytest.approx(place, abs=1e-6)
