"""What the page Patching says and draws of numbers that are given, where both prompts have tokens of their own."""

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.patching import answer, maps
from pages.patching.maps import PATHS, MapChoice
from pages.patching.prompts import ComparedRuns
from tests.support.page_parts import Noted, view_of
from tests.support.small_models import small_model
from viz_model.intervention.patching import HEAD_POSITIONS, HEADS, STREAM, Patching
from viz_model.intervention.paths import LOGITS
from viz_ui.look.text import number

CLEAN, CORRUPTED = (5, 9, 11, 9, 4, 7), (5, 9, 3, 2, 8, 9, 4, 7)
PAIRS = ((0, 0), (1, 1), (3, 5), (4, 6), (5, 7))
LABELS = ["0 <5>", "1 <9>", "3 <9>", "4 <4>", "5 <7>"]


@pytest.fixture(scope="module")
def model():
    return vm.Model("small", small_model(n_layers=3))


@pytest.fixture(scope="module")
def view(model):
    return view_of(model, CLEAN, layer=1, head=2, query=3, key=4)


@pytest.fixture(scope="module")
def pair(view, model):
    return ComparedRuns(view.trace, model.trace(CORRUPTED), 13, 17, 5, False)


@pytest.fixture
def noted(monkeypatch):
    noted = Noted(held=None)
    for module in (answer, maps):
        for name in ("st", "panels", "draw_head_matrix", "open_noted_matrix", "choose", "choose_cell", "choose_head",
                     "held"):  # fmt: skip
            if hasattr(module, name):
                monkeypatch.setattr(module, name, noted if name == "st" else getattr(noted, name))
    return noted


def patching(pair, sites, reverse=False, nothing=0.0125, whole=0.9375):
    """All differences are other ones. The clean run has 4, the corrupted one −1."""
    positions = len(CLEAN) if reverse else len(CORRUPTED)
    shape = {HEADS: (3, 4), PATHS: (3, 4), LOGITS: (3, 4), HEAD_POSITIONS: (3, 4, positions)}.get(sites, (3, positions))
    difference = torch.linspace(-2, 5, int(np.prod(shape))).double().reshape(shape)
    return Patching(sites, "self", reverse, difference, 4.0, -1.0, nothing, whole, 13, 17, pair.alignment)


@pytest.mark.parametrize(
    ("sites", "reverse", "place", "what"),
    [
        (STREAM, False, (1, 5), "the stream before layer 1 at token 3 <9>"),
        (STREAM, True, (1, 3), "the stream before layer 1 at token 3 <9>"),
        (HEAD_POSITIONS, False, (1, 2, 5), "what head 2 of layer 1 writes at token 3 <9>"),
        (HEADS, False, (1, 2), "what head 2 of layer 1 writes at all tokens"),
        (LOGITS, False, (1, 2), "what head 2 of layer 1 adds to the logits directly"),
        (PATHS, True, (0, 3), "what head 3 of layer 0 adds to the key of head 2 of layer 1"),
    ],
)
def test_a_cell_says_what_was_put_where_and_what_came_of_it(view, pair, noted, sites, reverse, place, what):
    """The position is that of the run into which it was put; of paths, the sender with the largest effect is told."""
    found = patching(pair, sites, reverse)
    if sites == PATHS:
        found.difference[0] = torch.tensor([3.0, 2.5, 3.5, 1.0])
    answer.draw_answer(view, pair, MapChoice(sites, reverse, "key"), found)
    difference = float(found.difference[place])
    effect = (4 - difference) / 5 if reverse else (difference + 1) / 5
    origin, base = ("corrupted", "clean") if reverse else ("clean", "corrupted")
    does = "takes away" if reverse else "brings back"
    first, second = noted.words.splitlines()[:2]
    assert first == (
        f"{what[0].upper()}{what[1:]} {does} {number(effect, 3)} of the clean answer when it is put from the {origin} "
        f"run into the {base} run."
    )
    assert second == (
        "d is the logit of <13> minus that of <17>, after token 5: 4.000 in the clean run, −1.000 in the corrupted "
        f"run, and {number(difference)} with this value put in."
    )
    [((formula,), _)] = noted.of("latex")
    assert rf"d_\text{{{base}}}}}{{d_\text{{{origin}}} - d_\text{{{base}}}}} = " in formula
    ends = ("-1.000", "4.000") if reverse else ("4.000", "-1.000")
    assert rf" - ({ends[1]})}}{{{ends[0]} - ({ends[1]})}} = {effect:.3g}" in formula
    assert "with nothing put in, the number is 0.013" in noted.words
    assert "0.93750" in noted.words


def test_a_column_is_a_pair_of_tokens_and_a_click_is_its_token_of_the_clean_prompt(view, pair, noted):
    for sites, reverse in ((STREAM, False), (STREAM, True), (HEAD_POSITIONS, False)):
        found, of_heads = patching(pair, sites, reverse), sites == HEAD_POSITIONS
        maps.draw_map(view, pair, MapChoice(sites, reverse, "key"), found)
        ([matrix],), options = noted.of("panels")[-1]
        places = [one[0 if reverse else 1] for one in PAIRS]
        np.testing.assert_array_equal(matrix.values, (found.effect[1] if of_heads else found.effect)[:, places])
        assert matrix.column_labels == LABELS
        assert matrix.row_labels[1] == ("head 1" if of_heads else "layer 1")
        assert options["marked"] == ({"head": 2} if of_heads else {"layer": 1}) | {"position": 2}
        options["on_pick"]({"row": 0, "column": 3})
        assert noted.calls[-2:] == [
            ("choose_head", (), {"head" if of_heads else "layer": 0}), ("choose_cell", (), {"query": 4}),
        ]  # fmt: skip


