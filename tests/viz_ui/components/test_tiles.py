"""What the browser gets of the component `tiles`, and what is believed of what it sends."""

import numpy as np
import pytest

from tests.support.blobs import received_tiles
from viz_ui.components.shared.packing import EXACT_CELLS
from viz_ui.components.tiles import TilePicture, checked_rest, pack_tiles

RANDOM = np.random.default_rng(1)


def picture(rows, columns, width=3):
    shape = (len(rows), len(columns))
    return TilePicture(
        rows=rows,
        columns=columns,
        scores=RANDOM.normal(size=shape),
        allowed=RANDOM.random(shape) < 0.7,
        exponentials=RANDOM.random(shape),
        maximum=RANDOM.normal(size=len(rows)),
        total=RANDOM.random(len(rows)),
        rescaling=RANDOM.random(len(rows)),
        output=RANDOM.normal(size=(len(rows), width)),
        read=10,
        written=4,
    )


def packed(pictures, queries, keys, skipped=(), **choices):
    labels = ([f"{i} q" for i in range(queries)], [f"{j} k" for j in range(keys)])
    return pack_tiles(
        pictures, skipped, *labels, **({"tile": 0, "query": 0, "moved": (10, 4), "answered": 0} | choices)
    )


@pytest.mark.parametrize("size", [4, 140])
def test_the_browser_gets_every_tile(size):
    pictures = [picture(range(size), range(size)), picture(range(size, size + 2), range(size))]
    pictures[0].maximum[1] = -np.inf
    skipped = [(range(size), range(size, size + 1)), (range(size, size + 2), range(size, size + 1))]
    header, found = received_tiles(packed(pictures, size + 2, size + 1, skipped, start=(0.5, 1.0), tile=1))
    assert header["start"] == [0.5, 1.0]
    assert header["step"] == 1
    assert header["skipped"] == [[0, size, size, size + 1], [size, size + 2, size, size + 1]]
    assert header["half"] == (size * size > EXACT_CELLS)
    tolerance = 2e-3 if header["half"] else 1e-6
    for sent, got in zip(pictures, found, strict=True):
        np.testing.assert_array_equal(got["allowed"], sent.allowed)
        np.testing.assert_allclose(got["scores"], np.where(sent.allowed, sent.scores, 0), atol=tolerance)
        for name in ("exponentials", "output", "maximum", "total", "rescaling"):
            np.testing.assert_allclose(got[name], getattr(sent, name), atol=tolerance)


def test_tiles_that_leave_a_cell_out_or_read_one_twice_are_refused():
    whole = picture(range(4), range(4))
    for pictures in ([], [picture(range(3), range(4))], [whole, whole]):
        with pytest.raises(ValueError, match="do not cover 4 queries × 4 keys once"):
            packed(pictures, 4, 4)
    with pytest.raises(ValueError, match="no tile 1 among 1"):
        packed([whole], 4, 4, tile=1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 0, 3], (1, 0, 3)),
        ([-1, 4, 1], (2, 4, 1)),
        ([3, 0, 1], None),
        ([-2, 0, 1], None),
        ([0, 5, 1], None),
        ([0, -1, 1], None),
        ([0, 0, 0], None),
        ([True, 0, 1], None),
        ([0.0, 0, 1], None),
        ([0, 1], None),
        ({"tile": 0}, None),
        (None, None),
    ],
)
def test_only_tiles_and_queries_that_are_there_are_believed(value, expected):
    assert checked_rest(value, 3, 5) == expected
