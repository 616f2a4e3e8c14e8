"""Masks are booleans made from positions."""

import numpy as np
import pytest
import torch
from torch import nn

from viz_model.errors import MaskError
from viz_model.transformer import masks


@pytest.mark.parametrize("length", [1, 2, 9])
def test_causal_is_what_torch_nn_forbids(length):
    forbidden = nn.Transformer.generate_square_subsequent_mask(length) == -torch.inf
    assert torch.equal(masks.named("causal", length), ~forbidden)


@pytest.mark.parametrize("length", [1, 5])
def test_bidirectional_permits_every_cell(length):
    mask = masks.named("bidirectional", length)
    assert mask.dtype == torch.bool
    assert np.array_equal(mask, np.full((length, length), True))


def test_masks_come_from_positions_not_from_lengths():
    """Two new tokens over a cache of five keys, and keys that do not stand in order."""
    queries = torch.tensor([3, 4])
    assert masks.causal(queries, torch.arange(5)).tolist() == [[True] * 4 + [False], [True] * 5]
    unordered = masks.causal(queries, torch.tensor([4, 0, 9]))
    assert unordered.tolist() == [[False, True, False], [True, True, False]]
    assert masks.bidirectional(queries, torch.arange(5)).shape == (2, 5)


@pytest.mark.parametrize("name", ["diagonal", "", "Causal", None])
def test_an_unknown_name_is_refused_with_the_known_ones(name):
    with pytest.raises(MaskError) as refusal:
        masks.named(name, 3)
    assert all(known in str(refusal.value) for known in masks.NAMES)


def test_padding_forbids_keys_and_leaves_queries():
    real = torch.tensor([[False, True, True], [True, True, False]])
    padded = masks.with_padding(masks.named("causal", 3), real)
    assert padded.shape == (2, 1, 3, 3)
    assert padded[0, 0].int().tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert padded[1, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    assert torch.equal(masks.with_padding(padded, real), padded)


def test_positions_count_real_tokens():
    real = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 1, 0, 1]]).bool()
    assert masks.positions_of(real).tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 2, 2], [0, 0, 1, 1, 2]]
    assert masks.last_real(real).tolist() == [4, 2, 4]


def positions(length):
    return torch.arange(length), torch.arange(length)


@pytest.mark.parametrize("width", [1, 2, 5, 9])
def test_a_window_on_the_causal_mask_is_a_band_of_numpy(width):
    allowed = masks.causal(*positions(7)) & masks.near(*positions(7), width)
    assert np.array_equal(allowed, np.tri(7, dtype=bool) & ~np.tri(7, k=-width, dtype=bool))


def test_a_window_looks_both_ways_by_itself():
    assert masks.near(torch.tensor([5]), torch.arange(9), 2)[0].int().tolist() == [0, 0, 0, 0, 1, 1, 1, 0, 0]


@pytest.mark.parametrize("length", [0, 1, 3, 6, 20])
def test_a_prefix_is_read_by_everybody_and_the_rest_causally(length):
    expected = np.tri(6, dtype=bool)
    expected[:, :length] = True
    assert np.array_equal(masks.prefix(*positions(6), length), expected)
