"""The sentences of “Why this score”: which number is of the key's side, which of the query's, and of which token."""

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.support.page_parts import Noted, view_of
from tests.support.small_models import small_model
from viz_model.attribution.components import BIASES, FEED_FORWARD, HEAD, Component
from viz_model.attribution.scores import ScoreTerms
from viz_ui.look.text import number
from viz_ui.parts import why_here

IDS = (5, 9, 11, 9, 4)
QUERY = Component(HEAD, 0, 1), Component(HEAD, 0, 3), Component(BIASES)
KEY = Component(HEAD, 0, 2), Component(HEAD, 0, 0), Component(FEED_FORWARD, 0), Component(BIASES)
TERMS = [[1.0, 2.0, -0.5, 0.25], [-6.0, 0.5, 0.125, 4.0], [0.75, 0.0625, 8.0, -3.0]]


@pytest.fixture(scope="module")
def view():
    return view_of(vm.Model("small", small_model()), IDS, layer=1, head=2, query=3, key=1)


@pytest.fixture
def noted(monkeypatch):
    noted = Noted(button=False)
    for name in ("st", "panels", "draw_terms", "open_noted_matrix", "look_at_writer", "choose"):
        monkeypatch.setattr(why_here, name, noted if name == "st" else getattr(noted, name))
    return noted


def terms(score=6.5, than=None, bias=0.0):
    return ScoreTerms(QUERY, KEY, torch.tensor(TERMS).double(), score, bias, than)


@pytest.mark.parametrize(
    ("score", "than", "words"),
    [
        (6.5, None, "6.500."),
        (-6.5, None, "−6.500."),
        (-6.5, "row", "6.500 below the mean score of the keys that the query may read."),
        (6.5, "row", "6.500 above the mean score of the keys that the query may read."),
        (-6.5, 4, "6.500 below the score of key 4."),
    ],
)
def test_the_largest_part_of_either_side_is_named_with_its_number(view, noted, score, than, words):
    why_here._say_what_it_is_made_of(view, terms(score, than))
    what = "The score" if than is None else f"This difference ({number(score)})"
    assert noted.words.splitlines()[-1] == (
        f"The score is {words} {what} can be split into one part for each component of the key. The largest part is "
        "that of layer 0, feed-forward: 7.625. It can also be split into one part for each component of the query. "
        "Then the largest part is that of biases: 5.813. Parts can be negative."
    )


def test_a_key_that_is_hardly_read_is_compared_with_an_even_share_of_what_may_be_read(view, noted, monkeypatch):
    weights = torch.tensor([[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0.7, 0.1, 0, 0.2, 0], [1, 0, 0, 0, 0]])
    monkeypatch.setattr(type(view.trace), "weights", lambda *_: weights)
    monkeypatch.setattr(why_here, "telling_cell", lambda *_: (2, 4))
    why_here._offer_telling_cell(view)
    assert noted.words == "This head hardly reads this key: its weight is 0.10, less than an even share (0.25)."
    [((label,), button)] = noted.of("button")
    assert (label, button["args"]) == ("Go to where it reads most: query 2, key 4", (2, 4))


@pytest.mark.parametrize(
    ("side", "place", "best", "adds", "token"),
    [("key", 1, KEY[1], "2.563", "1 <9>"), ("query", 3, QUERY[0], "2.750", "3 <9>")],
)
def test_a_side_is_of_its_own_token_and_its_head_is_opened_where_it_wrote(view, noted, side, place, best, adds, token):
    found = terms()
    why_here._draw_side(view, found, side, 9.0)
    [((bars,), options)] = noted.of("draw_terms")
    assert options["title"] == f"The {side}'s side: token {token}"
    assert (options["role"], options["reach"]) == (side, 9.0)
    sums = np.sum(TERMS, axis=0 if side == "key" else 1)
    assert sorted(bars.numbers) == pytest.approx(sorted(sums))
    row = view.trace.weights(0, best.head)[place]
    read = int(row.argmax())
    assert noted.words == (
        f"Of all heads, {best.name} adds most on the {side}'s side: {adds}. At token {place}, this head reads token "
        f"{view.labels[read]} most, with the weight {number(float(row[read]), 2)}."
    )
    assert noted.of("button")[0][1]["args"] == (view, best, place)
    options["on_pick"](1)
    assert noted.of("look_at_writer") == [((view, (KEY if side == "key" else QUERY)[1], place), {})]


def test_the_sum_its_score_and_its_remainder_are_three_numbers(view, noted):
    why_here._draw_sum(view, terms(6.5, bias=-0.375))
    assert noted.words.splitlines()[0] == (
        "Sum of all 3 × 4 terms: 7.188. The same number from the matrix of scores: 6.500. "
        "Remainder: −0.6875. The model then adds a bias of −0.3750, which is no part of the sum."
    )


def test_the_strongest_of_both_sides_meet_pair_by_pair_and_the_rest_is_summed(view, noted, monkeypatch):
    monkeypatch.setattr(why_here, "MOST_PAIRED", 2)
    why_here._draw_pairs(view, terms())
    [(([pairs],), _)] = noted.of("panels")
    assert (pairs.row_axis, pairs.column_axis) == ("the query's side", "the key's side")
    assert pairs.row_labels == ("biases", "the other 2, together")
    assert pairs.column_labels == ("layer 0, feed-forward", "the other 3, together")
    np.testing.assert_allclose(pairs.values, [[8.0, -2.1875], [-0.375, 1.75]])
    assert pairs.caption == "All cells add up to 7.188."


def test_the_row_of_scores_is_that_of_the_query_and_a_click_takes_another_key(view, noted):
    why_here._draw_row(view, 2)
    [(([row],), options)] = noted.of("panels")
    scores = view.trace.scores(1, 2)[3].numpy()
    np.testing.assert_array_equal(row.values, scores[None])
    np.testing.assert_array_equal(row.allowed, [[True, True, True, True, False]])
    assert (row.title, row.row_labels, options["marked"]) == ("Scores of query 3", ["3 <9>"], {"other key": 2})
    assert row.caption.startswith(f"The other key is 2, and its score is {number(scores[2])}.")
    options["on_pick"]({"column": 3})
    assert noted.of("choose") == [((), {"than_key": 3})]


def test_a_score_is_kept_of_one_cell_of_one_attention_and_of_one_comparison(view, monkeypatch):
    kept, two = [], vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))
    monkeypatch.setattr(why_here, "st", Noted())
    monkeypatch.setattr(why_here, "linked", lambda *_, **__: False)
    for name in ("_say_what_it_is_made_of", "_draw_side", "_draw_sum"):
        monkeypatch.setattr(why_here, name, lambda *_: None)
    monkeypatch.setattr(why_here, "kept_result", lambda work, **options: kept.append(options["of"]) or terms())
    place = {"part": "decoder", "target": (3, 7, 2), "layer": 1, "head": 2, "query": 2, "key": 1}
    changes = [{}, {"part": "cross"}, {"target": (3, 7, 5)}, {"layer": 0}, {"head": 1}, {"query": 1}, {"key": 0},
               {"mask": "bidirectional"}]  # fmt: skip
    for change in changes:
        monkeypatch.setattr(why_here, "_compared", lambda _: "row")
        why_here.draw_why_here(view_of(two, IDS, **place | change))
    monkeypatch.setattr(why_here, "_compared", lambda _: None)
    why_here.draw_why_here(view_of(two, IDS, **place))
    assert len(set(kept)) == len(changes) + 1
