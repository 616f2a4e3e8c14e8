"""Heads that do the same: against numpy written out, of prompts and of texts."""

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.support.small_models import small_model
from viz_model.heads import reading
from viz_model.heads.finder import alike, weight_on
from viz_model.heads.windows import repeats

MODEL = vm.Model("small", small_model())
IDS = [5, 9, 11, 9, 4, 20, 8]


def all_weights(trace):
    heads = range(trace.config.n_heads)
    return np.array([[trace.weights(layer, head).numpy() for head in heads] for layer in range(trace.n_layers)])


def written_out(one, other, allowed):
    """Σ min over the keys, and what goes to no key; of queries with more than one key."""
    found = []
    for row, its, may in zip(one, other, allowed, strict=True):
        if may.sum() > 1:
            shared = sum(min(a, b) for a, b in zip(row, its, strict=True))
            found.append(shared + min(max(0, 1 - row.sum()), max(0, 1 - its.sum())))
    return found


@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
def test_the_weight_on_cells_is_a_mean_over_their_queries(mask):
    trace = MODEL.trace(IDS, mask)
    cells = np.zeros((7, 7), bool)
    cells[3, 1] = cells[5, [0, 2]] = cells[2, 6] = True
    weights = all_weights(trace)
    expected = (weights[:, :, 3, 1] + weights[:, :, 5, 0] + weights[:, :, 5, 2] + weights[:, :, 2, 6]) / 3
    np.testing.assert_allclose(weight_on(trace, cells), expected, atol=1e-6)


def test_the_weight_on_all_cells_is_all():
    np.testing.assert_allclose(weight_on(MODEL.trace(IDS), np.ones((7, 7), bool)), 1, atol=1e-5)


@pytest.mark.parametrize("cells", [np.zeros((7, 7), bool), np.ones((7, 6), bool), np.ones((7, 7)), "cells", None])
def test_no_cells_are_refused(cells):
    with pytest.raises(vm.VizError, match="Cells are booleans of 7 × 7 tokens"):
        weight_on(MODEL.trace(IDS), cells)


def test_heads_alike_share_their_weights():
    trace = MODEL.trace(IDS)
    weights, allowed = all_weights(trace), trace.mask(1).numpy()
    found = alike(trace, 1, 2)
    assert found[1, 2] == pytest.approx(1, abs=1e-5)
    for layer, head in np.ndindex(found.shape):
        expected = np.mean(written_out(weights[layer, head], weights[1, 2], allowed))
        assert found[layer, head] == pytest.approx(expected, abs=1e-5)
    with pytest.raises(vm.VizError, match="The head"):
        alike(trace, 0, 4)


@pytest.mark.parametrize("part", ["self", "cross"])
def test_heads_alike_over_a_text_are_those_of_its_windows(part, monkeypatch):
    monkeypatch.setattr(reading, "BATCH_BYTES", 4 * 4 * 8**2 * 2)
    is_pair = part == "cross"
    model = vm.Model("two", small_model(layout="encoder-decoder", n_encoder_layers=2)) if is_pair else MODEL
    rows = [*repeats(model, 3, 4), [1, 2, 1], [5]]
    report = vm.head_report(model, [(row[:5], row[:7]) for row in rows] if is_pair else rows, part=part)
    told = []
    found = report.alike(1, 2, tell=lambda *how_far: told.append(how_far))
    expected = {}
    for window in report.windows:
        given = {"target": window.read} if is_pair else {}
        trace = model.trace(window.source or window.read, **given).of(part)
        weights = all_weights(trace)
        for place in np.ndindex(found.shape):
            expected[place] = expected.get(place, []) + written_out(
                weights[place], weights[1, 2], trace.mask(1).numpy()
            )
    for place, numbers in expected.items():
        assert found[place] == pytest.approx(np.mean(numbers), abs=1e-5)
    assert told[-1] == (5, 5)


def test_a_sink_is_shared_too():
    with vm.edit({"*.weights": lambda weights: torch.full_like(weights, 0.05).tril()}):
        trace = MODEL.trace(IDS)
    np.testing.assert_allclose(alike(trace, 0, 0), 1, atol=1e-5)
