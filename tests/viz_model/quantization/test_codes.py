"""Quantized matrices against numpy, scipy and the papers' own numbers; bitsandbytes stands in tests/reference."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from tests.support.properties import examples
from viz_model.quantization.cells import level_counts, quantized_cell
from viz_model.quantization.codes import NF4_LEVELS, Int8Rows, NF4Blocks, float8_levels
from viz_model.quantization.twin import QuantizedTensor, WeightPlace

SIZES = st.tuples(st.integers(1, 9), st.integers(1, 150))


def matrix(shape, seed=0, size=1.0):
    values = np.random.default_rng(seed).normal(size=shape) * size
    return torch.tensor(values, dtype=torch.float32)


def opened(weights, kind):
    return QuantizedTensor(WeightPlace("blocks.0.attn.query", "", 0, True), weights, kind.of(weights), 0.0, 0.0, 0.0)


def test_the_levels_of_nf4_are_quantiles_of_a_normal_distribution():
    """QLoRA, §3 and appendix E: eight quantiles below 0, 0 itself, seven above; the outermost stand at ±1."""
    outermost = 1 - (1 / 32 + 1 / 30) / 2
    above = norm.ppf(np.linspace(outermost, 0.5, 9)[:-1])
    below = -norm.ppf(np.linspace(outermost, 0.5, 8)[:-1])
    levels = np.sort(np.concatenate([above, [0], below]))
    np.testing.assert_allclose(NF4_LEVELS, levels / levels.max(), atol=1e-6)


def test_bits_a_weight_are_those_of_the_paper():
    """QLoRA, §3: constants take 32/64 = 0.5 bits a weight, doubly quantized 8/64 + 32/(64·256) = 0.127."""
    weights = matrix((512, 640))
    stored, count = NF4Blocks.of(weights), weights.numel()
    assert 8 * stored.code_bytes / count == 4
    assert 8 * stored.plain_constant_bytes / count == 0.5
    assert 8 * stored.constant_bytes / count == pytest.approx(8 / 64 + 32 / (64 * 256), abs=1e-4)  # and one mean
    rows = Int8Rows.of(weights)
    assert (rows.code_bytes, rows.constant_bytes) == (count, 4 * 512)


@examples(30)
@given(shape=SIZES, seed=st.integers(0, 99), size=st.sampled_from([1e-6, 0.02, 3.0]))
def test_nf4_takes_the_nearest_level_and_packs_two_codes_in_a_byte(shape, seed, size):
    weights = matrix(shape, seed, size)
    stored, flat = NF4Blocks.of(weights), weights.numpy().ravel().astype(float)
    codes, levels = stored.codes().numpy().ravel(), NF4_LEVELS.numpy().astype(float)
    largest = [np.abs(flat[at : at + 64]).max() for at in range(0, len(flat), 64)]
    scaled = flat / np.repeat(largest, 64)[: len(flat)]
    distance = np.abs(scaled[:, None] - levels)
    assert (distance[np.arange(len(flat)), codes] <= distance.min(1) + 1e-6).all()
    unpacked = np.stack([stored.stored.numpy() >> 4, stored.stored.numpy() & 15], 1).ravel()
    np.testing.assert_array_equal(unpacked[: len(flat)], codes)
    # the constants, rounded too, are off by half a step of the coarsest levels of their 8 bits
    constants = stored.block_constants.dequantized().numpy()
    np.testing.assert_allclose(constants, largest, atol=0.0071 * np.abs(largest - np.mean(largest)).max() + 1e-12)
    back = levels[codes] * np.repeat(constants, 64)[: len(flat)]
    np.testing.assert_allclose(stored.dequantized().numpy().ravel(), back, rtol=1e-5, atol=1e-12)
    np.testing.assert_array_equal(stored.constants().numpy().ravel(), np.repeat(constants, 64)[: len(flat)])


@examples(30)
@given(shape=SIZES, seed=st.integers(0, 99), size=st.sampled_from([1e-6, 0.02, 3.0]))
def test_int8_rounds_each_row_to_127_steps_of_its_largest(shape, seed, size):
    weights = matrix(shape, seed, size)
    stored, exact = Int8Rows.of(weights), weights.numpy().astype(float)
    largest = np.abs(exact).max(1, keepdims=True)
    assert np.abs(stored.codes().numpy() - 127 * exact / largest).max() <= 0.5 + 1e-4
    assert np.abs(stored.codes().numpy()).max() == 127
    error = np.abs(stored.dequantized().numpy() - exact)
    assert (error <= largest / 254 * 1.001).all()


@pytest.mark.parametrize("kind", [NF4Blocks, Int8Rows])
def test_zeros_stay_zeros(kind):
    weights = torch.zeros(3, 70)
    assert torch.equal(kind.of(weights).dequantized(), weights)
    weights[1] = matrix(70)
    half_empty = kind.of(weights).dequantized()
    assert torch.equal(half_empty[0, :58], weights[0, :58])  # of NF4, the last 12 share a block with the next row
    assert half_empty.isfinite().all()


def test_the_8_bit_floats_are_finer_near_zero():
    levels = float8_levels().numpy()
    assert len(levels) == 256
    assert levels[[0, -1]].tolist() == pytest.approx([-0.993, 1.0], abs=1e-3)
    steps = np.diff(levels)
    assert steps[127] < 1e-6 < steps[0] / 1000  # around 0, and at the end


@pytest.mark.parametrize(("kind", "levels"), [(NF4Blocks, 16), (Int8Rows, 255)])
def test_weights_are_counted_before_and_after(kind, levels):
    weights = matrix((6, 200), 3)
    tensor = opened(weights, kind)
    counts, codes = level_counts(tensor, bins=50), tensor.after.codes().numpy().astype(int)
    exact = weights.numpy().astype(float)
    if kind is Int8Rows:
        scaled = exact / np.abs(exact).max(1, keepdims=True)
    else:
        flat = exact.ravel()
        scaled = np.concatenate([flat[at : at + 64] / np.abs(flat[at : at + 64]).max() for at in range(0, 1200, 64)])
    assert counts.before.sum() == counts.after.sum() == weights.numel()
    expected, _ = np.histogram(scaled, bins=50, range=(-1, 1))
    assert np.abs(counts.before.numpy() - expected).sum() <= 4  # a number on an edge may fall to either side
    assert len(counts.levels) == levels
    for code in (codes.min(), codes[2, 50], codes.max()):
        assert counts.after[code - tensor.after.first_code] == (codes == code).sum()


def test_one_weight_and_its_block():
    weights = matrix((5, 70), 4)
    cell, flat = quantized_cell(opened(weights, NF4Blocks), 1, 3), weights.numpy().ravel()
    assert (cell.first, cell.last) == ((0, 64), (1, 57))  # weight 73 of the second block of 64
    assert cell.maximum == np.abs(flat[64:128]).max()
    assert cell.scaled == pytest.approx(flat[73] / cell.maximum)
    assert cell.level == min(NF4_LEVELS.tolist(), key=lambda level: abs(level - cell.scaled))
    assert cell.after == pytest.approx(cell.constant * cell.level)
    assert cell.error == cell.after - cell.weight
    last = quantized_cell(opened(weights, NF4Blocks), 4, 69)
    assert (last.first, last.last) == ((4, 40), (4, 69))  # 350 = 5 · 64 + 30


def test_one_weight_and_its_row():
    weights = matrix((5, 70), 5)
    cell = quantized_cell(opened(weights, Int8Rows), 2, 69)
    assert (cell.first, cell.last) == ((2, 0), (2, 69))
    assert cell.maximum == cell.constant == weights[2].abs().max()
    assert cell.code == round(127 * weights[2, 69].item() / cell.maximum)
    assert cell.after == pytest.approx(cell.maximum * cell.code / 127)
