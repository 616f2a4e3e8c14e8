"""Numbers of the page Layouts: which logits, which tokens around the hidden one, whose head, which letter."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.layouts import blanks, cross_attention, side_by_side
from pages.layouts.examples import Example
from tests.support.page_parts import Noted
from tests.support.small_models import small_model

IDS = (5, 9, 11, 9, 4)


@pytest.fixture(scope="module")
def one():
    model = vm.Model("small", small_model())
    return Example(model, "", model.trace(list(IDS)))


@pytest.fixture(scope="module")
def pair():
    model = vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))
    return Example(model, "", model.trace(list(IDS), target=[3, 7, 2]))


def test_the_highest_logits_are_those_of_the_last_token(one):
    values = torch.randn(5, 200, generator=torch.Generator().manual_seed(0)).numpy()
    example = SimpleNamespace(model=SimpleNamespace(name="m", token_bytes=lambda ids: [b"x"] * len(ids)))
    matrix = side_by_side._logits_matrix(example, one.trace, values)
    order = np.argsort(-values[-1])[:64]
    np.testing.assert_array_equal(matrix.values, values[:, order])
    assert [int(label.split()[0]) for label in matrix.column_labels] == order.tolist()


def test_what_a_decoder_would_say_next_is_its_likeliest_token_with_its_share(one):
    shares = one.trace.logits.double().softmax(-1).numpy()
    assert side_by_side._said(one) == f"next: <{shares.argmax()}> {shares.max():.0%}"


@pytest.mark.parametrize(
    ("site", "part"),
    [("encoder.blocks.0.attn.weights", "encoder"), ("decoder.blocks.1.cross.weights", "cross"),
     ("decoder.blocks.1.attn.weights", "decoder"), ("logits", "decoder")],
)  # fmt: skip
def test_a_tensor_has_the_tokens_of_its_own_part(pair, site, part):
    assert side_by_side._part(pair, site) == part
    trace = pair.trace.of(part)
    matrix = side_by_side._stream_matrix(pair, trace, np.zeros((trace.length, 3)), site)
    assert len(matrix.row_labels) == (5 if part == "encoder" else 3)


def test_pictures_of_weights_are_means_of_all_heads_up_to_their_largest(pair):
    for part, layer in (("encoder", 2), ("cross", 1)):
        trace = pair.trace.of(part)
        mean = np.mean([trace.weights(layer, head).numpy() for head in range(4)], axis=0)
        picture = side_by_side._picture(trace, layer)
        np.testing.assert_allclose(picture.steps, np.rint(255 * mean / mean.max()), atol=1)


@pytest.mark.parametrize(("position", "first"), [(0, 0), (20, 0), (21, 1), (50, 20), (59, 20)])
def test_forty_tokens_around_the_hidden_one_are_hidden_in_turn(monkeypatch, position, first):
    noted, asked = Noted(), []
    ids = tuple(range(60))
    trace = SimpleNamespace(ids=ids, length=60, token_bytes=[b"x"] * 60)
    for name, value in (
        ("st", noted), ("query_lines_figure", noted.query_lines_figure),
        ("_every_bits", lambda _, ids, places: asked.append(places) or np.full(len(places), 2.0)),
        ("next_token_bits", lambda _: torch.arange(1.0, 60.0)),
    ):  # fmt: skip
        monkeypatch.setattr(blanks, name, value)
    bert, gpt = (SimpleNamespace(model=SimpleNamespace(name=name), trace=trace) for name in ("bert", "gpt"))
    blanks._draw_every_blank(bert, gpt, position)
    assert asked == [range(first, first + 40)]
    [((labels, lines), _)] = noted.of("query_lines_figure")
    assert labels[0].startswith(f"{first} ")
    before = lines["gpt"][0]
    np.testing.assert_array_equal(before[1:], np.arange(first + 1.0, first + 40))
    assert np.isnan(before[0]) == (first == 0)
    [(_, line)] = noted.of("add_vline")
    assert int(labels[line["x"]].split()[0]) == position  # where the hidden token stands among those that are drawn


def test_bits_are_worked_out_again_for_another_stretch_or_text(monkeypatch):
    monkeypatch.setattr(blanks, "st", Noted())
    monkeypatch.setattr(blanks, "blank_bits", lambda _, ids, places: [[float(ids[0] + place) for place in places]])
    bert = SimpleNamespace(model=None, edits=())
    for ids, places in (((1, 2), range(2)), ((1, 2), range(1, 3)), ((5, 2), range(1, 3))):
        found = blanks._every_bits(bert, ids, places)
        assert found.tolist() == [ids[0] + place for place in places]
    assert blanks._every_bits(bert, ids, places) is found
    assert blanks._every_bits(SimpleNamespace(model=None, edits=("off:0.0",)), ids, places) is not found


def test_notes_of_cross_attention_are_fields_from_three_tenths_on():
    tables = {f"{field}_letters": [[0.3, 0.29], [value, 0.0]] for field, value in
              zip(cross_attention.FIELDS, (0.5, 0.1, 0.9), strict=True)}  # fmt: skip
    model = SimpleNamespace(measured_heads=tables, config=SimpleNamespace(n_heads=2))
    year, month, day = cross_attention.FIELDS
    assert cross_attention._notes(model, 2) == [
        [f"{year} 0.30, {month} 0.30, {day} 0.30", ""],
        [f"{year} 0.50, {day} 0.90", ""],
    ]


def test_the_letter_that_a_digit_reads_most_is_selected_unless_one_is_chosen(pair, monkeypatch):
    noted, trace = Noted(), pair.trace.of("cross")
    for name in ("panels", "open_noted_matrix", "current_view"):
        monkeypatch.setattr(cross_attention, name, getattr(noted, name))
    example = SimpleNamespace(
        model=SimpleNamespace(name="pair", token_bytes=lambda ids: [b"x"] * len(ids), end_token=1)
    )
    weights = trace.weights(1, 3).numpy()
    for cell, selected in (((2, None), (2, int(weights[2].argmax()))), ((1, 4), (1, 4))):
        monkeypatch.setattr(cross_attention, "_choose_cell", lambda _, cell=cell: cell)
        cross_attention._draw_head(example, trace, 1, 3)
        ((matrix, *_),), options = noted.of("panels")[-1]
        assert options["selected"] == selected
        np.testing.assert_array_equal(matrix.values, weights)
        assert (len(matrix.row_labels), len(matrix.column_labels)) == (3, 5)


def test_one_model_sees_both_sides_of_the_hidden_token_and_the_other_one_what_stands_before_it(monkeypatch):
    noted = Noted()
    for name in ("st", "seen_tokens", "choose", "say_edits", "_draw_guesses", "_draw_every_blank"):
        monkeypatch.setattr(blanks, name, noted if name == "st" else getattr(noted, name))
    trace = SimpleNamespace(ids=IDS, length=5, token_bytes=[b"x"] * 5)
    monkeypatch.setattr(blanks, "held", lambda *_: 3)
    monkeypatch.setattr(blanks, "example", lambda name: SimpleNamespace(model=SimpleNamespace(name=name), trace=trace))
    blanks.draw_blank()
    [((_, rows), options)] = noted.of("seen_tokens")
    assert [(row.title, row.blank, row.seen_until) for row in rows] == [("tiny-bert", 3, 5), ("tiny-gpt", 3, 3)]
    options["on_pick"](2)
    assert noted.of("choose") == [((), {"blank": 2})]
