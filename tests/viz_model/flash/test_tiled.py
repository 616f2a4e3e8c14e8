"""Attention in tiles against torch's fused kernel, numpy in float64, and the papers' algorithms line by line."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from tests.support.properties import examples
from tests.support.published_attention import algorithm_1_of_2022, algorithm_1_of_2023
from viz_model.errors import VizError
from viz_model.flash.tiled import OneHead, agreement, n_tiles, tiled_attention
from viz_model.flash.traffic import KEYS_OUTSIDE, ORDERS, QUERIES_OUTSIDE, tiled

SIZE = st.integers(1, 13)


@st.composite
def problems(draw):
    """q, k, v, mask and tiles of any size; masks from the triangle to chance, with rows that may read nothing."""
    queries, keys, width = draw(SIZE), draw(SIZE), draw(SIZE)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    query, key, value = (torch.randn(n, width, generator=generator, dtype=torch.float64) for n in (queries, keys, keys))
    share = draw(st.sampled_from((0.0, 0.1, 0.5, 1.0)))
    allowed = torch.rand(queries, keys, generator=generator) < share
    if draw(st.booleans()):
        allowed = torch.ones(queries, keys, dtype=torch.bool).tril()
    return (
        query,
        key,
        value,
        allowed,
        {"rows": draw(SIZE), "columns": draw(SIZE), "order": draw(st.sampled_from(ORDERS))},
    )


def softmax_attention(query, key, value, allowed, scale):
    """In float64, and with the whole row at once; rows without a permitted key are 0."""
    scores = np.where(allowed, query.double().numpy() @ key.double().numpy().T * scale, -np.inf)
    highest = scores.max(1, keepdims=True)
    exponentials = np.exp(scores - np.where(np.isneginf(highest), 0, highest))
    total = exponentials.sum(1, keepdims=True)
    return exponentials / np.where(total == 0, 1, total) @ value.double().numpy()


@examples(150)
@given(problem=problems())
def test_any_tiles_give_the_softmax_of_the_whole_row(problem):
    query, key, value, allowed, tiles = problem
    scale = query.shape[1] ** -0.5
    run = tiled_attention(OneHead(query, key, value, allowed, scale), **tiles)
    np.testing.assert_allclose(run.output, softmax_attention(query, key, value, allowed, scale), atol=1e-12)
    readable = allowed.any(1)
    fused = F.scaled_dot_product_attention(query[None], key[None], value[None], attn_mask=allowed)[0]
    torch.testing.assert_close(run.output[readable], fused[readable])
    assert not run.output[~readable].any()


@examples(80)
@given(problem=problems())
def test_tiles_cover_every_permitted_cell_once_and_their_traffic_is_that_of_the_papers(problem):
    query, key, value, allowed, tiles = problem
    run = tiled_attention(OneHead(query, key, value, allowed, 1.0), **tiles)
    covered = np.zeros(allowed.shape, int)
    for tile in run.tiles:
        covered[np.ix_(tile.rows, tile.columns)] += 1
    for rows, columns in run.skipped:
        assert not allowed[rows.start : rows.stop, columns.start : columns.stop].any()
        covered[np.ix_(rows, columns)] += 1
    assert (covered == 1).all()
    assert len(run.tiles) + len(run.skipped) == n_tiles(*allowed.shape, tiles["rows"], tiles["columns"])
    published = {KEYS_OUTSIDE: algorithm_1_of_2022, QUERIES_OUTSIDE: algorithm_1_of_2023}[tiles.pop("order")]
    memory = published(query.numpy(), key.numpy(), value.numpy(), allowed.numpy(), **tiles)
    assert (run.traffic.read, run.traffic.written) == (memory.read, memory.written)
    np.testing.assert_allclose(run.output, memory.arrays["O"], atol=1e-10)
    so_far = [tile.traffic.total for tile in run.tiles]
    assert so_far == sorted(so_far)
    if allowed.any():
        assert so_far[-1] <= run.traffic.total


@examples(60)
@given(problem=problems())
def test_after_each_tile_stands_the_attention_over_the_keys_read_so_far(problem):
    query, key, value, allowed, tiles = problem
    run = tiled_attention(OneHead(query, key, value, allowed, 0.7), **tiles)
    read = np.zeros(allowed.shape, bool)
    scores = query.numpy() @ key.numpy().T * 0.7
    for tile in run.tiles:
        read[np.ix_(tile.rows, tile.columns)] = True
        so_far = read & allowed.numpy()
        rows = list(tile.rows)
        np.testing.assert_allclose(tile.scores, scores[np.ix_(tile.rows, tile.columns)], atol=1e-12)
        highest = np.where(so_far, scores, -np.inf).max(1)[rows]
        np.testing.assert_allclose(tile.maximum, highest)
        total = (
            np.exp(np.where(so_far, scores, -np.inf)[rows] - np.where(np.isneginf(highest), 0, highest)[:, None])
        ).sum(1)
        np.testing.assert_allclose(tile.total, total)
        mixed = softmax_attention(query, key, value, so_far, 0.7)[rows]
        np.testing.assert_allclose(tile.output, mixed * total[:, None], atol=1e-10)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [1e5, -1e5])
def test_huge_scores_neither_overflow_nor_vanish(order, size):
    """Whole numbers, which float32 holds exactly: −100,000 everywhere is as good as 0 everywhere."""
    random = np.random.default_rng(3)
    query = torch.tensor(random.integers(-3, 4, (9, 4)), dtype=torch.float32)
    key, value = torch.tensor(random.integers(-3, 4, (11, 4)), dtype=torch.float32), torch.randn(11, 3)
    query[:, 0], key[:, 0] = size, 1.0  # moves every score of a row by ±100,000
    allowed = torch.tensor(random.random((9, 11)) < 0.6)
    run = tiled_attention(OneHead(query, key, value, allowed, 1.0), 4, 3, order)
    expected = softmax_attention(query, key, value, allowed, 1.0)
    np.testing.assert_allclose(run.output, expected, atol=1e-5)
    assert torch.isfinite(run.output).all()


def test_agreement_is_measured_against_float64():
    generator = torch.Generator().manual_seed(5)
    query, key, value = (torch.randn(40, 8, generator=generator) for _ in range(3))
    allowed = torch.ones(40, 40, dtype=torch.bool).tril()
    head = OneHead(query, key, value, allowed, 0.5)
    run = tiled_attention(head, 7, 5)
    exact = softmax_attention(query, key, value, allowed, 0.5)
    fused = F.scaled_dot_product_attention(query[None], key[None], value[None], is_causal=True, scale=0.5)[0]
    found = agreement(run, fused, head)
    assert found.tiled_error == pytest.approx(np.abs(run.output.numpy() - exact).max(), rel=1e-6)
    assert found.written_out_error == pytest.approx(np.abs(fused.numpy() - exact).max(), rel=1e-6)
    assert found.difference == (run.output - fused).abs().max().item()
    assert 0 < found.tiled_error < 1e-6
    wrong = agreement(run, fused + 0.25, head)
    assert wrong.difference == pytest.approx(0.25, abs=1e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_softcap_bias_and_sink_are_stages_of_every_tile(order):
    """Gemma 2's cap, numbers added to the scores (ALiBi, T5), and gpt-oss's sink, written out over whole rows."""
    random = np.random.default_rng(7)
    query, key, value, bias = (random.normal(size=shape) for shape in ((9, 4), (11, 4), (11, 3), (9, 11)))
    allowed = random.random((9, 11)) < 0.5
    allowed[4] = False
    capped = 2 * np.tanh(query @ key.T * 0.9 / 2) + bias
    exponentials = np.where(allowed, np.exp(capped), 0)
    expected = exponentials @ value / (exponentials.sum(1, keepdims=True) + np.exp(0.6))
    tensors = [torch.tensor(array) for array in (query, key, value, allowed)]
    head = OneHead(*tensors, 0.9, softcap=2.0, bias=torch.tensor(bias), sink=0.6)
    run = tiled_attention(head, 4, 3, order)
    np.testing.assert_allclose(run.output, expected, atol=1e-12)
    assert agreement(run, torch.tensor(expected), head).tiled_error < 1e-12


def test_without_a_mask_every_tile_is_read():
    query, key = torch.randn(6, 4), torch.randn(10, 4)
    run = tiled_attention(OneHead(query, key, key, torch.ones(6, 10, dtype=torch.bool), 1.0), 4, 4)
    assert len(run.tiles) == 6
    assert run.cells == 60
    assert not run.skipped
    assert run.traffic == tiled(6, 10, 4, 4, 4)


def test_tiles_without_cells_are_refused():
    with pytest.raises(VizError, match="0 × 4 has no cells"):
        tiled_attention(OneHead(*torch.randn(3, 6, 4), torch.ones(6, 6, dtype=torch.bool), 1.0), 0, 4)
