"""The figures of copying against numpy, on a model whose heads do what is measured for sure."""

import numpy as np
import pytest
import torch

from tests.support.small_models import VOCABULARY, small_model
from viz_model.model import Model
from viz_model.training.figures.repeats import measure_repeats, repeated_rows

TOKENS = np.array([3, 7, 11, 19, 23])


def test_rows_are_random_ones_of_the_tokens_and_the_same_again():
    ids = repeated_rows(TOKENS, 200, 6).numpy()
    assert ids.shape == (200, 12)
    np.testing.assert_array_equal(ids[:, :6], ids[:, 6:])
    assert set(ids.ravel()) == set(TOKENS)
    np.testing.assert_array_equal(ids, repeated_rows(TOKENS, 200, 6))
    assert not np.array_equal(ids, repeated_rows(TOKENS, 200, 6, seed=1))


def test_loss_and_shares_against_loops():
    model, half = small_model(), 6
    ids = repeated_rows(np.arange(VOCABULARY), 4, half)
    measured = measure_repeats(model, ids)
    with torch.inference_mode():
        logits = model(ids, logits="all").double().numpy()
    losses = [
        np.log(np.exp(logits[row, at]).sum()) - logits[row, at, ids[row, at + 1]]
        for row in range(4)
        for at in range(half, 2 * half - 1)
    ]
    assert measured.loss == pytest.approx(np.mean(losses), abs=1e-5)
    traced = np.stack([weights_of(model, row) for row in ids])  # (N,L,H,T,T)
    previous = np.mean([traced[..., at, at - 1] for at in range(1, 2 * half)], axis=(0, 1))
    induction = np.mean([traced[..., at, at - half + 1] for at in range(half, 2 * half)], axis=(0, 1))
    np.testing.assert_allclose(measured.previous, previous, atol=1e-6)
    np.testing.assert_allclose(measured.induction, induction, atol=1e-6)


def weights_of(model, ids) -> np.ndarray:
    """Weights of one row, softmaxed here from the queries and keys of its trace."""
    trace = Model("small", model).trace(ids.tolist())
    config, maps = model.config, []
    for layer in range(config.n_layers):
        q, k = trace.q(layer).double().numpy(), trace.k(layer).double().numpy()
        k = k[[config.kv_head(head) for head in range(config.n_heads)]]
        scores = np.where(np.tri(len(ids), dtype=bool), q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]), -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        maps.append(shares / shares.sum(-1, keepdims=True))
    return np.stack(maps)
