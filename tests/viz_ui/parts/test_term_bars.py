"""The terms of a sum as bars: red to the right for what raises it, blue to the left for what lowers it."""

import numpy as np
import pytest

from tests.support.page_parts import Noted
from viz_ui.parts import term_bars


@pytest.fixture
def bars(monkeypatch):
    """The bars that are drawn of these numbers, as plotly is told them."""
    noted = Noted()
    monkeypatch.setattr(term_bars, "st", noted)

    def drawn(numbers, **options):
        names = [f"component {n}" for n in range(len(numbers))]
        terms = term_bars.largest(names, np.array(numbers, dtype=float), **options)
        term_bars.draw_terms(terms, key="terms", title="All", reach=9.0, on_pick=lambda _: None)
        [((figure,), _)] = noted.of("plotly_chart")
        return figure.data[0]

    return drawn


def test_what_raises_is_red_and_what_lowers_is_blue(bars):
    found = bars([0.5, -3.0, 2.0, -0.25])
    assert list(found.x) == [-3.0, 2.0, 0.5, -0.25]
    for value, colour in zip(found.x, found.marker.color, strict=True):
        red, _, blue = (int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
        assert (red > blue) == (value > 0), (value, colour)


def test_a_name_a_number_and_the_sum_of_the_rest_stand_at_each_bar(bars):
    found = bars([0.5, -3.0, 2.0, -0.25, 0.125], most=3)
    assert list(found.customdata) == ["component 1", "component 2", "the other 3, together"]
    assert list(found.x) == [-3.0, 2.0, 0.375]
    assert [float(text.replace("−", "-")) for text in found.text] == list(found.x)
