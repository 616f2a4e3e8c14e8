"""Sides of tiles, counts and curves of the page FlashAttention, against numbers worked out by hand."""

from dataclasses import dataclass
from math import ceil
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.flash_attention import measured, run
from pages.flash_attention.run import Tiling
from tests.support.numbers import numbers_in
from tests.support.page_parts import Noted, page_module, view_of
from tests.support.small_models import small_model
from viz_model.flash.tiled import OneHead, tiled_attention
from viz_model.flash.timing import Call, Shapes, Timing

IDS = (5, 9, 11, 9, 4)


@pytest.fixture(scope="module")
def view():
    return view_of(vm.Model("small", small_model()), IDS, layer=1, head=2)


@pytest.mark.parametrize(("length", "side"), [(1, 1), (3, 3), (8, 4), (13, 5), (32, 4), (64, 8), (65, 9), (200, 25)])
def test_the_usual_side_makes_at_most_eight_tiles_of_four_or_more(length, side):
    assert run.usual_side(length) == side
    assert ceil(length / side) <= 8


@pytest.mark.parametrize(("queries", "is_refused"), [(32, False), (33, True)])
def test_as_many_tiles_as_the_page_can_show_are_shown_and_one_more_is_not(queries, is_refused, monkeypatch):
    monkeypatch.setattr(run, "sizes", lambda _: (queries, 32, 6, 6))
    assert bool(run.refusal(None, Tiling(1, 1, "queries outside"))) == is_refused


def test_more_numbers_than_a_browser_takes_are_refused(monkeypatch):
    monkeypatch.setattr(run, "sizes", lambda _: (1000, 1000, 100, 100))
    assert not run.refusal(None, Tiling(100, 100, "queries outside"))  # 2·10⁶ cells, 10·10⁵ outputs
    assert run.refusal(None, Tiling(100, 40, "queries outside"))  # 25·10⁵ outputs


@dataclass
class Tile:
    rescaling: torch.Tensor


def test_the_first_tile_is_the_one_that_rescales_most_but_not_to_nothing():
    tiles = [Tile(torch.tensor(factors)) for factors in ([0.0, 1.0], [0.5, 1.0], [0.1, 1.0], [0.7, 0.2])]
    assert run.telling_tile(SimpleNamespace(tiles=tiles)) == 2
    assert run.telling_tile(SimpleNamespace(tiles=tiles[:1] * 3)) == 2  # none: the last


@pytest.mark.parametrize("order", ["queries outside", "keys outside"])
def test_the_counts_of_both_ways_and_what_larger_tiles_would_change(view, order):
    tiling = Tiling(3, 2, order)
    made = tiled_attention(OneHead.of(view.trace, 1, 2), 3, 2, order)
    lines = [line.strip("| ").split(" | ") for line in run.counts_table(view, made).splitlines()[2:]]
    found = {name.strip("*"): [int(text.replace(",", "")) for text in numbers] for name, *numbers in lines}
    tiles = [(3, 2), (3, 2), (2, 2), (2, 2), (2, 1)]  # (0–2) × (0–1), (2–3); (3–4) × (0–1), (2–3), (4)
    cells = sum(rows * columns for rows, columns in tiles)
    assert len(made.tiles) == len(tiles)
    assert found["exponentials"] == [25, cells + sum(rows for rows, _ in tiles)]
    assert found["FLOPs of QKᵀ and A·V"] == [4 * 25 * 6, 4 * cells * 6]
    assert found["bytes of QKᵀ and A kept in slow memory"] == [2 * 4 * 25, 0]
    totals = [[sum(pair) for pair in zip(*list(found.values())[:2], strict=True)], list(found.values())[2]]
    assert totals[0] == totals[1]  # read and written are moved
    said = run.counts_words(view, made, tiling)
    assert ("every 3 queries" in said, "every 2 keys" in said) == (order == "queries outside", order == "keys outside")
    assert "1 of 6 tiles" in said
    assert f"{4 * cells * 6:,}" in said