def test_a_title_and_a_file_say_what_was_put_from_which_run_into_which(view, pair):
    for reverse, words in ((False, "clean into corrupted"), (True, "corrupted into clean")):
        for sites, title, file in (
            (PATHS, "Paths into the value of head 2 of layer 1", "small_layer1_head2_patched_value"),
            (HEAD_POSITIONS, "Heads of layer 1, at each token", f"small_layer1_patched_{HEAD_POSITIONS}"),
            (LOGITS, "Paths from each head into the logits", "small_patched_logits"),
            (STREAM, "Stream before each layer", f"small_patched_{STREAM}"),
        ):
            choice = MapChoice(sites, reverse, "value")
            assert maps._title(choice, view) == f"{title}, {words}"
            named = maps._named(view, pair, choice)
            assert named.file_name == f"{file}_{words.replace(' ', '_')}"
            assert words in named.title
            clean, corrupted = named.of.split("Corrupted: ")
            assert "<11>" in clean
            assert "<8>" in corrupted


def test_colours_of_effects_end_at_the_largest_of_either_sign(pair):
    found = patching(pair, STREAM)
    look = maps._look(found)
    assert (look["low"], look["high"]) == (-1.2, pytest.approx(1.2))
    assert look["caption"].endswith("The largest is 1.20.")
    found.difference[:] = 1.0
    found.difference[0, 0] = -9.0
    found.difference[0, 1] = np.nan
    look = maps._look(found)
    assert (look["low"], look["high"]) == (pytest.approx(-1.6), pytest.approx(1.6))
    assert look["caption"].endswith("The largest is 0.400.")


@pytest.mark.parametrize(("into", "sender_query"), [("query", (3, 5)), ("key", (4, 6))])
def test_rows_of_both_runs_are_of_the_token_and_its_counterpart(view, pair, noted, into, sender_query):
    """A sender's row is where it wrote: at the query, or, into a key, at the key. What is left out is counted."""
    found = patching(pair, PATHS)
    found.difference[0] = torch.tensor([3.0, 2.5, 3.5, 1.0])
    answer.draw_rows(view, pair, MapChoice(PATHS, False, into), found)
    [((matrices,), options)] = noted.of("panels")
    for matrix, (layer, head), queries in zip(matrices, ((0, 2), (1, 2)), (sender_query, (3, 5)), strict=True):
        rows = [trace.weights(layer, head)[query].numpy() for trace, query in zip((pair.clean, pair.corrupted), queries,
                                                                                  strict=True)]  # fmt: skip
        expected = [row[[one[n] for one in PAIRS]] for n, row in enumerate(rows)]
        np.testing.assert_array_equal(matrix.values, expected)
        assert matrix.title == f"Layer {layer}, head {head}: what token {queries[0]} reads"
        left = [number(float(row.sum() - some.sum()), 3) for row, some in zip(rows, expected, strict=True)]
        assert matrix.caption.endswith(f"on tokens without counterpart: clean {left[0]}, corrupted {left[1]}")
        assert matrix.column_labels == LABELS
        masks = [np.arange(len(row)) <= query for row, query in zip(rows, queries, strict=True)]
        np.testing.assert_array_equal(matrix.allowed, [mask[[one[n] for one in PAIRS]] for n, mask in enumerate(masks)])
    assert options["selected"] == (None, 3)
    options["on_pick"]({"column": 2})
    assert noted.of("choose_cell") == [((), {"key": 3})]


def test_a_sender_that_is_chosen_stays_as_long_as_a_path_leads_from_it(view, pair, noted):
    found = patching(pair, PATHS)
    for chosen, sender in ((None, (0, 3)), ((0, 1), (0, 1)), ((1, 0), (0, 3)), ((0, 4), (0, 3))):
        noted.answers["held"] = chosen
        assert maps.sender_of(view, found) == sender


def test_pairs_of_runs_are_told_apart_by_all_that_their_numbers_depend_on(model, pair):
    """By both prompts and their targets, the masks, the part, the answers and where they are read."""
    two = vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))
    first, other = (two.trace(text, target=(3, 7)) for text in (CLEAN, CORRUPTED))
    target = two.trace(CLEAN, target=(3, 8))
    masked = two.trace(CLEAN, {"decoder": "bidirectional"}, (3, 7))
    runs = [
        ComparedRuns(*some, False)
        for some in [
            (first, other, 1, 2, 1), (other, first, 1, 2, 1), (target, other, 1, 2, 1), (first, target, 1, 2, 1),
            (masked, other, 1, 2, 1), (first.of("cross"), other, 1, 2, 1), (first, other, 3, 2, 1),
            (first, other, 1, 3, 1), (first, other, 1, 2, 0),
        ]
    ]  # fmt: skip
    assert len({run.key for run in runs}) == len(runs)
