"""A drawn mask comes back from its text cell by cell, whatever was drawn; a damaged text is refused."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays

from viz_model.errors import MaskError
from viz_model.masking.drawn_mask import MOST_TOKENS, decode_mask, drawn_shape, encode_mask

squares = some.integers(1, 24).flatmap(lambda length: arrays(bool, (length, length)))
rectangles = arrays(bool, some.tuples(some.integers(1, 12), some.integers(1, 12)))


def own(length):
    return torch.ones(length, length).tril().bool()


@given(squares)
def test_any_drawing_comes_back_and_fits_an_address(drawn):
    code = encode_mask(drawn)
    assert re.fullmatch(r"[0-9A-Za-z._-]+", code)  # nothing that an address would have to escape
    assert drawn_shape(code) == drawn.shape
    assert np.array_equal(decode_mask(code, own(len(drawn))), drawn)
    assert encode_mask(torch.tensor(drawn)) == code


@given(squares, some.integers(1, 30))
def test_for_another_prompt_the_common_cells_are_kept_and_the_others_are_the_models(drawn, length):
    common = min(length, len(drawn))
    expected = np.tri(length, dtype=bool)
    expected[:common, :common] = drawn[:common, :common]
    assert np.array_equal(decode_mask(encode_mask(drawn), own(length)), expected)


@given(rectangles, some.integers(1, 14), some.integers(1, 14))
def test_of_two_texts_the_common_cells_are_kept_too(drawn, queries, keys):
    code, cells = encode_mask(drawn), torch.ones(queries, keys, dtype=torch.bool)
    assert drawn_shape(code) == drawn.shape
    assert np.array_equal(decode_mask(code, torch.ones(drawn.shape, dtype=torch.bool)), drawn)
    expected = np.ones((queries, keys), dtype=bool)
    rows, columns = min(queries, len(drawn)), min(keys, drawn.shape[1])
    expected[:rows, :columns] = drawn[:rows, :columns]
    assert np.array_equal(decode_mask(code, cells), expected)


def test_usual_drawings_are_short_and_noise_of_256_tokens_still_fits():
    one_cell = np.tri(200, dtype=bool)
    one_cell[3, 150] = True
    assert len(encode_mask(one_cell)) < 60
    noise = np.random.default_rng(0).random((256, 256)) < 0.5
    assert len(encode_mask(noise)) < 11_500


@pytest.mark.parametrize("code", ["", "12", "12.", ".abc", "0.eJw", "x.eJw", "9999.eJw", "12.é", "12.a b", "-3.eJw"])
def test_what_is_no_drawing_is_refused(code):
    with pytest.raises(MaskError, match="not a drawn mask"):
        drawn_shape(code)


@given(squares, some.data())
def test_a_text_that_was_cut_or_changed_is_refused(drawn, data):
    code = encode_mask(drawn)
    start = code.index(".") + 1
    at = data.draw(some.integers(start, len(code) - 3))
    letter = data.draw(some.sampled_from([letter for letter in "abcXYZ019-_" if letter != code[at]]))
    for damaged in (code[:at], code + "AAAA"):
        with pytest.raises(MaskError):
            decode_mask(damaged, own(len(drawn)))
    try:
        read = decode_mask(code[:at] + letter + code[at + 1 :], own(len(drawn)))
    except MaskError:
        return
    np.testing.assert_array_equal(read, drawn)  # compressed data has spare bits, which say nothing


def test_a_small_text_cannot_make_much_memory():
    bomb = encode_mask(np.tri(MOST_TOKENS, dtype=bool)).replace(f"{MOST_TOKENS}.", "3.")
    with pytest.raises(MaskError, match="cut or changed"):
        decode_mask(bomb, own(3))


@pytest.mark.parametrize("cells", [np.ones((2, 2)), np.ones((0, 0), bool), np.ones(4, bool)])
def test_only_booleans_of_two_axes_can_be_written(cells):
    with pytest.raises(MaskError, match="booleans"):
        encode_mask(cells)
