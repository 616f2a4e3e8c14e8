"""Our decoder with Llama's weights against Llama of `transformers`."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama

from tests.reference.name_maps import agree, llama_config, llama_weights, loaded
from tests.support.small_models import randomise
from viz_model.transformer.hooks import capture

VARIANTS = {
    "untied": {},
    "tied": {"tie_word_embeddings": True},
    "biases": {"attention_bias": True, "mlp_bias": True},
    "one key head": {"num_key_value_heads": 1},
    "a key head each": {"num_key_value_heads": 6},
}


def pair(**changes):
    fields = {
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "vocab_size": 97,
        "max_position_embeddings": 33,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        "tie_word_embeddings": False,
    }
    config = LlamaConfig(**fields | changes, attn_implementation="eager")
    theirs = randomise(LlamaForCausalLM(config), size=0.2)
    return theirs, loaded(llama_config(config), llama_weights(theirs))


def ids_of(length):
    return torch.randint(97, (2, length), generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("length", [1, 7, 33])
def test_logits_attention_maps_and_hidden_states(variant, length):
    theirs, ours = pair(**VARIANTS[variant])
    ids = ids_of(length)
    expected = theirs(ids, output_attentions=True, output_hidden_states=True)
    agree(ours(ids, logits="all"), expected.logits)
    with capture("*") as found:
        agree(ours(ids, logits="all"), expected.logits)
    assert expected.logits.std() > 0.5
    for layer in range(3):
        agree(found[f"blocks.{layer}.attn.weights"], expected.attentions[layer], 1e-5)
        agree(found[f"blocks.{layer}.resid_pre"], expected.hidden_states[layer])
    agree(found["final_norm"], expected.hidden_states[3])


def test_queries_and_keys_before_and_after_their_rotation(monkeypatch):
    theirs, ours = pair()
    rotations, real = [], modeling_llama.apply_rotary_pos_emb

    def spy(query, key, *angles, **options):
        turned = real(query, key, *angles, **options)
        rotations.append((query, key, *turned))
        return turned

    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", spy)
    ids = ids_of(12)
    theirs(ids)
    with capture("*.attn.*") as found:
        ours(ids)
    assert len(rotations) == 3
    for layer, tensors in enumerate(rotations):
        for name, tensor in zip(("q_pre", "k_pre", "q", "k"), tensors, strict=True):
            agree(found[f"blocks.{layer}.attn.{name}"], tensor)
        assert (tensors[0] - tensors[2]).abs().max() > 0.1


def test_padding_on_the_left():
    theirs, ours = pair()
    ids, padding = ids_of(9), torch.zeros(2, 9, dtype=torch.bool)
    padding[1, :4] = True
    expected = theirs(ids, attention_mask=(~padding).long(), output_attentions=True)
    with capture("*.weights") as found:
        logits = ours(ids, padding=padding, logits="all")
    agree(logits[0], expected.logits[0])
    agree(logits[1, 4:], expected.logits[1, 4:])
    for layer in range(3):
        weights = found[f"blocks.{layer}.attn.weights"]
        agree(weights[1, :, 4:], expected.attentions[layer][1, :, 4:], 1e-5)


@pytest.mark.parametrize("variant", VARIANTS)
def test_parameter_counts(variant):
    theirs, ours = pair(**VARIANTS[variant])
    assert ours.n_parameters() == theirs.num_parameters()
