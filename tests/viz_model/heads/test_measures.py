"""Measures of a head against scipy and against loops."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy as scipy_entropy

from tests.support.head_measures import loops
from tests.support.properties import examples
from tests.support.small_models import random_ids, small_model
from viz_model.errors import VizError
from viz_model.heads.measures import (
    HEAD_MEASURES,
    entropy,
    head_measures,
    induction_share,
    layer_measures,
    previous_token_share,
    telling_cell,
    value_weighted,
)
from viz_model.model import Model

HOST = Model("small", small_model())


def causal_weights(*leading, length, seed=0, sharp=3.0):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(*leading, length, length, generator=generator) * sharp
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, -torch.inf).softmax(-1)


@examples(50)
@given(st.integers(1, 20), st.integers(0, 99), st.floats(0, 30))
def test_entropy_is_scipys(length, seed, sharp):
    weights = causal_weights(2, length=length, seed=seed, sharp=sharp)
    expected = scipy_entropy(weights.double().numpy(), base=2, axis=-1)
    np.testing.assert_allclose(entropy(weights), expected, atol=2e-5)
    assert (entropy(weights) >= 0).all()


def test_entropy_of_known_rows():
    rows = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25] * 4, [0.0] * 4, [0.5, 0.25, 0.125, 0.125]])
    assert entropy(rows).tolist() == [0, 1, 2, 0, 1.75]
    for one in (torch.tensor([1.0]), torch.tensor([1.0000001])):  # a prompt of one token, and rounding
        assert entropy(one) == 0
        assert not np.signbit(entropy(one).numpy())  # or the page says −0.00 bits


@pytest.mark.parametrize("length", [1, 2, 3, 17])
def test_measures_of_a_head_are_those_of_a_loop(length):
    weights = causal_weights(2, 3, length=length)
    found = head_measures(weights)
    assert set(found) == set(HEAD_MEASURES)
    for layer, head in np.ndindex(2, 3):
        for name, value in loops(weights[layer, head]).items():
            assert float(found[name][layer, head]) == pytest.approx(value, abs=1e-5, nan_ok=True)
    expected = [[loops(matrix)["previous"] for matrix in layer] for layer in weights]
    np.testing.assert_allclose(previous_token_share(weights), expected, atol=1e-6)


@pytest.mark.parametrize("stored_weights_bytes", [0, 1 << 20])
@pytest.mark.parametrize("length", [1, 2, 13])
def test_measures_of_all_heads(length, stored_weights_bytes):
    trace = HOST.trace(random_ids(length).tolist(), stored_weights_bytes=stored_weights_bytes)
    found = [layer_measures(trace, layer) for layer in range(2)]
    for layer, head in np.ndindex(2, 4):
        for name, value in loops(trace.weights(layer, head)).items():
            assert float(found[layer][name][head]) == pytest.approx(value, abs=1e-5, nan_ok=True)
    assert all(values.shape == (4,) for measures in found for values in measures.values())


def test_measures_count_rows_that_may_attend_to_nothing():
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[3] = False
    trace = HOST.trace(random_ids(5).tolist(), mask)
    found = [layer_measures(trace, layer) for layer in range(2)]
    assert all(torch.isfinite(values).all() for measures in found for values in measures.values())


def test_value_weighted_is_the_length_of_what_each_cell_carries():
    trace = HOST.trace(random_ids(9).tolist())
    for layer, head in np.ndindex(2, 4):
        group = head // 2  # four heads read two key/value heads
        found = value_weighted(trace, layer, head)
        for i, j in np.ndindex(9, 9):
            carried = trace.weights(layer, head)[i, j].item() * trace.v(layer)[group, j].double().numpy()
            assert float(found[i, j]) == pytest.approx(np.sqrt((carried**2).sum()), abs=1e-6, rel=1e-5)


@pytest.mark.parametrize(("layer", "head", "words"), [(0, 4, "no head 4"), (0, -1, "no head -1"), (2, 0, "no layer 2")])
def test_value_weighted_of_no_head(layer, head, words):
    with pytest.raises(VizError, match=words):
        value_weighted(HOST.trace([1, 2]), layer, head)


@pytest.mark.parametrize("half", [2, 3, 8])
def test_induction_share_is_that_of_a_loop(half):
    weights = causal_weights(2, 3, length=2 * half)
    found = induction_share(weights, half)
    segment = list(range(half))
    tokens = segment + segment
    for layer, head in np.ndindex(2, 3):
        shares = []
        for query in range(half, 2 * half):
            earlier = tokens.index(tokens[query])  # the copy before
            assert earlier < half
            shares.append(float(weights[layer, head, query, earlier + 1]))
        assert float(found[layer, head]) == pytest.approx(np.mean(shares), abs=1e-6)


def test_induction_share_of_a_perfect_and_of_a_blind_head():
    half = 6
    perfect = torch.zeros(2 * half, 2 * half)
    perfect[:half, 0] = 1
    for query in range(half, 2 * half):
        perfect[query, query - half + 1] = 1
    assert float(induction_share(perfect, half)) == 1
    itself = torch.eye(2 * half)
    assert float(induction_share(itself, half)) == 0
    copy = torch.roll(torch.eye(2 * half), -half, 1)  # looks at the earlier copy, not after it
    assert float(induction_share(copy, half)) == 0


@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 9])
@examples(10)
@given(seed=st.integers(0, 99))
def test_the_telling_cell_is_found_by_a_loop(mask, length, seed):
    trace = HOST.trace(random_ids(length, seed=seed), mask)
    layer, head = seed % trace.n_layers, seed % trace.config.n_heads
    weights, allowed = trace.weights(layer, head).double().numpy(), trace.mask(layer).numpy()
    cells = [(i, j) for i in range(length) for j in range(length) if allowed[i, j]]
    another = [(i, j) for i, j in cells if i != j]
    inner = [(i, j) for i, j in another if 0 < i < length - 1 and j > 0]
    against_even = {(i, j): weights[i, j] * np.log2(weights[i, j] * allowed[i].sum()) for i, j in cells}
    best = max(inner or another or cells, key=against_even.get)
    found = telling_cell(trace, layer, head)
    assert found in (inner or another or cells)
    assert against_even[found] == pytest.approx(against_even[best], abs=1e-5)
