"""What each experiment answers, of numbers that are given: on both sides of every limit, and which number is said."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.misconceptions import approximate, concept, equations, lengths, memory, taking_over, weight, whole
from pages.misconceptions.bars import _short
from tests.support.numbers import numbers_in
from tests.support.page_parts import Noted, view_of
from tests.support.small_models import small_model
from viz_model.misconceptions.approximate import Exactness
from viz_model.misconceptions.equations import SameEquation
from viz_model.misconceptions.lengths import PaddedBatch
from viz_model.misconceptions.memory import Memory
from viz_model.misconceptions.taking_over import Other, TakingOver
from viz_model.misconceptions.weight import Cell, Weighing
from viz_model.training.loss import Loss
from viz_ui.look.text import number

VIEW = SimpleNamespace(layer=1, head=2, model=SimpleNamespace(config=SimpleNamespace(vocab_size=100)))
IDS = (5, 9, 11, 9, 4)


@pytest.mark.parametrize(("difference", "alike"), [(9e-7, True), (2e-6, False)])
def test_tiles_are_as_exact_as_another_order_of_summing(difference, alike):
    said = approximate.answer(Exactness(torch.zeros(1), difference, 1e-7, 3e-7, 5e-8))
    assert said.startswith("**No.**") == alike
    parts = [said.index(text) for text in ("**9.0×10⁻⁷" if alike else "**2.0×10⁻⁶", "1.0×10⁻⁷", "5.0×10⁻⁸", "3.0×10⁻⁷")]
    assert parts == sorted(parts)  # tiles, reordered, full matrix, tiled


def test_the_tiles_of_the_chosen_head_are_drawn_and_what_is_left_of_the_full_matrix(monkeypatch):
    noted = Noted()
    model = vm.Model("small", small_model())
    view = view_of(model, IDS, layer=1, head=2, query=3, key=1)
    for name, value in (("st", noted), ("linked", lambda *_, **__: 2), ("draw_matrices", noted.draw_matrices)):
        monkeypatch.setattr(approximate, name, value)
    with monkeypatch.context() as patched:  # tiles that are 1 too much everywhere
        patched.setattr(approximate, "exactness", lambda *given: Exactness(given[-1] + 1, 1.0, 0.0, 1.0, 0.0))
        approximate.draw(view)
        [((_, _, (_, difference)), _)] = noted.of("draw_matrices")
        np.testing.assert_allclose(difference.values, 1, atol=1e-5)
    noted.calls.clear()
    approximate.draw(view)
    [((_, _, (tiled, difference)), options)] = noted.of("draw_matrices")
    full = view.trace.weights(1, 2).numpy() @ view.trace.v(1)[1].numpy()  # heads 2 and 3 read key/value head 1
    np.testing.assert_allclose(tiled.values, full, atol=1e-5)
    assert np.abs(difference.values).max() < 1e-5
    assert options["selected"] == (3, None)
    assert "2 × 2" in noted.words


@pytest.mark.parametrize(("difference", "same"), [(0.9e-3, True), (1.2e-3, False)])
def test_prompts_of_a_batch_are_counted_without_their_padding(difference, same, monkeypatch):
    padding = torch.tensor([[False, False, True, True], [False] * 4])
    batch = PaddedBatch(torch.arange(8).view(2, 4), padding, difference, 1.0)
    said = lengths.answer(VIEW, batch)
    assert said.startswith("**No.**") == same
    assert "**2** and **4** tokens" in said
    noted = Noted()
    monkeypatch.setattr(lengths, "st", noted)
    monkeypatch.setattr(lengths, "draw_matrices", noted.draw_matrices)
    model = vm.Model("small", small_model())
    lengths.draw_batch(view_of(model, IDS), batch, [[b"a", b" b"], [b"c"] * 4])
    [((_, _, (matrix,)), _)] = noted.of("draw_matrices")
    np.testing.assert_array_equal(matrix.allowed, ~padding)
    np.testing.assert_array_equal(matrix.values, batch.ids)
    said = noted.words.splitlines()
    assert "prompt 1, 2 tokens" in said[0]
    assert "0 a" in said[0]
    assert "1 ·b" in said[0]
    assert "prompt 2, 4 tokens" in said[1]


@pytest.mark.parametrize(("kept", "forgotten", "clear"), [(1e-4, 2.0, True), (0.5, 2.0, False), (1e-4, 1e-4, False)])
def test_memory_is_what_makes_a_difference_when_it_is_gone(kept, forgotten, clear):
    one = Memory(torch.tensor([1 + kept]), torch.tensor([1.0]), torch.tensor([1 + forgotten]), 100, 200)
    said = memory.answer(one)
    assert said.startswith("**No.**") == clear
    assert (f"**{forgotten:.2f}**" in said) == (forgotten == 2.0)


def test_what_is_kept_and_what_is_used_once_are_told_apart(monkeypatch):
    noted, one = Noted(), Memory(torch.ones(1), torch.ones(1), torch.zeros(1), 1234, 5678)
    model = vm.Model("small", small_model())
    for name, value in (("st", noted), ("_memory", lambda _: one), ("draw_next_tokens", noted.draw_next_tokens)):
        monkeypatch.setattr(memory, name, value)
    memory.draw(view_of(model, IDS))
    assert [value for (_, value), _ in noted.of("metric")] == ["1.23 kB", "0 B", "5.68 kB"]
    [((_, first, second, names, place), _)] = noted.of("draw_next_tokens")
    assert (first is one.kept, second is one.forgotten, "4 <4>" in place.replace("\\", "")) == (True, True, True)
    assert "kept" in names[0]


@pytest.mark.parametrize(("difference", "same"), [(0.9e-4, True), (1.1e-4, False)])
def test_one_equation_is_said_to_hold_where_its_weights_are_the_recorded_ones(difference, same):
    found = {name: SameEquation(None, {}, {}, mask, number)
             for name, mask, number in (("one", "causal", 1e-8), ("two", "bidirectional", difference))}  # fmt: skip
    said = equations.answer(found)
    assert said.startswith("**No.**") == same
    assert "**one** (causal mask) and **two** (bidirectional mask)" in said
    assert ("9.0×10⁻⁵" if same else "1.1×10⁻⁴") in said  # of the worse one


def test_a_mask_is_called_the_model_s_own_where_it_is():
    model = vm.Model("small", small_model())
    trace = model.trace(list(IDS))
    result = equations.through_one_equation(trace, 1, 2)
    captions = {mask: equations.matrix("small", trace, result, mask).caption for mask in result.weights}
    assert captions == {"causal": "its own mask", "bidirectional": "not its own mask"}
    np.testing.assert_allclose(
        equations.matrix("small", trace, result, "causal").values, trace.weights(1, 2), atol=1e-6
    )


def losses(**nats):
    return {whole.WHOLE: Loss(3.0, 9, "")} | {
        name.replace("_", "-"): Loss(value, 9, "") for name, value in nats.items()
    }


@pytest.mark.parametrize(
    ("nats", "begins", "worst"),
    [
        ({"attention": 4.0, "feed_forward": 3.5, "norms": 3.2}, "**No.**", "attention"),
        ({"attention": 4.0, "feed_forward": 3.005, "norms": 2.9}, "**On this text", "attention"),
        ({"attention": 3.1, "feed_forward": 3.02}, "**No.**", "attention"),
        ({"attention": 3.0, "feed_forward": 3.5}, "**No.**", "feed-forward"),
    ],
)
def test_attention_is_not_the_whole_where_another_part_is_needed(nats, begins, worst):
    said = whole.answer(VIEW, losses(**nats))
    assert said.startswith(begins)
    assert said.endswith(f"without **{worst}**.")


def test_parts_that_are_off_together_are_asked_as_one(monkeypatch):
    asked = []
    monkeypatch.setattr(whole, "load_model", lambda name: name)
    monkeypatch.setattr(whole, "loss_without", lambda model, rows, parts, given: asked.append(parts) or parts)
    made = whole._losses.__wrapped__
    two = made("m", whole.PROMPT, (1, 2), (), ("attention", "norms"), ("attention", "norms"))
    assert [*two.values()] == [(), ("attention",), ("norms",), ("attention", "norms")]
    assert [*made("m", whole.PROMPT, (1, 2), (), ("attention", "norms"), ("norms",))] == [
        whole.WHOLE,
        "attention",
        "norms",
    ]


def test_a_pattern_is_followed_through_the_texts_from_its_least_to_its_most():
    def scores(**values):
        return dict.fromkeys(concept.MEASURES, 0.1) | values

    found = {
        "1": scores(previous=0.8, first=0.7, itself=0.95),
        "2": scores(previous=0.4, first=0.75, itself=0.9),
        "3": scores(again=float("nan"), itself=0.92),
    }
    view = SimpleNamespace(layer=1, head=2)
    said = concept.answer(view, found, {"1": "previous", "2": "first", "3": None})
    assert "“previous token” on text 1, “first token” on text 2" in said
    assert "“previous token” ranges from **0.10** to **0.80**" in said  # it moves most
    always = concept.answer(view, found, dict.fromkeys(found, "first"))
    assert "“first token” ranges from **0.10** to **0.75**" in always
    assert "**None of these" in concept.answer(view, found, dict.fromkeys(found))


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0.00"), (0.004, "≈0"), (-0.004, "≈0"), (0.005, "0.01"), (0.25, "0.25"), (12.345, "12")]
)
def test_a_narrow_bar_has_two_decimals(value, text):
    assert _short(value) == text


@pytest.mark.parametrize(
    ("first", "verdict"), [(0.5, "No. A second head takes over for head 2"), (3.9375, "For this head")]
)
def test_what_two_heads_cost_alone_together_and_the_one_without_the_other(first, verdict):
    found = TakingOver(7, 0.5, first, (Other(1, 3, 0.25, 0.5), Other(2, 1, 0.125, 4.0)), 9)
    view = SimpleNamespace(
        layer=1, head=2, model=SimpleNamespace(token_bytes=lambda ids: [b"<%d>" % one for one in ids])
    )
    said = taking_over.answer(view, found).replace("**", "").replace("\\", "")
    assert said.startswith(verdict)
    assert [text for text in numbers_in(said) if "." in text] == [
        number(one, 3) for one in (first, 0.125, 4 - first, 4.0, first + 0.125)
    ]
    assert "Switching off head 2 of layer 1 costs this token" in said
    assert "switching off head 1 of layer 2 alone costs it" in said


def test_the_bars_of_two_heads_are_the_numbers_of_the_answer(monkeypatch):
    found, noted = TakingOver(7, 0.5, 0.75, (Other(1, 3, 0.25, 0.5), Other(2, 1, 0.125, 4.0)), 9), Noted()
    view = view_of(vm.Model("small", small_model()), IDS, layer=1, head=2)
    for name, value in (
        ("st", noted), ("kept_result", lambda *_, **__: found), ("answer", lambda *_: ""),
        ("draw_search", noted.draw_search), ("bars_figure", noted.bars_figure),
    ):  # fmt: skip
        monkeypatch.setattr(taking_over, name, value)
    taking_over.draw(view)
    [((groups, _), _)] = noted.of("bars_figure")
    assert groups == {
        "cost": {
            "without head 2 of layer 1": 0.75,
            "without head 1 of layer 2": 0.125,
            "sum of the two": 0.875,
            "without both": 4.0,
            "without head 1 of layer 2, when head 2 of layer 1 is off": 3.25,
        }
    }
    assert "the next 2 of 9 heads" in noted.words


CELLS = (Cell(1, 2, 4, 0.875, 0.125), Cell(0, 3, 1, 0.75, 0.5), Cell(2, 1, 3, 0.25, 4.0))


def test_a_heavy_cell_stands_before_the_lighter_one_with_their_own_weights_and_effects():
    said = (
        weight.answer(Weighing(CELLS, 30, 1e-6), [f"{n} <{n}>" for n in range(5)]).replace("**", "").replace("\\", "")
    )
    assert said.startswith(
        "No. Head 2 of layer 1 gives key 4 <4> the weight 0.875. Without this cell, the prediction changes by 0.125 "
        "bits. Head 1 of layer 2 gives key 3 <3> only 0.250, and without it the prediction changes by 4.00 bits."
    )
    assert "Over all 3 cells, the rank correlation of weight and effect is −1.0." in said
    even = Weighing((Cell(0, 0, 0, 0.75, 2.0), Cell(0, 0, 1, 0.25, 1.0)), 30, 1e-6)
    assert "the highest weight, which is 0.750." in weight.answer(even, ["a", "b"])


def test_a_cell_is_drawn_at_its_weight_and_its_effect_or_at_the_bound_of_rounding():
    found = Weighing((*CELLS, Cell(0, 0, 2, 0.0625, 1e-9)), 30, 1e-6)
    cells, heavy, light = weight.scatter_figure(found, [f"key {n}" for n in range(5)], theme="light").data
    assert (list(cells.x), list(cells.y)) == ([0.875, 0.75, 0.25, 0.0625], [0.125, 0.5, 4.0, 1e-6])
    assert list(cells.customdata[0]) == ["layer 1, head 2, key key 4", "0.1250 bits"]
    assert cells.customdata[3][1] == "no more than rounding"
    assert (list(heavy.x), list(light.x)) == ([0.875], [0.25])
    assert (heavy.name, light.name) == ("high weight, small effect", "lower weight, larger effect")
