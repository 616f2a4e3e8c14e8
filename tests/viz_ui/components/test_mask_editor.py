"""What the mask editor sends to the browser, and what it believes of what comes back."""

import base64

import numpy as np
import pytest

from viz_ui.components.mask_editor import checked_drawing, pack_editor
from viz_ui.components.shared.packing import unpack

LABELS = ["0 a", "1 b", "2 c"]
CELLS = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1]], dtype=bool)


def packed(cells):
    return base64.b64encode(np.packbits(cells).tobytes()).decode()


def test_the_blob_holds_labels_and_one_bit_a_cell():
    header, body = unpack(pack_editor(CELLS, LABELS, LABELS, name="Mask A", cursor=(2, 9), answered=4))
    assert (header["rows"], header["columns"]) == (LABELS, LABELS)
    assert (header["name"], header["answered"]) == ("Mask A", 4)
    assert header["cursor"] == [2, 2]  # brought into the mask
    assert header["states"] == ["open", "closed (−∞)"]
    assert np.array_equal(np.unpackbits(np.frombuffer(body, np.uint8), count=9), CELLS.ravel())


@pytest.mark.parametrize("cells", [CELLS[:2], CELLS.astype(int), np.ones((4, 4), bool), np.ones((0, 0), bool)])
def test_cells_that_do_not_fit_the_labels_are_refused(cells):
    with pytest.raises(ValueError, match="booleans"):
        pack_editor(cells, LABELS, LABELS, name="Mask A")


def test_a_drawing_from_the_browser():
    cells, stroke = checked_drawing([packed(CELLS), 7], (3, 3))
    assert np.array_equal(cells, CELLS)
    assert stroke == 7


def test_queries_and_keys_of_two_texts():
    header, body = unpack(pack_editor(CELLS[:2], LABELS[:2], LABELS, name="Mask A", cursor=(9, 9)))
    assert (header["rows"], header["columns"], header["cursor"]) == (LABELS[:2], LABELS, [1, 2])
    cells, _ = checked_drawing([packed(CELLS[:2]), 7], (2, 3))
    assert np.array_equal(cells, CELLS[:2])
    assert np.array_equal(np.unpackbits(np.frombuffer(body, np.uint8), count=6), CELLS[:2].ravel())
    assert checked_drawing([packed(CELLS), 7], (2, 3)) is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        "AAA=",
        [],
        [packed(CELLS)],
        [packed(CELLS), 7, 8],
        [packed(CELLS), "7"],
        [packed(CELLS), True],
        [packed(CELLS), 0],
        [packed(CELLS), 1.5],
        [None, 7],
        ["", 7],
        ["not base64!", 7],
        ["é", 7],
        [packed(np.ones((4, 4), bool)) + "AAAA", 7],
        ["AAAA" * 100_000, 7],
    ],
    ids=lambda value: repr(value)[:30],
)
def test_anything_else_from_the_browser_is_passed_over(value):
    assert checked_drawing(value, (3, 3)) is None
