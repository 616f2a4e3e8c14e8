"""The arithmetic of a cell, two predictions side by side, and what is hidden: the numbers that these parts write."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.support.page_parts import Noted, view_of
from tests.support.small_models import small_model
from viz_model.heads.cell_arithmetic import CellArithmetic
from viz_model.heads.measures import telling_cell
from viz_ui.frame.view import first_cell, first_head
from viz_ui.look import growth_figure as growth
from viz_ui.look.text import number
from viz_ui.parts import fitting_model, next_tokens, special_tokens, token_table
from viz_ui.parts.special_tokens import MOST_NAMED, Shown
from viz_ui.parts.written_arithmetic import lines, n

IDS = (5, 9, 11, 9, 4)


def cell(**changes) -> CellArithmetic:
    """q·k = 3 of two products, scaled by 0.5, and the other number of the row is 2.5."""
    numbers = {
        "query": np.array([1.0, 2.0]),
        "key": np.array([2.0, 0.5]),
        "products": np.array([2.0, 1.0]),
        "raw": 3.0,
        "scale": 0.5,
        "score": 1.5,
        "softcap": None,
        "capped": 1.5,
        "bias": None,
        "entering": 1.5,
        "allowed": True,
        "row_maximum": 2.5,
        "exponential": 0.36788,
        "sink": None,
        "of_sink": 0.0,
        "row_sum": 1.36788,
        "weight": 0.26894,
        "value_length": 4.0,
        "carried": 1.07577,
        "drawn_weight": 0.268941,
    }
    return CellArithmetic(**numbers | changes)


def test_every_step_of_a_cell_has_its_own_numbers():
    found = dict(lines(cell(), 3, 1))
    steps = list(found.values())
    assert steps[0].endswith("= 3.000")
    assert "(1.000)(2.000) + (2.000)(0.5000)" in steps[0]
    assert found["times this model's scale"].endswith(r"3.000 \cdot 0.5000 = 1.500")
    assert found["plus the mask"] == "1.500 + M = 1.500 + 0 = 1.500"
    assert found["exp"] == "e^{1.500 - m} = e^{1.500 - (2.500)} = 0.367880"
    assert found["divided by the row's sum"].endswith("0.367880 / 1.36788 = 0.268940")
    assert found["times the length of v"].endswith(r"0.2689 \cdot 4.000 = 1.076")
    root = dict(lines(cell(scale=2**-0.5, score=2.1213), 3, 1))
    assert root["divided by √D"].endswith(r"3.000 / \sqrt{2} = 2.121")


def test_what_only_some_models_do_to_a_score_is_a_step_of_its_own():
    found = dict(lines(cell(softcap=2.0, capped=1.27, bias=-0.5, entering=0.77, sink=1.0, of_sink=0.2231), 3, 1))
    assert found["capped"] == r"2.000 \tanh(1.500 / 2.000) = 1.270"
    assert found["plus the bias"] == "1.270 + (-0.5000) = 0.7700"
    assert found["plus the mask"] == "0.7700 + M = 0.7700 + 0 = 0.7700"
    [sink] = [formula for words, formula in found.items() if "sink" in words]
    assert sink == "e^{1.000 - m} = 0.223100"
    masked = dict(lines(cell(allowed=False), 3, 1))
    assert masked["plus the mask"].endswith(r"= -\infty")
    assert "exp" not in masked


@pytest.mark.parametrize(
    ("value", "text"), [(-1.5, "-1.500"), (12345.0, "12{,}340"), (1.5e-5, r"1.500 \times 10^{-5}"), (0.0, "0")]
)
def test_a_number_in_a_formula(value, text):
    assert n(value) == text or (value == 12345.0 and n(value) == "12{,}350")


def test_predictions_stand_under_their_own_names_and_the_difference_is_the_second_minus_the_first(monkeypatch):
    noted, model = Noted(), vm.Model("small", small_model())
    monkeypatch.setattr(next_tokens, "st", noted)
    monkeypatch.setattr(token_table, "st", noted)
    first, second = (torch.randn(29, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    next_tokens.draw_next_tokens(view_of(model, IDS), first, second, ("one", "two"), "Here")
    [((styled,), _)] = noted.of("dataframe")
    table, shown = styled.data, styled.to_html()
    shares = [logits.double().softmax(-1).numpy() for logits in (first, second)]
    likeliest = {int(token) for share in shares for token in np.argsort(-share)[:10]}
    ids = [int(token.strip("<>")) for token in table["token"]]
    assert set(ids) == likeliest
    np.testing.assert_allclose(table["one"], shares[0][ids], atol=1e-6)
    np.testing.assert_allclose(table["two"], shares[1][ids], atol=1e-6)
    np.testing.assert_allclose(table["two − one"], shares[1][ids] - shares[0][ids], atol=1e-6)
    for column in ("one", "two"):
        assert all(number(value) in shown for value in table[column])
    signed = ["+" * (value > 0) + number(value) for value in table["two − one"]]
    assert all(text in shown for text in signed)
    bits = (shares[0] * np.log2(shares[0] / shares[1])).sum()
    change = (second - first).numpy()
    most = np.abs(change).argmax()
    for part in (f"{bits:.3f}", f"<{most}>", f"{abs(change[most]):.3f}", f"{len(likeliest)}"):
        assert part in noted.words


@pytest.mark.parametrize("hidden", [MOST_NAMED, MOST_NAMED + 2])
def test_so_many_hidden_tokens_are_named_and_the_others_counted(monkeypatch, hidden):
    noted, model = Noted(), vm.Model("small", small_model())
    monkeypatch.setattr(special_tokens, "st", noted)
    view = view_of(model, tuple(range(12)))
    special_tokens.say_hidden(view, Shown(np.arange(hidden, 12), np.arange(hidden, 12), "hidden"), "All else")
    assert ("and 2 more" in noted.words) == (hidden > MOST_NAMED)
    assert f"{MOST_NAMED - 1} <{MOST_NAMED - 1}>" in noted.words
    assert f"{MOST_NAMED} <" not in noted.words


def test_rows_are_divided_by_what_is_left_of_their_weights_whatever_is_drawn():
    """Weights then add up to 1, and what they carry grows by the same factor."""
    weights = np.array([[1.0, 0, 0], [0.75, 0.25, 0], [0.5, 0.2, 0.3]])
    lengths, kept = np.array([9.0, 4.0, 2.0]), np.array([1, 2])
    shown = Shown(kept, kept, "renormalised")
    left = weights[1:, 1:]
    np.testing.assert_allclose(shown.scaled(weights, weights), left / left.sum(1, keepdims=True))
    np.testing.assert_allclose(
        shown.scaled(weights * lengths, weights), left * lengths[1:] / left.sum(1, keepdims=True)
    )
    np.testing.assert_array_equal(Shown(kept, kept, "hidden").scaled(weights * lengths, weights), left * lengths[1:])
    alone = Shown(np.array([0, 1]), kept, "renormalised").scaled(weights * lengths, weights)
    np.testing.assert_array_equal(alone, [[0, 0], [4, 0]])  # all of query 0's weight lies on the hidden key


def test_what_is_shown_in_another_model_is_brought_into_its_range(monkeypatch):
    """Two layers, four heads, and a prompt of three ids, where the view is further in everything."""
    other = vm.Model("other", small_model(layout="encoder-decoder", n_encoder_layers=1))
    monkeypatch.setattr(fitting_model, "fitting", lambda *_, **__: ("other", other, "another one"))
    view = SimpleNamespace(text=[3, 4, 5], layer=5, head=7, query=9, key=9, edits=())
    shown = fitting_model.drawn(view, None, "")
    assert (shown.layer, shown.head, shown.query, shown.key) == (0, 3, 2, 2)  # the encoder has one layer
    assert shown.ids == (3, 4, 5)


def test_the_first_head_is_the_one_that_looks_back_most():
    tables = {"induction": [[0.9, 0.1]], "previous_text": [[0.1, 0.2], [0.7, 0.3]]}
    assert first_head(SimpleNamespace(measured_heads=tables)) == (1, 0)
    assert first_head(SimpleNamespace(measured_heads={"year": [[0.1, 0.9]]})) == (0, 1)
    assert first_head(SimpleNamespace(measured_heads={})) == (0, 0)


def test_the_first_cell_is_of_the_hidden_token():
    model = vm.Model("small", small_model(layout="encoder-only"))
    trace = model.trace([3, 9, 28, 4, 5])
    query, key = first_cell(SimpleNamespace(mask_token=28), trace, 1, 2)
    assert (query, key) == (2, int(trace.weights(1, 2)[2].argmax()))
    assert first_cell(SimpleNamespace(mask_token=7), trace, 1, 2) == telling_cell(trace, 1, 2)
    assert first_cell(model, trace, 1, 2) == telling_cell(trace, 1, 2)


def test_a_view_and_its_files_say_which_part_layer_and_head():
    model = vm.Model("my pair", small_model(layout="encoder-decoder", n_encoder_layers=3))
    view = view_of(model, IDS, target=(3, 7), part="cross", layer=1, head=2)
    assert (view.where, view.file_name("q")) == ("cross-attention, layer 1, head 2", "my-pair_cross_layer1_head2_q")
    assert (len(view.labels), len(view.key_labels)) == (2, 5)
    own = view_of(vm.Model("small", small_model()), IDS, layer=1, head=2)
    assert (own.where, own.file_name("q")) == ("layer 1, head 2", "small_layer1_head2_q")


def test_the_crossing_of_curves_stands_where_the_square_is_the_rest(monkeypatch):
    monkeypatch.setattr(growth, "st", Noted())
    lengths = np.array([16, 100, 1000])
    curves = {"squares": lengths**2.0, "rest": 100.0 * lengths, "more": 0.0 * lengths}
    figure = growth.growth_figure(lengths, curves, "squares", length=64, unit="FLOPs", crossing=100.0)
    assert [line.name for line in figure.data[:3]] == ["squares ∝ T²", "rest", "more"]
    assert [line.line.width for line in figure.data[:3]] == [4, 1.8, 1.8]
    assert (figure.data[3].x[0], figure.data[3].y[0]) == (100, 10_000)
    assert [shape.x0 for shape in figure.layout.shapes] == [64]
    assert figure.layout.annotations[0].text == "T = 64"
    outside = growth.growth_figure(lengths, curves, "squares", length=64, unit="FLOPs", crossing=1000.0)
    assert len(outside.data) == 3
