"""Thumbnails against loops written out, and the blob that the grid of heads is drawn from."""

import json
import time

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from viz_ui.components.head_grid import checked_pick, head_grid, pack_grid
from viz_ui.components.shared.packing import unpack
from viz_ui.look.colours import sequential_lut
from viz_ui.look.thumbnails import thumbnails


def written_out(matrix, low, high, allowed, size):
    """One (T,S) matrix pooled cell by cell: colour steps, and which blocks hold a permitted cell."""
    (length, width), blocks = matrix.shape, [min(n, size) for n in matrix.shape]
    steps, seen = np.zeros(blocks, np.uint8), np.zeros(blocks, bool)
    for row in range(blocks[0]):
        for column in range(blocks[1]):
            cells = [
                float(matrix[i, j])
                for i in range(row * length // blocks[0], (row + 1) * length // blocks[0])
                for j in range(column * width // blocks[1], (column + 1) * width // blocks[1])
                if allowed is None or allowed[i, j]
            ]
            if cells:
                seen[row, column] = True
                best = max(cells, key=lambda value: (abs(value), value)) if low < 0 else max(cells)
                part = (min(max(best, low), high) - low) / (high - low)
                steps[row, column] = round(255 * part)
    return steps, seen


@pytest.mark.parametrize("shape", [(12, 12), (32, 32), (33, 33), (64, 64), (100, 100), (5, 70), (70, 5)])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-2.0, 2.0)])
@pytest.mark.parametrize("mask", [None, "causal", "each"])
def test_thumbnails_equal_the_written_out_loop(shape, low, high, mask):
    random = np.random.default_rng(3)
    matrices = random.normal(0, 1, (2, 3, *shape)).astype(np.float32)
    allowed = {"causal": np.tri(*shape, dtype=bool), "each": random.random((2, 3, *shape)) > 0.7}.get(mask)
    steps, seen = thumbnails(matrices, low, high, allowed)
    assert steps.dtype == np.uint8
    for layer in range(2):
        for head in range(3):
            own = allowed[layer, head] if mask == "each" else allowed
            expected, permitted = written_out(matrices[layer, head], low, high, own, 32)
            # float32 against float64 arithmetic: one step apart where a value lies between two of them
            difference = steps[layer, head].astype(int) - expected
            assert np.abs(difference).max() <= 1
            assert np.count_nonzero(difference) <= 0.002 * difference.size
            if mask:
                np.testing.assert_array_equal(seen[layer, head] if mask == "each" else seen, permitted)
    assert (seen is None) == (mask is None)


