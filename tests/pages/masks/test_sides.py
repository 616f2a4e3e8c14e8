"""What the page Masks draws of two passes: which is A and which B, whose query, and what their files hold."""

import numpy as np
import pytest
import torch
from scipy.stats import entropy

import viz_model as vm
from pages.masks import sides, token_change
from pages.masks.sides import Side
from tests.support.numbers import numbers_in
from tests.support.page_parts import Noted, page_module, view_of
from tests.support.small_models import small_model
from viz_model.masking.choice import MaskChoice
from viz_model.masking.drawn_mask import encode_mask
from viz_ui.look.text import number

IDS, LAYER, HEAD, QUERY, KEY = (5, 9, 11, 9, 4), 1, 2, 3, 1
MASKS = {"A": "causal", "B": "bidirectional"}


@pytest.fixture(scope="module")
def model():
    return vm.Model("small", small_model())


@pytest.fixture
def page(model, monkeypatch):
    """The page's module with both passes made, and what it drew."""
    page, noted = page_module("masks"), Noted()
    view = view_of(model, IDS, layer=LAYER, head=HEAD, query=QUERY, key=KEY)
    traces = {name: model.trace(list(IDS), {"self": mask}) for name, mask in MASKS.items()}
    both = [Side(name, MaskChoice(mask), traces[name].mask(LAYER), "") for name, mask in MASKS.items()]
    monkeypatch.setattr(page, "masked_trace", lambda _, side: traces[side.name])
    monkeypatch.setattr(page, "chosen_side", lambda _, name: both["AB".index(name)])
    for name in ("st", "panels", "draw_next_tokens", "open_noted_matrix", "query_lines_figure"):
        monkeypatch.setattr(page, name, noted if name == "st" else getattr(noted, name))
    return page, noted, view, both, traces


def test_the_difference_is_b_minus_a_where_either_may_read(page):
    page, _, view, both, traces = page
    found = {item.name: item for item in page.comparison_matrices(view, both)}
    weights = {name: trace.weights(LAYER, HEAD).numpy() for name, trace in traces.items()}
    for name in MASKS:
        np.testing.assert_array_equal(found[f"weights {name}"].values, weights[name])
        np.testing.assert_array_equal(found[f"mask {name}"].allowed, traces[name].mask(LAYER))
    np.testing.assert_array_equal(found["difference"].values, weights["B"] - weights["A"])
    assert found["difference"].allowed.all()  # hatched is what both close
    assert found["mask A"].caption.startswith("15 cells open (0), 10 closed")


def test_a_file_of_both_heads_has_each_under_its_own_name(page):
    page, _, view, both, traces = page
    arrays = page.both_heads(view, both)
    for name, trace in traces.items():
        np.testing.assert_array_equal(arrays[f"{name}_weights"], trace.weights(LAYER, HEAD))
        np.testing.assert_array_equal(arrays[f"{name}_mask"], trace.mask(LAYER))
        np.testing.assert_array_equal(arrays[f"{name}_q"], trace.q(LAYER)[HEAD])


def test_what_is_predicted_and_how_evenly_is_read_is_of_the_chosen_query(page):
    page, noted, view, both, traces = page
    page.draw_prediction(view)
    [((_, first, second, names, _), _)] = noted.of("draw_next_tokens")
    np.testing.assert_array_equal(first, traces["A"].logits_at(QUERY))
    np.testing.assert_array_equal(second, traces["B"].logits_at(QUERY))
    assert names == ("mask A", "mask B")
    page.draw_entropy(view)
    [((_, lines), _)] = noted.of("query_lines_figure")
    written = []
    for side, (name, (drawn, _)) in zip(both, lines.items(), strict=True):
        bits = entropy(traces[side.name].weights(LAYER, HEAD), base=2, axis=1)
        np.testing.assert_allclose(drawn, bits, atol=1e-4)
        assert name.startswith(side.name)
        written += [number(bits.mean()), str(QUERY), number(bits[QUERY])]
    assert numbers_in(next(words for ((words, *_), _) in noted.of("markdown"))) == written


