"""A chosen mask as booleans and as words; nonsense is refused with a sentence."""

import numpy as np
import pytest
import torch

from viz_model.errors import MaskError
from viz_model.masking.choice import (
    KINDS,
    MaskChoice,
    blind_queries,
    opened_and_closed,
    parse_positions,
    position_words,
)
from viz_model.masking.drawn_mask import encode_mask

CAUSAL, ALL = np.tri(6, dtype=bool), np.ones((6, 6), dtype=bool)


WINDOW = np.tri(6, dtype=bool) & ~np.tri(6, k=-3, dtype=bool)


def allowed(own=CAUSAL, **choice):
    return MaskChoice(**choice).allowed(torch.tensor(own))


@pytest.mark.parametrize("whole", [CAUSAL, ALL, WINDOW], ids=["causal", "bidirectional", "within a window"])
def test_every_kind_against_numpy(whole):
    rows, columns = np.indices((6, 6))
    drawn = whole.copy()
    drawn[2, 4] ^= True
    expected = {
        "causal": (CAUSAL, {}),
        "bidirectional": (ALL, {}),
        "sliding window": (whole & (abs(rows - columns) <= 1), {"width": 2}),
        "prefix": (CAUSAL | (columns < 3), {"length": 3}),
        "padding": (whole & ~np.isin(columns, [0, 5]), {"padded": (0, 5)}),
        "drawn by hand": (drawn, {"cells": encode_mask(drawn)}),
    }
    assert set(expected) == set(KINDS)
    for kind, (booleans, choice) in expected.items():
        assert np.array_equal(allowed(whole, kind=kind, **choice), booleans), kind


def test_queries_and_keys_of_two_texts():
    whole, rows_columns = np.ones((3, 5), dtype=bool), np.indices((3, 5))
    drawn = whole.copy()
    drawn[2, 4] = False
    expected = {
        "causal": (rows_columns[1] <= rows_columns[0], {}),
        "bidirectional": (whole, {}),
        "padding": (rows_columns[1] != 4, {"padded": (4,)}),
        "drawn by hand": (drawn, {"cells": encode_mask(drawn)}),
    }
    for kind, (booleans, choice) in expected.items():
        assert np.array_equal(allowed(whole, kind=kind, **choice), booleans), kind


def test_nothing_drawn_is_the_models_own():
    assert np.array_equal(allowed(kind="drawn by hand"), CAUSAL)
    assert np.array_equal(allowed(ALL, kind="drawn by hand"), ALL)


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"kind": "triangle"}, "There is no mask 'triangle'"),
        ({"kind": "sliding window", "width": 0}, "at least 1"),
        ({"kind": "prefix", "length": -1}, "0 or longer"),
        ({"kind": "drawn by hand", "cells": "<script>"}, "not a drawn mask"),
    ],
)
def test_nonsense_is_refused(choice, sentence):
    with pytest.raises(MaskError, match=sentence):
        MaskChoice(**choice)


def test_padding_beyond_the_prompt_is_refused_with_its_positions():
    with pytest.raises(MaskError, match="no position 6: the prompt has positions 0 to 5"):
        allowed(kind="padding", padded=(1, 6))


def test_a_mask_is_foreign_by_its_cells_not_by_its_name():
    own = torch.tensor(CAUSAL)
    assert opened_and_closed(allowed(kind="sliding window", width=6), own) == (0, 0)
    assert opened_and_closed(allowed(kind="prefix", length=1), own) == (0, 0)
    assert opened_and_closed(allowed(kind="bidirectional"), own) == (15, 0)
    assert opened_and_closed(allowed(kind="sliding window", width=1), own) == (0, 15)
    assert opened_and_closed(~own, own) == (15, 21)


def test_queries_that_may_read_nothing():
    assert blind_queries(allowed(kind="causal")) == []
    assert blind_queries(allowed(kind="padding", padded=(0, 1))) == [0, 1]
    assert blind_queries(torch.zeros(3, 3, dtype=torch.bool)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "positions"),
    [
        ("", ()),
        ("  ", ()),
        ("3", (3,)),
        ("0-2, 5", (0, 1, 2, 5)),
        ("5 0 – 2;2", (0, 1, 2, 5)),
        ("9,,9", (9,)),
    ],
)
def test_positions_as_a_person_writes_them(text, positions):
    assert parse_positions(text, 10) == positions
    assert parse_positions(position_words(positions), 10) == positions


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("one", "“one” is no position"),
        ("1.5", "no position"),
        ("-1", "no position"),
        ("4-2", "Write 2-4"),
        ("0-10", "There is no position 10"),
        ("0-999999", "There is no position 999999"),
        ("99999999999", "no position"),
        ("٣", "no position"),
    ],
)
def test_what_is_no_position_is_refused(text, sentence):
    with pytest.raises(MaskError, match=sentence):
        parse_positions(text, 10)


def test_words():
    assert MaskChoice("sliding window", width=3).words == "sliding window of 3"
    assert MaskChoice("prefix", length=4).words == "prefix of 4"
    assert MaskChoice("padding", padded=(0, 1, 2, 5)).words == "padding at 0–2, 5"
    assert MaskChoice("padding").words == "padding nowhere"
    assert MaskChoice("causal").words == "causal"