def test_the_curves_are_of_the_fast_memory_that_was_chosen(view, monkeypatch):
    page, noted = page_module("flash_attention"), Noted()
    monkeypatch.setattr(page, "linked", lambda *_, **__: 3)  # KB
    monkeypatch.setattr(page, "growth_figure", noted.growth_figure)
    monkeypatch.setattr(page, "st", noted)
    page.draw_curves(view)
    [((lengths, curves), options)] = noted.of("growth_figure")
    assert options["length"] == len(IDS)
    n, d, m = int(lengths[-1]), 6, 3 * 1024 // 4  # numbers of float32
    rows, columns = ceil(m / (4 * d)), min(ceil(m / (4 * d)), d)
    assert [part for part in numbers_in(noted.words) if part != "4"] == [
        *(f"{d}", "768", f"{rows}", f"{columns}"),  # D, N, and the tile of each order of the loops
        *(f"{columns}", f"{rows}"),
    ]
    # queries outside: Q and O once, K and V for every block of rows (Dao 2023, Algorithm 1)
    blocks = ceil(n / rows)
    assert curves["tiled, queries outside"][-1] == pytest.approx(4 * (2 * n * d + 2 * blocks * n * d), rel=0.01)
    # S is written and read, A written and read, beside Q, K, V and O (Dao et al. 2022, Algorithm 0)
    assert curves["full matrix"][-1] == 4 * (4 * n * d + 4 * n * n)


@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
def test_what_is_measured_has_the_sizes_and_the_mask_of_the_pass(view, mask, monkeypatch):
    page, noted = page_module("flash_attention"), Noted()
    here = view_of(view.model, IDS, mask=mask, layer=1, head=2)
    monkeypatch.setattr(page, "current_view", lambda: here)
    for name in ("choose_tiling", "draw_tiles", "draw_traffic", "draw_measured", "refusal", "coloured"):
        monkeypatch.setattr(page, name, getattr(noted, name))
    monkeypatch.setattr(page, "st", noted)
    page.draw()
    [((shapes, length), _)] = noted.of("draw_measured")
    assert (shapes, length) == (Shapes(4, 2, 6, mask == "causal"), len(IDS))
    assert ("causal" in measured._shape_words(shapes)) == (mask == "causal")
    assert "G = 2" in measured._shape_words(shapes)


def test_both_ways_are_compared_at_the_longest_text_that_both_can_read():
    def timing(length, *full):
        return Timing(length, Call(0.001 * length, 10 * length, 3), Call(*full, 3) if full else None)

    timings = [timing(64, 0.5, 5000), timing(128, 2.0, 20_000), timing(256)]
    said = measured._comparison_words(timings)
    assert "At T = 128" in said
    for part in ("2,000 ms", "20 kB", "128 ms", "1.28 kB", "T = 256", "256 ms", "2.56 kB"):
        assert part in said
    assert "went on" not in measured._comparison_words(timings[:2])
    curves = measured._curves(timings, lambda call: call.seconds)
    np.testing.assert_array_equal(curves["full matrix"], [0.5, 2.0, np.nan])
    np.testing.assert_array_equal(curves["fused"], [0.064, 0.128, 0.256])


@pytest.mark.parametrize(
    ("order", "first", "last"),
    [("queries outside", (3 * 6 + 2 * 12, 0), (5 * 6 + 9 * 12, 5 * 7)),
     ("keys outside", (2 * 12 + 3 * 14, 5 * 8 + 3 * 8), (5 * 12 + 12 * 14, 5 * 8 + 12 * 8))],
)  # fmt: skip
def test_a_tile_travels_with_each_of_its_numbers_under_its_own_name(view, order, first, last):
    """Q has 6 numbers a query, K and V have 12 a key; with the keys outside, the 8 of O, m and l go and come.

    Of two queries with all five keys and of three with four, for the fifth is masked."""
    made = run.tiled_attention(OneHead.of(view.trace, 1, 2), 3, 2, order)
    drawn = run.pictures(made)
    for tile, picture in zip(made.tiles, drawn, strict=True):
        assert (picture.rows, picture.columns) == (tile.rows, tile.columns)
        for name in ("scores", "allowed", "exponentials", "maximum", "total", "rescaling", "output"):
            np.testing.assert_array_equal(getattr(picture, name), getattr(tile, name))
    assert (drawn[0].read, drawn[0].written) == tuple(4 * one for one in first)
    assert (drawn[-1].read, drawn[-1].written) == tuple(4 * one for one in last)
