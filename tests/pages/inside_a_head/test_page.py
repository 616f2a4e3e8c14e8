"""The matrices of the page Inside a head: of heads that share keys and values and are turned by their positions."""

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.support.page_parts import Noted, page_module, view_of
from tests.support.small_models import small_model
from viz_model.transformer.positions import rotary_angles, rotate

LAYER, HEAD, GROUP = 1, 2, 1  # heads 2 and 3 of four read key/value head 1
IDS = (5, 9, 11, 9, 4)


@pytest.fixture(scope="module")
def view():
    model = vm.Model("small", small_model(position="rotary"))
    return view_of(model, IDS, layer=LAYER, head=HEAD, query=3, key=1)


def test_every_matrix_is_that_of_the_head_and_of_the_keys_and_values_that_it_reads(view):
    found = page_module("inside_a_head").head_matrices(view)
    trace, mask = view.trace, np.tri(len(IDS), dtype=bool)
    for name, of_head, tensor in (("q", True, trace.q), ("k", False, trace.k), ("v", False, trace.v)):
        np.testing.assert_array_equal(found[name].values, tensor(LAYER)[HEAD if of_head else GROUP])
        assert found[name].rows_are_queries == of_head
        assert found[name].rows_are_keys != of_head
    for name in ("q", "k"):  # each as projected, and turned by its position
        turned = rotate(torch.tensor(found[f"{name}_pre"].values), rotary_angles(torch.arange(5), 6, 10000.0), "halves")
        np.testing.assert_allclose(found[name].values, turned, atol=1e-5)
    assert (found["scores"].same_as, found["scores"].factor) == ("raw", pytest.approx(6**-0.5))
    np.testing.assert_array_equal(found["masked"].allowed, mask)
    assert found["scores"].allowed is None
    weights = found["weights"].values
    np.testing.assert_allclose(found["mixed"].values, weights @ found["v"].values, atol=1e-5)
    for name in ("k", "v", "k_pre"):
        assert "(key/value head 1)" in found[name].title
    assert "head" not in found["q"].title
    captions = {name: found[name].caption for name in ("q", "k", "v", "mixed", "raw", "weights")}
    rows = {name: caption.split(",")[0].strip("(") for name, caption in captions.items()}
    assert rows == {"q": "T", "k": "S", "v": "S", "mixed": "T", "raw": "T", "weights": "T"}


def test_the_heads_that_share_are_named(view):
    page = page_module("inside_a_head")
    page.st = noted = Noted()
    page.draw_sources(view)
    assert "Heads 2 to 3" in noted.words
    assert "key/value head 1" in noted.words
    assert "R rotates" in noted.words
    assert "sink" not in noted.words
