"""Every stage of a drawing against plain numpy and against `transformers`."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import softmax
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from tests.support.plain_sampler import likeliest_first, plain_draw, plain_sampler
from tests.support.properties import examples
from viz_model.model.sampling import Sampled, Sampling


def sampled(logits, temperature=1.0, top_k=None, top_p=1.0, draw=0.5):
    return Sampled(torch.as_tensor(logits), Sampling(temperature, top_k, top_p), draw)


def probabilities(logits, *choices):
    return sampled(logits, *choices).probabilities.tolist()


def logits_of(seed, size, ties):
    drawn = np.random.default_rng(seed).normal(0, 3, size).astype(np.float32)
    return torch.from_numpy(np.round(drawn) if ties else drawn)


choices = {
    "seed": st.integers(0, 999),
    "size": st.integers(1, 60),
    "temperature": st.sampled_from([0.05, 0.7, 1.0, 1.3, 5.0]),
    "top_k": st.sampled_from([None, 1, 2, 5, 40, 1000]),
    "top_p": st.sampled_from([0.1, 0.35, 0.8, 0.95, 1.0]),
}


@examples(200)
@given(**choices, ties=st.booleans(), draw=st.floats(0, 1, exclude_max=True))
def test_stages_are_those_of_a_plain_sampler(seed, size, temperature, top_k, top_p, ties, draw):
    logits = logits_of(seed, size, ties)
    found = sampled(logits, temperature, top_k, top_p, draw)
    expected = plain_sampler(logits, temperature, top_k, top_p)
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-12)
    np.testing.assert_array_equal(found.kept, expected > 0)
    np.testing.assert_allclose(found.full_probabilities, softmax(logits.double().numpy() / temperature), atol=1e-12)
    np.testing.assert_allclose(found.scaled, logits.double() / temperature, atol=1e-9)
    assert found.order.tolist() == likeliest_first(logits)
    assert set(np.flatnonzero(found.by_top_k)) == set(likeliest_first(logits)[:top_k])
    sums = np.cumsum(expected[found.order])
    if np.abs(sums - draw).min() > 1e-9:  # on the very border, rounding decides
        assert found.token_id == plain_draw(logits, expected, draw)


@examples(200)
@given(**choices)
def test_probabilities_are_those_of_transformers(seed, size, temperature, top_k, top_p):
    logits = logits_of(seed, size, ties=False)
    warped = TemperatureLogitsWarper(temperature)(None, logits[None].double())
    if top_k is not None:
        warped = TopKLogitsWarper(top_k)(None, warped)
    if top_p < 1:
        warped = TopPLogitsWarper(top_p)(None, warped)
    found = sampled(logits, temperature, top_k, top_p).probabilities
    np.testing.assert_allclose(found, warped[0].softmax(-1), atol=1e-6)


def test_ties_go_to_the_smaller_id_and_no_more_than_k_are_kept():
    logits = torch.tensor([1.0, 3.0, 3.0, 3.0, 0.0])
    assert probabilities(logits, 0) == [0, 1, 0, 0, 0]
    assert probabilities(logits, 1, 2) == [0, 0.5, 0.5, 0, 0]
    assert probabilities(logits, 1, None, 0.2) == [0, 1, 0, 0, 0]
    assert probabilities(torch.zeros(4), 1, None, 0.5) == [0.5, 0.5, 0, 0]


def test_greedy_takes_the_likeliest_whatever_chance_says():
    for draw in (0.0, 0.5, 0.999):
        found = sampled(torch.tensor([1.0, 3.0, 3.0, 2.0]), temperature=0, draw=draw)
        assert found.token_id == 1
        assert found.by_top_k.tolist() == found.kept.tolist() == [False, True, False, False]


@pytest.mark.parametrize(("draw", "token"), [(0.0, 2), (0.49, 2), (0.51, 0), (0.74, 0), (0.76, 1), (0.9999999, 1)])
def test_chance_walks_down_from_the_likeliest(draw, token):
    logits = torch.tensor([1.0, 1.0, 2.0]) * float(np.log(2))  # shares 1/4, 1/4, 1/2
    assert sampled(logits, draw=draw).token_id == token


@pytest.mark.parametrize("temperature", [1e-3, 1e-20, 1e-45, 1e-310, 5e-324])
def test_towards_temperature_zero_it_becomes_greedy(temperature):
    assert probabilities(torch.tensor([1e4, 2e4, -3e4, 1.99e4]), temperature) == [0, 1, 0, 0]


def test_a_huge_temperature_is_uniform():
    assert probabilities(torch.tensor([1.0, 5.0]), float("inf")) == [0.5, 0.5]


def test_without_a_cut_no_token_of_a_large_vocabulary_is_lost():
    logits = torch.randn(50_000, generator=torch.Generator().manual_seed(0)) * 0.1
    assert (sampled(logits).probabilities > 0).all()


def test_chance_depends_on_seed_and_step_alone():
    draws = np.array([[Sampling(seed=seed).draw(number) for number in range(50)] for seed in range(40)])
    assert draws[7, 3] == Sampling(temperature=0.2, top_k=3, seed=7).draw(3)
    assert len(np.unique(draws)) == draws.size
    assert ((draws >= 0) & (draws < 1)).all()
    assert abs(draws.mean() - 0.5) < 4 * np.sqrt(1 / 12 / draws.size)  # four standard deviations of a uniform mean