@pytest.mark.parametrize(("drawn", "is_larger"), [(3, True), (5, None), (7, False)])
def test_a_drawing_of_another_size_says_what_becomes_of_the_cells_that_it_has_not(model, drawn, is_larger):
    cells = encode_mask(np.tri(drawn, dtype=bool))
    side = Side("B", MaskChoice("drawn by hand", cells=cells), torch.ones(5, 5, dtype=torch.bool), "")
    notes = sides._notes(view_of(model, IDS), side)
    assert len(notes) == (is_larger is not None)
    if notes:
        assert f"{drawn} tokens" in notes[0]
        assert ("own mask" in notes[0] or "training mask" in notes[0]) == is_larger


def test_a_drawing_that_is_as_high_but_wider_has_all_the_cells_that_are_here():
    model = vm.Model("pair", small_model(layout="encoder-decoder"))
    view = view_of(model, IDS, target=(3, 7, 2), part="cross")
    side = Side("B", MaskChoice("drawn by hand", cells=encode_mask(np.ones((3, 7), bool))), torch.ones(3, 5) > 0, "")
    [note] = sides._notes(view, side)
    assert "own mask" not in note
    assert "training mask" not in note


def test_blind_queries_are_named_one_or_several(model):
    for closed, words in (([2], "Query 2"), ([0, 1, 4], "Queries 0–1, 4")):
        allowed = torch.ones(5, 5, dtype=torch.bool)
        allowed[closed] = False
        [note] = sides._notes(view_of(model, IDS), Side("B", MaskChoice("causal"), allowed, ""))
        assert note.startswith(words)


@pytest.mark.parametrize("turned", [False, True])
def test_all_that_changes_is_drawn_on_one_scale(model, monkeypatch, turned):
    """Whichever side changes more."""
    named = dict(zip("AB", reversed(MASKS.values()), strict=True)) if turned else MASKS
    noted, view = Noted(), view_of(model, IDS, layer=LAYER, head=HEAD, query=QUERY, key=KEY)
    changed = (5, 9, 12, 9, 4)
    traces = {
        (name, ids): model.trace(list(ids), {"self": mask}) for name, mask in named.items() for ids in (IDS, changed)
    }
    both = {name: Side(name, MaskChoice(mask), traces[name, IDS].mask(LAYER), "") for name, mask in named.items()}
    monkeypatch.setattr(token_change, "masked_trace", lambda _, side, ids=None: traces[side.name, ids or IDS])
    monkeypatch.setattr(token_change, "masked_traces", lambda *_, **__: None)
    monkeypatch.setattr(token_change, "chosen_side", lambda _, name: both[name])
    monkeypatch.setattr(token_change, "_choose", lambda _: (2, changed))
    for name in ("st", "panels", "open_noted_matrix"):
        monkeypatch.setattr(token_change, name, noted if name == "st" else getattr(noted, name))
    token_change.draw_token_change(view)
    [((items,), options)] = noted.of("panels")
    found = {item.name: item for item in items}
    assert options["selected"] == (QUERY, KEY)
    streams, weights = ([found[f"{kind} {name}"] for name in "AB"] for kind in ("stream", "change"))
    for pair in (streams, weights):
        assert pair[0].high == pair[1].high == pytest.approx(max(np.abs(one.values).max() for one in pair))
    assert (streams[0].low, weights[0].low) == (0, -weights[0].high)
    for item, name in zip(weights, "AB", strict=True):
        new, old = (traces[name, ids].weights(LAYER, HEAD).numpy() for ids in (changed, IDS))
        np.testing.assert_array_equal(item.values, new - old)
    causal, other = reversed(streams) if turned else streams
    assert not causal.values[:, :2].any()  # nothing before the token under the causal mask
    assert other.values[1:, :2].all()
