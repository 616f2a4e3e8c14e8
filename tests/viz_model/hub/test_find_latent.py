"""Latent attention: the terms of its scores against the drawn scores, and one of them against numpy written out."""

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.reference.families import FAMILIES, Family, library_model, save_small
from tests.reference.variants import MORE
from tests.support.score_sums import summed_scores
from viz_model.attribution.components import components

IDS = [5, 44, 17, 8, 60, 23, 9]
V3, V2 = FAMILIES["DeepSeek-V3"], MORE["DeepSeek-V2"]


def with_options(family, **options):
    return Family(family.kind, family.model_type, family.sizes, family.own_positions, {**family.options, **options})


SHAPES = {
    "V3": V3,
    "V3, one matrix for queries, halves": with_options(V3, q_lora_rank=None, rope_interleave=False),
    "V2, one matrix for queries": V2,
    "V2": with_options(V2, q_lora_rank=14),
    "with biases": with_options(V3, attention_bias=True),
    "Youtu": MORE["Youtu"],
}


@pytest.mark.parametrize("shape", SHAPES)
@torch.inference_mode()
def test_terms_add_up_to_the_drawn_scores(shape, tmp_path):
    save_small(SHAPES[shape], tmp_path)
    trace = vm.load(tmp_path).trace(IDS)
    for layer, head in ((0, 0), (1, 0), (1, 5)):
        scores = trace.scores(layer, head).double()
        close = 1e-5 * float(scores.abs().max())
        torch.testing.assert_close(summed_scores(trace, layer, head), scores, atol=close, rtol=0)
        for than in (None, 0, "row"):
            found = trace.score_terms(layer, head, 6, 2, than)
            assert abs(found.remainder) <= 1e-5 * float(found.terms.abs().sum())


@torch.inference_mode()
def test_a_term_is_what_numpy_makes_of_two_components(tmp_path):
    """q = W_B·norm(W_A x), k = W_B·norm(W_A x) and what all heads share, turned: with both norms frozen."""
    save_small(V3, tmp_path)
    trace, layer, head, query, key = vm.load(tmp_path).trace(IDS), 1, 3, 6, 2
    block = library_model(V3, tmp_path).model.layers[layer]
    attention, (turning, still, values, few) = block.self_attn, (4, 6, 8, 12)

    def frozen(norm, part, whole):
        return norm.weight.double().numpy() * part / np.sqrt((whole**2).mean() + norm.variance_epsilon)

    def weight(module):
        return module.weight.double().numpy()

    def turned(x, position):
        angles = position * 10000.0 ** (-np.arange(0, turning, 2) / turning)
        first, second = x[0::2], x[1::2]
        return np.r_[first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)]

    def entering(position, name):
        """A component and the whole stream behind the first norm."""
        found = components(trace, [position], layer)
        part = found.parts[[one.name for one in found.components].index(name), 0].numpy()
        whole = trace[f"blocks.{layer}.resid_pre"][position].double().numpy()
        return frozen(block.input_layernorm, part, whole), frozen(block.input_layernorm, whole, whole)

    part, whole = entering(query, "layer 0, head 2")
    latent, of_all = (weight(attention.q_a_proj) @ one for one in (part, whole))
    made = weight(attention.q_b_proj) @ frozen(attention.q_a_layernorm, latent, of_all)
    q = made.reshape(6, still + turning)[head]
    part, whole = entering(key, "layer 0, feed-forward")
    latent, of_all = (weight(attention.kv_a_proj_with_mqa) @ one for one in (part, whole))
    made = weight(attention.kv_b_proj) @ frozen(attention.kv_a_layernorm, latent[:few], of_all[:few])
    k = made.reshape(6, still + values)[head][:still]
    expected = q[:still] @ k + turned(q[still:], query) @ turned(latent[few:], key)
    found = trace.score_terms(layer, head, query, key)
    at = found.names_query.index("layer 0, head 2"), found.names_key.index("layer 0, feed-forward")
    assert float(found.terms[at]) == pytest.approx(expected * trace.equation(layer).scale, rel=1e-5)


def test_a_turn_of_another_kind_is_refused_by_name(tmp_path):
    """Turned numbers that are scaled as well are no longer those of a product."""
    longer = {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5, "rope_theta": 10000.0,
              "original_max_position_embeddings": 20}  # fmt: skip
    save_small(with_options(V3, rope_parameters=longer), tmp_path)
    with pytest.raises(vm.VizError, match="DeepseekV3"):
        vm.load(tmp_path).trace(IDS).score_terms(1, 0, 6, 2)
