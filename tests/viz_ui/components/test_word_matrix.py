"""A matrix of words: what the script gets, and which events count."""

import numpy as np
import pytest

from viz_ui.components.shared.packing import unpack
from viz_ui.components.word_matrix import WordMatrix, checked_pick, pack_words

WORDS = [["a", "b", "c"], ["d", "e", "f"]]
NUMBERS = {"probability": np.arange(6.0).reshape(2, 3), "entropy": np.full((2, 3), np.nan)}


def matrix(**changes):
    given = {"words": WORDS, "numbers": NUMBERS, "row_labels": ["0", "1"], "column_labels": ["x", "y", "z"]} | changes
    return WordMatrix("Likeliest", **given)


def test_what_the_script_gets():
    head, rest = unpack(pack_words(matrix(before=4, after=2, high=5.0), (1, 2)))
    assert head["words"] == WORDS
    assert (head["kinds"], head["high"], head["chosen"]) == (["probability", "entropy"], 5.0, [1, 2])
    assert (head["before"], head["after"]) == (4, 2)
    numbers = np.frombuffer(rest[:48], np.float32)
    np.testing.assert_array_equal(numbers, [*range(6), *[np.nan] * 6])
    assert len(rest) == 48 + 768


@pytest.mark.parametrize(
    "changes",
    [
        {"words": [["a", "b", "c"]]},
        {"words": [["a"], ["b"]]},
        {"numbers": {"probability": np.zeros((3, 2))}},
        {"numbers": {}},
        {"row_labels": []},
        {"high": 0.0},
        {"high": float("inf")},
    ],
)
def test_what_does_not_fit_is_refused(changes):
    with pytest.raises(ValueError, match="Likeliest"):
        matrix(**changes)


@pytest.mark.parametrize(
    "event", [None, 3, "01", [0], [0, 1, 2], [2, 0], [0, 3], [-1, 0], [0.0, 1], [True, 0], [[0], 1]]
)
def test_only_cells_that_are_there_count(event):
    assert checked_pick(event, (2, 3)) is None


def test_a_cell_that_is_there():
    assert checked_pick([1, 2], (2, 3)) == (1, 2)
