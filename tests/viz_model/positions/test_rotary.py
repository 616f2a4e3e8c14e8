"""Rotary pairs of real queries and keys, against the rotary embeddings of `transformers`."""

import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama

import viz_model as vm
from tests.support.small_models import random_ids, small_model
from viz_model.positions.rotary import new_angles, pair_products, rotary_pairs

LAYER, HEAD, QUERY, KEY = 1, 3, 7, 2
WIDTH, BASE = 6, 10000.0


@pytest.fixture(params=["halves", "neighbours"])
def traced(request):
    model = vm.Model("small", small_model(position="rotary", rotary_pairs=request.param))
    return request.param, model.trace(random_ids(9).tolist())


def turned_by_transformers(x, position, pairs):
    """One vector (D,) at a position, by Llama's code ("halves") or GPT-J's ("neighbours")."""
    x = torch.as_tensor(x)[None, None, None]  # (B,H,T,D)
    if pairs == "halves":
        config = LlamaConfig(
            hidden_size=WIDTH, num_attention_heads=1, rope_parameters={"rope_type": "default", "rope_theta": BASE}
        )
        cos, sin = modeling_llama.LlamaRotaryEmbedding(config)(x, torch.tensor([[position]]))
        return modeling_llama.apply_rotary_pos_emb(x, x, cos, sin)[0].flatten()
    sin, cos = modeling_gptj.create_sinusoidal_positions(position + 1, WIDTH)[None, position:].chunk(2, -1)
    return modeling_gptj.apply_rotary_pos_emb(x.transpose(1, 2), sin, cos).flatten()


def test_the_sum_of_all_pairs_is_the_score_of_the_pass(traced):
    _, trace = traced
    pairs = rotary_pairs(trace, LAYER, HEAD, QUERY, KEY)
    products = pair_products(pairs, QUERY, KEY)
    assert products.sum().item() == pytest.approx(trace.raw(LAYER, HEAD)[QUERY, KEY].item(), abs=1e-5)
    assert pairs.computed == pytest.approx(products.sum().item() / np.sqrt(WIDTH), abs=1e-5)


def test_pairs_anywhere_against_transformers(traced):
    kind, trace = traced
    pairs = rotary_pairs(trace, LAYER, HEAD, QUERY, KEY)
    query = trace[f"blocks.{LAYER}.attn.q_pre"][HEAD, QUERY]
    key = trace[f"blocks.{LAYER}.attn.k_pre"][1, KEY]  # H = 4 heads read G = 2
    for m, n in ((0, 0), (7, 2), (107, 102), (2, 40)):
        q, k = turned_by_transformers(query, m, kind), turned_by_transformers(key, n, kind)
        found = pair_products(pairs, m, n)
        assert found.sum().item() == pytest.approx((q @ k).item(), abs=1e-4)
        for index, (first, second) in enumerate(pairs.numbers.tolist()):
            expected = q[first] * k[first] + q[second] * k[second]
            assert found[index].item() == pytest.approx(expected.item(), abs=1e-4)


def test_moving_both_changes_nothing_and_the_curve_is_that_of_any_two_places(traced):
    kind, trace = traced
    pairs = rotary_pairs(trace, LAYER, HEAD, QUERY, KEY)
    distances = torch.tensor([-3, 0, 5, 300])
    curve = pair_products(pairs, distances, torch.zeros_like(distances)).sum(-1) * pairs.scale
    for n in (3, 1000):
        at = pair_products(pairs, n + distances, torch.full_like(distances, n)).sum(-1) * pairs.scale
        torch.testing.assert_close(at, curve, atol=1e-9, rtol=0)
    query = trace[f"blocks.{LAYER}.attn.q_pre"][HEAD, QUERY]
    key = trace[f"blocks.{LAYER}.attn.k_pre"][1, KEY]
    theirs = turned_by_transformers(query, 305, kind) @ turned_by_transformers(key, 5, kind) / np.sqrt(WIDTH)
    assert curve[-1].item() == pytest.approx(theirs.item(), abs=1e-3)


def test_frequencies_and_wavelengths_are_those_of_the_paper(traced):
    pairs = rotary_pairs(traced[1], LAYER, HEAD, QUERY, KEY)
    theta = [BASE ** (-2 * p / WIDTH) for p in range(WIDTH // 2)]  # Su et al. 2021, §3.2.2
    assert pairs.frequencies.tolist() == pytest.approx(theta)
    assert pairs.wavelengths.tolist() == pytest.approx([2 * np.pi / one for one in theta])


@pytest.mark.parametrize("both_ways", [False, True])
def test_new_angles_are_those_that_no_trained_distance_comes_near(both_ways):
    """Looked for by brute force: between two neighbouring trained distances a slow pair goes through all angles."""
    frequencies, trained = torch.tensor([1.0, 0.3, 0.05, 0.01, 0.0001], dtype=torch.float64), 40
    seen = np.arange(-trained if both_ways else 0, trained + 0.001, 0.001)
    for distance in (0, 17, 40, 41, 100, 300, 6280, -10):
        expected = []
        for theta in frequencies.tolist():
            gaps = np.angle(np.exp(1j * (seen - distance) * theta))
            expected.append(np.abs(gaps).min() > 0.001 * theta)
        assert new_angles(frequencies, distance, trained, both_ways).tolist() == expected, distance


def test_a_model_that_turns_nothing_says_so():
    trace = vm.load("tiny-gpt").trace("a b")
    with pytest.raises(vm.VizError, match="not rotary, so nothing rotates"):
        rotary_pairs(trace, 0, 0, 1, 0)
