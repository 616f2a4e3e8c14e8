"""A head's matrices against what a pass does with them."""

import numpy as np
import pytest
import torch

from tests.support.small_models import random_ids, small_model
from viz_model.heads.matrices import KEY, OUTPUT, POSITIONS, QUERY, VALUE, head_matrices
from viz_model.transformer.hooks import capture, edit


def state_of(model):
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("position", ["learned", "rotary"])
def test_they_turn_the_stream_into_queries_keys_and_values(position):
    """Grouped heads: query head 3 reads key head 1."""
    model = small_model(position=position, bias=False, n_kv_heads=2)
    ids, layer, head = random_ids(1, 9), 1, 3
    before = ("q_pre", "k_pre") if position == "rotary" else ("q", "k")
    with torch.inference_mode(), capture("blocks.1.*") as found:
        model(ids)
    matrices = head_matrices(state_of(model), model.config, layer, head, 9)
    stream = found["blocks.1.norm1"][0].numpy()
    for name, site, at in ((QUERY, before[0], 3), (KEY, before[1], 1), (VALUE, "v", 1)):
        np.testing.assert_allclose(stream @ matrices[name].T, found[f"blocks.1.attn.{site}"][0, at], atol=1e-5)
    assert (POSITIONS in matrices) == (position == "learned")

    def only(mixed):
        kept = torch.zeros_like(mixed)
        kept[:, head] = mixed[:, head]
        return kept

    with torch.inference_mode(), edit({"blocks.1.attn.mixed": only}), capture("blocks.1.attn.*") as alone:
        model(ids)
    mixed = alone["blocks.1.attn.mixed"][0, head].numpy()
    np.testing.assert_allclose(mixed @ matrices[OUTPUT].T, alone["blocks.1.attn.out"][0], atol=1e-5)


def test_scores_of_positions_are_those_of_a_stream_of_positions():
    model = small_model(position="sinusoidal", n_kv_heads=4)
    config, weights, length = model.config, state_of(model), 7
    scores = head_matrices(weights, config, 0, 2, length)[POSITIONS]
    assert scores.shape == (length, length)
    width, own = config.d_head, slice(2 * config.d_head, 3 * config.d_head)
    for i in range(length):
        for j in range(length):
            rows = []
            for at in (i, j):
                angles = [at / 10000 ** (2 * (n // 2) / config.d_model) for n in range(config.d_model)]
                rows.append([np.cos(angle) if n % 2 else np.sin(angle) for n, angle in enumerate(angles)])
            query = weights["blocks.0.attn.query.weight"][own] @ rows[0]
            key = weights["blocks.0.attn.key.weight"][own] @ rows[1]
            assert scores[i, j] == pytest.approx(query @ key / np.sqrt(width), abs=1e-5)
