"""Products with quantized matrices against the same numbers multiplied in numpy."""

import numpy as np
import pytest
import torch

from viz_model.quantization.codes import Int8Rows
from viz_model.quantization.products import MixedInt8Product


def rounded(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes from −127 to 127 of each row, and what 127 of it stand for."""
    largest = np.abs(matrix).max(1, keepdims=True)
    return np.rint(127 * matrix / np.where(largest, largest, 1)), largest


@pytest.mark.parametrize("threshold", [1e-6, 2.0, 1e9], ids=["every column", "some columns", "no column"])
def test_outlier_columns_are_multiplied_in_16_bits_and_the_others_as_int8(threshold):
    """Dettmers et al. 2022, figure 2."""
    random = np.random.default_rng(0)
    x, weight, bias = (
        random.normal(size=(5, 8)) * [1, 1, 1, 9, 1, 1, 7, 1],
        random.normal(size=(3, 8)),
        random.normal(size=3),
    )
    outliers = np.abs(x).max(0) >= threshold
    codes, constants = rounded(np.where(outliers, 0, x))
    weight_codes, weight_constants = rounded(weight)
    expected = (codes @ weight_codes.T) * constants * weight_constants.T / 127**2 + bias
    halves = [part[:, outliers].astype(np.float16).astype(float) for part in (x, weight)]
    expected = expected + halves[0] @ halves[1].T
    x, weight, bias = (torch.tensor(part, dtype=torch.float32) for part in (x, weight, bias))
    found = MixedInt8Product(Int8Rows.of(weight), bias, weight, "matrix", threshold)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)
