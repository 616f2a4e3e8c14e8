"""Rows of positions and their cosines, against scipy, the formula of the paper and Marian of `transformers`."""

import numpy as np
import pytest
from safetensors.torch import load_file
from scipy.spatial.distance import cdist
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

import viz_model as vm
from tests.support.small_models import small_model
from tests.support.transformers_tiny_gpt import FOLDER
from viz_model.positions.tables import cosines, cosines_by_distance, learned_table
from viz_model.transformer.positions import sinusoidal_table


def test_the_learned_table_is_that_of_the_file():
    stored = load_file(FOLDER / "model.safetensors")["positions.weight"].float()
    np.testing.assert_array_equal(learned_table(vm.load("tiny-gpt").transformer), stored)
    assert learned_table(small_model(position="rotary")) is None


def test_cosines_by_distance_against_scipy():
    table = learned_table(vm.load("tiny-gpt").transformer)
    expected = 1 - cdist(table.double(), table.double(), "cosine")
    np.testing.assert_allclose(cosines(table), expected, atol=1e-12)
    found = cosines_by_distance(table)
    for distance in (0, 1, 7, 255):
        pairs = [expected[i, i + distance] for i in range(256 - distance)]
        assert found.mean[distance].item() == pytest.approx(np.mean(pairs), abs=1e-12)
        assert found.least[distance].item() == pytest.approx(min(pairs), abs=1e-12)
        assert found.largest[distance].item() == pytest.approx(max(pairs), abs=1e-12)


def test_sinusoids_depend_on_the_distance_alone():
    """(2/C) Σ cos(distance · ω), written out; Marian's table has the same numbers in another order of columns."""
    length, width = 300, 64
    found = cosines_by_distance(sinusoidal_table(length, width))
    frequencies = 10000.0 ** (-np.arange(0, width, 2) / width)
    expected = np.cos(np.arange(length)[:, None] * frequencies).mean(1)
    for curve in (found.mean, found.least, found.largest):
        np.testing.assert_allclose(curve, expected, atol=1e-6)
    marian = MarianSinusoidalPositionalEmbedding(length, width)
    theirs = marian.create_weight()
    np.testing.assert_allclose(cosines_by_distance(theirs).mean, expected, atol=1e-6)
