"""Numbers and signs of the page Quantization, of what is given: bytes by hand, changes, losses, which is which."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.quantization import choice, effects, savings, weights
from pages.quantization.levels_figure import levels_figure
from tests.support.page_parts import Noted, view_of
from tests.support.small_models import random_ids, small_model
from viz_model.quantization.cells import QuantizedCell
from viz_model.quantization.codes import Int8Rows, NF4Blocks
from viz_model.quantization.savings import PLAIN, Savings, Way
from viz_model.quantization.twin import INT8, LLM_INT8, NF4, Choice, quantize, trace_quantized
from viz_model.training.loss import Loss
from viz_ui.look.text import number, size_words

IDS = tuple(random_ids(7, seed=2).tolist())


@pytest.fixture(scope="module")
def model():
    return vm.Model("small", small_model())


def test_bytes_are_counted_by_hand(model):
    """int8: a byte a weight, and four a row; outlier columns a second time, in 16 bits."""
    quantized = quantize(model, Choice(INT8))
    matrices = [tensor.before for tensor in quantized.tensors.values()]
    n, rows = sum(matrix.numel() for matrix in matrices), sum(len(matrix) for matrix in matrices)
    whole, after = sum(parameter.nbytes for parameter in model.transformer.parameters()), n + 4 * rows
    said = choice.bytes_words(view_of(model, IDS), quantized, 0)
    for part in (
        f"**{n:,} weights** take **{size_words(after)}** instead of {size_words(4 * n)}",
        f"({size_words(2 * n)} in float16)",
        f"**{number(8 * after / n)} bits per weight**: 8 for the code",
        f"and {number(32 * rows / n, 3)} for the constants",
        f"whole model takes {size_words(whole - 4 * n + after)} instead of {size_words(whole)}",
    ):
        assert part in said
    more = choice.bytes_words(view_of(model, IDS), quantized, 100)
    assert f"take **{size_words(after + 100)}**" in more
    assert f"and {number(800 / n, 3)} for" in more
    nf4 = quantize(model, Choice(NF4))
    blocks = sum(-(-matrix.numel() // 64) for matrix in matrices)
    assert f"if each c took 32 bits, the constants would take {number(32 * blocks / n, 3)})" in choice.bytes_words(
        view_of(model, IDS), nf4, 0
    )


def test_before_after_and_the_difference_are_not_mixed_up(model, monkeypatch):
    noted, quantized = Noted(), quantize(model, Choice(NF4))
    view = view_of(model, IDS, layer=1, head=2, query=4, key=3)
    after, _ = trace_quantized(quantized, view.trace)
    for name in ("st", "panels", "open_noted_matrix", "head_grid"):
        monkeypatch.setattr(effects, name, noted if name == "st" else getattr(noted, name))
    effects.draw_head(view, after, quantized)
    [((items,), options)] = noted.of("panels")
    found = {item.name: item.values for item in items}
    old, new = (trace.weights(1, 2).numpy() for trace in (view.trace, after))
    for name, values in {"before": old, "after": new, "difference": new - old}.items():
        np.testing.assert_array_equal(found[name], values)
    assert options["selected"] == (4, 3)
    changes, pictures = effects._pictures.__wrapped__(view.trace, after, *view.pass_key, "self", Choice(NF4))
    every = np.stack([[(after.weights(n, h) - view.trace.weights(n, h)).numpy() for h in range(4)] for n in range(2)])
    np.testing.assert_allclose(changes, np.abs(every).max((2, 3)), atol=1e-7)
    steps = pictures["difference"][0].astype(int)
    expected = np.rint((every / np.abs(every).max() + 1) * 127.5)
    allowed = np.tri(7, dtype=bool)
    assert np.abs(steps - expected)[..., allowed].max() <= 1
    for what in ("difference", "before"):
        monkeypatch.setattr(effects, "linked", lambda *_, what=what, **__: what)
        monkeypatch.setattr(effects, "_pictures", lambda *_: (changes, pictures))
        noted.calls.clear()
        effects.draw_grid(view, after, quantized)
        [((small, _, _), grid)] = noted.of("head_grid")
        np.testing.assert_array_equal(small, pictures[what][0])
        assert grid["labels"][1][3].endswith(number(changes[1, 3], 2))
        most = np.unravel_index(changes.argmax(), changes.shape)
        assert f"layer {most[0]}, head {most[1]}" in noted.words
        assert (f"±{number(changes.max(), 2)}" in noted.words) == (what == "difference")
        shows = [options["args"] for _, options in noted.of("button")]
        assert shows == ([] if most == (1, 2) else [tuple(map(int, most))])


def test_a_loss_that_grows_is_said_to_grow(model, monkeypatch):
    noted = Noted()
    monkeypatch.setattr(effects, "st", noted)
    monkeypatch.setattr(effects, "_losses", lambda *_: ("this prompt", Loss(1.0, 9, "of it"), Loss(1.25, 9, "of it")))
    effects.draw_loss(view_of(model, IDS), SimpleNamespace(choice=Choice(NF4)))
    [((_, value, delta), options)] = noted.of("metric")
    assert (value, delta, options["delta_color"]) == ("1.000 → 1.250", "+0.2500", "inverse")
    assert f"{number(np.e)} → {number(np.exp(1.25))}" in noted.words
    assert "9 tokens" in noted.words


def test_columns_that_reach_the_threshold_are_outliers(model, monkeypatch):
    noted = Noted()
    monkeypatch.setattr(weights, "st", noted)
    monkeypatch.setattr(weights, "outliers_figure", noted.outliers_figure)
    quantized = quantize(model, Choice(LLM_INT8, threshold=2.0))
    tensor = next(iter(quantized.tensors.values()))
    weights.draw_outliers(quantized, tensor, torch.tensor([1.99, 2.0, 5.5, 3.0, 0.1]))
    assert "3 of 5" in noted.words
    assert "5.500" in noted.words


def test_every_step_of_a_rounded_weight_has_its_own_number(monkeypatch):
    """c is the largest |w|, and what is kept of it another number: NF4 rounds it to 8 bits."""
    noted = Noted()
    monkeypatch.setattr(weights, "st", noted)
    cell = QuantizedCell(
        weight=-0.5, maximum=2.0, first=(3, 0), last=(3, 7), scaled=-0.25, code=-32, level=-0.28, constant=1.75,
        after=-0.49,
    )  # fmt: skip
    nf4, int8 = (SimpleNamespace(after=object.__new__(kind)) for kind in (NF4Blocks, Int8Rows))
    for tensor in (nf4, int8):
        weights.draw_arithmetic(tensor, 3, 1, cell)
    blocks, rows = (
        dict(line.strip("| ").split(" | ") for line in words.splitlines()[2:]) for (words,), _ in noted.of("markdown")
    )
    for found, group in ((blocks, "group"), (rows, "row")):
        assert found["weight"] == "$w_{3,1} = -0.5000$"
        assert found[f"largest |w| of its {group}"].endswith(r"w_{3,0} \dots w_{3,7} \rvert = 2.000$")
        assert found["divided by c"] == "$w / c = -0.2500$"
        assert found["error"] == r"$\hat w - w = 0.01000$"
    assert blocks["nearest level"] == r"$-0.2800, \text{ code } -32$"
    assert blocks["c, kept in 8 bits"] == r"$\hat c = 1.750$"
    assert blocks["dequantized"] == r"$\hat w = 1.750 \cdot (-0.2800) = -0.4900$"
    assert rows["rounded"] == r"$\mathrm{round}(127 \cdot (-0.2500)) = -32$"
    assert rows["dequantized"] == r"$\hat w = 1.750 \cdot (-32) / 127 = -0.4900$"


def test_a_level_has_its_code_its_number_and_how_many_weights_take_it():
    edges, levels = np.array([-1.0, -0.25, 0.5, 1.0]), np.array([-1.0, -0.5, 0.25])
    figure = levels_figure(
        edges, np.array([3, 4, 5]), levels, np.array([6, 2, 4]), first_code=-1, marked=1, theme="light"
    )
    before, after = figure.data
    assert (list(before.x), list(before.y), list(before.width)) == ([-0.625, 0.125, 0.75], [3, 4, 5], [0.75, 0.75, 0.5])
    assert list(before.customdata[0]) == ["−1.00", "−0.250"]
    assert (list(after.x), list(after.y)) == ([-1, -0.5, 0.25], [6, 2, 4])
    assert [list(one) for one in after.customdata] == [[-1, "−1.000"], [0, "−0.5000"], [1, "0.2500"]]
    assert after.marker.color[1] not in (after.marker.color[0], after.marker.color[2])
    assert [one.text for one in figure.layout.annotations] == ["before: 12 weights", "after: 3 levels"]


def way(*how, **changes):
    numbers = dict.fromkeys(Savings.__dataclass_fields__, 0) | {"way": Way(*how), "passes": 3, "choices": 3}
    return Savings(**numbers | {"weight_bytes": 1000, "score_bytes": 400, "flops": 10**7} | changes)


def test_what_a_way_saves_is_against_the_plain_one_and_sources_are_told_apart():
    rows = [
        way(weight_traffic=5000),
        way(True, cache_bytes=500, source_cache_bytes=200, weight_traffic=2500),
        way(False, False, True, weight_bytes=250, largest_difference=0.5, same_choices=2, score_bytes=0),
    ]
    lines = [line.strip("| ").split(" | ") for line in savings.table(rows, NF4, predicts=True).splitlines()]
    found = {name: cells for name, *cells in lines[2:]}
    assert found["memory: weights"] == ["1 kB", "1 kB", "**250 B** ×0.25"]
    assert found["memory: cache, of the target"] == ["0", "**300 B**", "0"]
    assert found["memory: cache, of the source"] == ["0", "**200 B**", "0"]
    assert found["memory: QKᵀ and A"] == ["400 B", "400 B", "**0**"]
    assert found["traffic: weights"][:2] == ["5 kB", "**2.5 kB** ×0.50"]
    assert found["result: largest change of any logit"] == ["–", "0", "**0.50**"]
    assert found["result: same choice"] == ["–", "0 of 3", "2 of 3"]
    assert savings.against(1009, 1000) == "1.01 kB"  # less than a hundredth
    assert savings.against(1011, 1000).startswith("**")
    assert savings.way_name(PLAIN, NF4) == "none of them"
    assert [savings.way_name(Way(*how), INT8) for how in ((0, 0, 1), (1, 1, 0), (1, 1, 1))] == [
        "quantization (int8)", "both together", "all together",
    ]  # fmt: skip


def test_the_task_is_the_beginning_of_a_long_prompt(monkeypatch):
    asked = []
    long = tuple(range(300))
    trace = SimpleNamespace(source=None, read=SimpleNamespace(ids=long))
    config = SimpleNamespace(has_unembedding=True, layout="decoder-only")
    view = SimpleNamespace(trace=trace, model=SimpleNamespace(config=config, has_source=False), edits=())
    noted = Noted()
    monkeypatch.setattr(savings, "st", noted)
    monkeypatch.setattr(savings, "measured_ways", lambda _, quantized, ids, new: asked.append(ids) or [way()])
    savings.draw_savings(view, SimpleNamespace(choice=Choice(NF4)))
    assert asked == [long[:256]]
    assert "the first 256 tokens of this prompt" in noted.words


@pytest.mark.parametrize(("local", "shape"), [("ffn.up", (96, 24)), ("ffn.down", (24, 96))])
def test_the_boxes_of_a_matrix_reach_to_its_last_output_and_its_last_input(model, monkeypatch, local, shape):
    """The framed weight is drawn in its own stretch of 64 inputs, at its place in it."""
    noted, boxes = Noted(linked=local), []
    quantized = quantize(model, Choice(NF4))
    view, cell = view_of(model, IDS, layer=1), (shape[0] - 1, shape[1] - 1)
    for name, value in (
        ("st", noted), ("linked", noted.linked), ("held", noted.held), ("hold", noted.hold), ("panels", noted.panels),
        ("chosen_value", lambda _: cell), ("half_of_pair", lambda _, *box, **__: boxes.append(box)),
        ("open_noted_matrix", noted.open_noted_matrix),
    ):  # fmt: skip
        monkeypatch.setattr(weights, name, value)
    tensor = weights.chosen_tensor(view, quantized)
    assert (tensor.place.layer, tuple(tensor.before.shape)) == (1, shape)
    assert boxes == [("Output", "matrix_cell", 0, shape[0] - 1), ("Input", "matrix_cell", 1, shape[1] - 1)]
    weights.draw_cells(view, tensor, *cell)
    [((items,), options)] = noted.of("panels")
    left = cell[1] // 64 * 64
    assert options["marked"] == {"output": 7, "input": cell[1] - left}
    found = {item.name: item for item in items}
    rows, columns = slice(cell[0] - 7, cell[0] + 1), slice(left, cell[1] + 1)
    before, after = tensor.before[rows, columns], tensor.after.dequantized()[rows, columns]
    for name, values in {"before": before, "after": after, "error": after - before}.items():
        np.testing.assert_array_equal(found[name].values, values)
    assert (found["before"].row_labels[7], found["before"].column_labels[-1]) == tuple(map(str, cell))
