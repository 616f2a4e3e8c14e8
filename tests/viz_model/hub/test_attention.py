"""What the library calls in place of its own attention: every argument that changes the equation, under each name."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import nn

from viz_model.errors import VizError
from viz_model.hub.attention import attention

T, S, D = 3, 4, 2
RANDOM = np.random.default_rng(0)
QUERY, KEY, VALUE = (RANDOM.normal(size=(1, 2, n, D)) for n in (T, S, S))
MASK = np.tri(T, S, 1, dtype=bool)
SINKS, BIAS = RANDOM.normal(size=2), RANDOM.normal(size=(1, 2, T, S))


def mixed(scale=D**-0.5, cap=None, bias=0.0, sinks=None):
    """softmax(scale·QKᵀ + M)·V written out, (1,T,H,D)."""
    scores = scale * QUERY @ KEY.swapaxes(-1, -2)
    scores = np.where(MASK, (scores if cap is None else cap * np.tanh(scores / cap)) + bias, -np.inf)
    if sinks is not None:
        scores = np.concatenate([scores, np.broadcast_to(sinks[:, None, None], (1, 2, T, 1))], -1)
    return (softmax(scores, axis=-1)[..., :S] @ VALUE).swapaxes(1, 2)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, mixed()),
        ({"scaling": 0.3}, mixed(0.3)),
        ({"softcap": 0.5}, mixed(cap=0.5)),
        ({"position_bias": torch.tensor(BIAS)}, mixed(bias=BIAS)),
        ({"s_aux": torch.tensor(SINKS)}, mixed(sinks=SINKS)),
        ({"sinks": torch.tensor(SINKS)}, mixed(sinks=SINKS)),
    ],
    ids=["plain", "scaling", "softcap", "position_bias", "s_aux", "sinks"],
)
def test_every_argument_is_a_part_of_the_equation(given, expected):
    tensors = (torch.tensor(part) for part in (QUERY, KEY, VALUE))
    found, weights = attention(nn.Module(), *tensors, torch.tensor(MASK), **given)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert weights is None


@pytest.mark.parametrize("given", [{"dropout": 0.1}, {"mystery": 1}], ids=["dropout", "unknown"])
def test_what_would_change_it_otherwise_is_refused(given):
    tensors = (torch.tensor(part) for part in (QUERY, KEY, VALUE))
    with pytest.raises(VizError):
        attention(nn.Module(), *tensors, torch.tensor(MASK), **given)
