"""The terms of a sum as bars: red to the right for what raises it, blue to the left for what lowers it."""

import numpy as np
import pytest

import viz_model as vm
from tests.support.page_parts import Noted, view_of
from tests.support.small_models import small_model
from viz_model.attribution.components import EMBEDDING, HEAD, Component
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


@pytest.mark.parametrize("part", ["decoder", "cross"])
def test_the_writer_of_a_term_is_looked_at_where_it_wrote_and_at_what_it_read_most(monkeypatch, part):
    noted = Noted()
    monkeypatch.setattr(term_bars, "choose", noted.choose)
    model = vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))
    view = view_of(model, (5, 9, 11, 9, 4), target=(3, 7, 2), part="decoder", layer=1, head=3)
    term_bars.look_at_writer(view, Component(HEAD, 0, 1, part), 2)
    key = int(view.trace.of(part).weights(0, 1)[2].argmax())
    other = {} if part == "decoder" else {"part": part}
    assert noted.of("choose") == [((), {"head": (0, 1), "cell": (2, key)} | other)]
    assert key != 2
    noted.calls.clear()
    term_bars.look_at_writer(view, Component(EMBEDDING), 2)
    assert not noted.calls
