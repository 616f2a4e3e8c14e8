"""Numbers that the page Prediction writes of terms that are given."""

import numpy as np
import pytest

import viz_model as vm
from pages.prediction import attribution
from tests.support.numbers import numbers_in
from tests.support.page_parts import Noted, view_of
from tests.support.small_models import small_model
from viz_model.attribution.components import HEAD
from viz_ui.look.text import number


@pytest.fixture(scope="module")
def pair():
    """Two decoder layers, three of the encoder."""
    return vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))


@pytest.mark.parametrize("part", ["decoder", "cross"])
def test_each_head_stands_in_its_place_among_those_of_its_own_attention(pair, monkeypatch, part):
    noted, view = Noted(), view_of(pair, (5, 9, 11, 9, 4), target=(3, 7, 2), part=part, query=1)
    for name in ("st", "draw_terms", "draw_head_matrix", "linked"):
        monkeypatch.setattr(attribution, name, noted if name == "st" else getattr(noted, name))
    terms = view.trace.logit_terms(3, 1, "mean")
    attribution.draw_parts(view, terms)
    [((_, _, _, heads, _), options)] = noted.of("draw_head_matrix")
    of = {(c.layer, c.head): float(t) for c, t in zip(terms.components, terms.terms, strict=True)
          if c.kind == HEAD and c.part == part}  # fmt: skip
    assert heads.shape == (2, 4)
    np.testing.assert_allclose(heads, [[of[layer, head] for head in range(4)] for layer in range(2)])
    assert numbers_in(options["caption"]) == [number(sum(of.values()))]
    [((bars,), _)] = noted.of("draw_terms")
    assert bars.numbers.sum() == pytest.approx(terms.terms.sum().item())
