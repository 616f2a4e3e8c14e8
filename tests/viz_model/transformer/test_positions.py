"""The sinusoidal table and the rotary rotation, against the papers' formulas and other libraries."""

import math

import numpy as np
import pytest
import torch
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama

from tests.reference.written_out import rotated
from viz_model.transformer.positions import rotary_angles, rotate, sinusoidal_table

PAIRS = ("halves", "neighbours")


@pytest.mark.parametrize("width", [2, 6, 64])
def test_sinusoidal_table_is_the_formula_of_the_paper(width):
    """Vaswani et al. 2017, §3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same."""
    table = sinusoidal_table(3000, width)
    assert (table.shape, table.dtype) == ((3000, width), torch.float32)
    for position in (0, 1, 7, 2999):
        for i in range(width // 2):
            angle = position / 10000 ** (2 * i / width)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize(("width", "base"), [(2, 10000.0), (6, 50.0), (8, 500000)])
def test_rotation_is_a_product_of_complex_numbers(pairs, width, base):
    positions = torch.tensor([0, 1, 2, 33, 4095])
    x = torch.randn(2, 3, 5, width, generator=torch.Generator().manual_seed(width))
    turned = rotate(x, rotary_angles(positions, width, base), pairs)
    np.testing.assert_allclose(turned, rotated(x, positions, base, pairs), atol=2e-6)


def test_halves_are_the_pairs_of_transformers_llama():
    positions, x = torch.arange(9), torch.randn(1, 2, 9, 8)
    angles = rotary_angles(positions, 8, 10000.0)
    doubled = torch.cat((angles, angles), -1)[None].float()
    theirs, _ = modeling_llama.apply_rotary_pos_emb(x, x, doubled.cos(), doubled.sin())
    torch.testing.assert_close(rotate(x, angles, "halves"), theirs, atol=1e-6, rtol=0)


def test_neighbours_are_the_pairs_of_transformers_gptj():
    positions, x = torch.arange(9), torch.randn(1, 2, 9, 8)
    sin, cos = modeling_gptj.create_sinusoidal_positions(9, 8)[None].chunk(2, -1)
    theirs = modeling_gptj.apply_rotary_pos_emb(x.transpose(1, 2), sin, cos).transpose(1, 2)
    ours = rotate(x, rotary_angles(positions, 8, 10000.0), "neighbours")
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)


@pytest.mark.parametrize("pairs", PAIRS)
def test_products_depend_on_the_distance_alone_and_lengths_stay(pairs):
    query, key = torch.randn(2, 8, generator=torch.Generator().manual_seed(5)).unbind()

    def product(query_position, key_position):
        angles = rotary_angles(torch.tensor([query_position, key_position]), 8, 10000.0)
        both = rotate(torch.stack((query, key))[None, None], angles, pairs)[0, 0]
        assert both.norm(dim=-1).tolist() == pytest.approx([query.norm().item(), key.norm().item()], rel=1e-6)
        return (both[0] @ both[1]).item()

    assert product(0, 0) == pytest.approx((query @ key).item(), abs=1e-6)
    for distance in (-4, 0, 1, 7):
        here = product(10 + distance, 10)
        assert [product(s + distance, s) for s in (4, 57, 4000)] == pytest.approx([here] * 3, abs=1e-5)
    assert product(13, 10) != pytest.approx(product(10, 13), abs=1e-3)


@pytest.mark.parametrize("pairs", PAIRS)
def test_each_row_of_a_batch_may_have_its_own_positions(pairs):
    positions, x = torch.tensor([[0, 0, 1, 2], [5, 6, 7, 8]]), torch.randn(2, 3, 4, 6)
    together = rotate(x, rotary_angles(positions, 6, 10000.0).unsqueeze(-3), pairs)
    for row in range(2):
        np.testing.assert_allclose(together[row], rotated(x[row], positions[row], 10000.0, pairs), atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("pairs", PAIRS)
def test_half_precision_stays_half_precision(dtype, pairs):
    positions, x = torch.arange(5), torch.randn(1, 1, 5, 8).to(dtype)
    turned = rotate(x, rotary_angles(positions, 8, 10000.0), pairs)
    assert turned.dtype == dtype
    np.testing.assert_allclose(turned.float(), rotated(x.float(), positions, 10000.0, pairs), atol=0.05)