def test_one_strong_cell_in_a_thousand_survives():
    matrix = np.zeros((1, 1, 1000, 1000), np.float32)
    matrix[0, 0, 777, 333] = 1
    steps, _ = thumbnails(matrix, 0, 1)
    assert steps.max() == 255
    assert np.argwhere(steps[0, 0]).tolist() == [[777 * 32 // 1000, 333 * 32 // 1000]]


def test_masked_scores_never_win_and_minus_infinity_does_no_harm():
    scores = np.full((1, 1, 64, 64), -1.0, np.float32)
    scores[..., ~np.tri(64, dtype=bool)] = 9.0
    steps, _ = thumbnails(scores, 0, 9, np.tri(64, dtype=bool))
    assert steps.max() == 0
    scores[scores > 0] = -np.inf
    with np.errstate(all="raise"):
        steps, seen = thumbnails(scores, -2, 2, np.tri(64, dtype=bool))
    assert set(steps[0, 0][seen]) == {64}  # -1 lies a quarter of the way from -2 to 2
    assert not seen[0, 1]
    assert seen[1, 1]


@pytest.mark.slow
def test_thumbnails_are_quick_enough_for_every_rerun():
    random = np.random.default_rng(0)
    for shape, milliseconds in (((4, 8, 256, 256), 15), ((30, 9, 64, 64), 20)):
        weights, mask = random.random(shape, dtype=np.float32), np.tri(shape[-1], dtype=bool)
        times = []
        for _ in range(15):
            start = time.perf_counter()
            thumbnails(weights, 0, 1, mask)
            times.append(time.perf_counter() - start)
        assert min(times) * 1000 < milliseconds


def packed(shape=(2, 3, 4, 5), allowed=None, **changes):
    steps = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    return steps, pack_grid(steps, allowed, sequential_lut(), name="heads", **changes)


@pytest.mark.parametrize("each", [False, True])
def test_the_blob_holds_colours_steps_and_one_bit_a_masked_cell(each):
    allowed = np.random.default_rng(1).random((2, 3, 4, 5) if each else (4, 5)) > 0.5
    steps, blob = packed(allowed=allowed, labels=[["a", "", "b"], ["", "", "c"]], labels_from="d")
    header, content = unpack(blob)
    assert (header["layers"], header["heads"], header["rows"], header["columns"]) == (2, 3, 4, 5)
    assert (header["name"], header["maskForEach"]) == ("heads", each)
    assert (header["notes"], header["notesFrom"]) == (["a", "", "b", "", "", "c"], "d")
    content = np.frombuffer(content, np.uint8)
    lut, drawn, bits = np.split(content, [768, 768 + steps.size])
    np.testing.assert_array_equal(lut.reshape(256, 3), sequential_lut())
    np.testing.assert_array_equal(drawn.reshape(steps.shape), steps)
    assert len(bits) == header["maskBytes"]
    unpacked = [bool(bits[cell // 8] >> (7 - cell % 8) & 1) for cell in range(allowed.size)]
    np.testing.assert_array_equal(np.reshape(unpacked, allowed.shape), ~allowed)


def test_without_a_mask_no_bits_travel():
    steps, blob = packed()
    header, content = unpack(blob)
    assert header["maskBytes"] == 0
    assert len(content) == 768 + steps.size


def test_a_large_model_stays_within_the_budget_of_a_page():
    _, blob = packed((30, 9, 32, 32), allowed=np.tri(32, dtype=bool))
    assert len(blob) < 300_000


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"allowed": np.ones((5, 4), bool)}, "mask of shape"),
        ({"labels": [["a", "b", "c"]]}, "one text for each"),
        ({"key_heads": [0, 1]}, "each of 3 heads"),
        ({"key_heads": [0, 1, 0]}, "rising number"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes, words):
    with pytest.raises(ValueError, match=words):
        packed(**changes)


@pytest.mark.parametrize(("layer", "head"), [(2, 0), (0, -1), (0, 3)])
def test_a_head_that_is_not_there_is_refused(layer, head):
    steps = np.zeros((2, 3, 4, 5), np.uint8)
    with pytest.raises(ValueError, match=f"no layer {layer}, head {head}"):
        head_grid(steps, None, sequential_lut(), layer=layer, head=head, key="heads")


def test_the_pictures_are_not_sent_again_for_another_choice():
    """Streamlit leaves out a message whose bytes the browser still has; the choice has one of its own."""

    def page():
        import numpy as np
        import streamlit as st

        from viz_ui.components.head_grid import head_grid
        from viz_ui.look.colours import sequential_lut

        steps = np.arange(120, dtype=np.uint8).reshape(2, 3, 4, 5)
        layer, head = st.session_state.get("now", (0, 0))
        head_grid(steps, None, sequential_lut(), layer=layer, head=head, key="heads")

    test = AppTest.from_function(page).run()
    before, choice = (element.proto for element in test.get("bidi_component"))
    assert json.loads(choice.json) == {"grid": "heads", "layer": 0, "head": 0, "answered": 0}
    test.session_state.now = (1, 2)
    after, choice = (element.proto for element in test.run().get("bidi_component"))
    assert after == before
    assert json.loads(choice.json) == {"grid": "heads", "layer": 1, "head": 2, "answered": 0}


def test_an_event_from_the_browser_is_believed_only_inside_the_grid():
    assert checked_pick([1, 2, 7], (2, 3)) == (1, 2, 7)
    outside = [[2, 0, 1], [0, 3, 1], [-1, 0, 1], [0, 0, 0]]
    for forged in (*outside, None, [0], [0, 1], ["0", 1, 1], [True, 0, 1], [0.0, 1, 1], [0, 1, None], {"layer": 0}):
        assert checked_pick(forged, (2, 3)) is None
