"""What the page Masks writes of given masks and changes: how many cells, at which token and after which layer."""

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.masks import sides, token_change
from pages.masks.sides import Side
from tests.support.page_parts import Noted, view_of
from tests.support.small_models import small_model
from viz_model.masking.choice import MaskChoice

IDS = (5, 9, 11, 9, 4)


@pytest.fixture(scope="module")
def model():
    return vm.Model("small", small_model())


def test_cells_that_a_mask_opens_and_closes_are_counted_apart(model, monkeypatch):
    noted, view = Noted(), view_of(model, IDS, layer=1)
    monkeypatch.setattr(sides, "st", noted)
    own, other = torch.ones(5, 5).tril().bool(), torch.ones(5, 5).tril().bool()
    other[0, 1:4], other[4, 0] = True, False
    monkeypatch.setattr(sides, "own_cells", lambda _: own)
    sides.draw_words(view, Side("B", MaskChoice("drawn by hand"), other, ""))
    assert noted.words == (
        ":orange-badge[not the training mask] 17 of 25 cells are open. Compared with the causal mask that small was "
        "trained with, mask B opens 3 cells and closes 1 cell."
    )
    for kind, words in (("causal", "This is"), ("prefix", "The open cells are the same as in")):
        sides.draw_words(view, Side("A", MaskChoice(kind), own, ""))
        assert f"15 of 25 cells are open. {words} the causal mask" in noted.words


CHANGE = np.array([[0, 0, 0.5, 0, 0], [0.25, 0, 0.5, 0, 0], [0.125, 0.375, 0.5, 0.75, 0.8]])


@pytest.mark.parametrize(
    ("change", "position", "words"),
    [
        (CHANGE, 2, "All 2 positions before position 2 changed. The residual stream changed most at position 1, after "
                    "layer 1: by 37.5 % of the length of its vector."),
        (CHANGE[:2], 2, "1 of the 2 positions before position 2 changed. The residual stream changed most at position "
                        "0, after layer 0: by 25.0 %"),
        (CHANGE[:2], 1, "Position 0 changed. The residual stream changed most at position 0, after layer 0: by 25.0 %"),
        (CHANGE[:1], 2, "Nothing before position 2 changed: the largest difference there is exactly 0."),
        (CHANGE * 1e-8, 2, "Before position 2, only rounding changed the vectors, by at most 3.750×10⁻⁹ of"),
        (CHANGE, 0, "No token stands before position 0."),
    ],
)  # fmt: skip
def test_the_largest_change_before_a_token_has_its_position_its_layer_and_its_share(change, position, words):
    said = token_change._finding(Side("A", MaskChoice("causal"), None, ""), change, position).replace("**", "")
    assert said.startswith("Mask A, ")
    assert words in said


def test_the_rows_of_a_change_are_the_embedding_and_the_layers(model):
    matrix = token_change._stream(view_of(model, IDS), Side("A", MaskChoice("causal"), None, ""), CHANGE, 2)
    assert matrix.row_labels == ["embedding", "layer 0", "layer 1"]
    assert matrix.caption.endswith("token 2 replaced")
    np.testing.assert_array_equal(matrix.values, CHANGE)


def test_a_pass_is_told_from_others_by_all_that_it_reads_and_by_its_mask(model):
    """By the model's name, both texts, the attention that the mask is for, and every number of the choice."""
    two = vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))
    one, changed = view_of(two, IDS, target=(3, 7), part="decoder"), (3, 8)
    source = view_of(two, (5, 9, 11, 9, 5), target=(3, 7), part="decoder")
    views = [(one, None), (one, changed), (source, None), (view_of(two, IDS, target=(3, 7), part="cross"), None),
             (view_of(two, IDS, target=(3, 7), part="encoder"), None),
             (view_of(two, IDS, name="other", target=(3, 7), part="decoder"), None)]  # fmt: skip
    widths = [MaskChoice("sliding window", width=width) for width in (2, 3)]
    choices = [MaskChoice("causal"), *widths, MaskChoice("prefix", length=2), MaskChoice("padding", padded=(1,))]
    keys = [sides._pass(view, Side("A", choice, None, ""), ids)[0] for view, ids in views for choice in choices]
    assert len(set(keys)) == len(views) * len(choices)
