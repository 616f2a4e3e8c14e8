"""Our encoder with BERT's weights against BERT of `transformers`: norm after, norm on the embedding."""

import pytest
import torch
from transformers import BertConfig, BertModel

from tests.reference.name_maps import agree, bert_config, bert_weights, loaded
from tests.support.small_models import randomise
from viz_model.transformer.hooks import capture


@pytest.fixture(params=["gelu", "relu"])
def pair(request):
    config = BertConfig(
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=70,
        vocab_size=97,
        max_position_embeddings=33,
        hidden_act=request.param,
        attn_implementation="eager",
    )
    theirs = randomise(BertModel(config, add_pooling_layer=False), size=0.2)
    return theirs, loaded(bert_config(config), bert_weights(theirs))


def ids_of(length):
    return torch.randint(97, (2, length), generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize("length", [1, 7, 33])
def test_last_hidden_state_attention_maps_and_hidden_states(pair, length):
    theirs, ours = pair
    ids = ids_of(length)
    expected = theirs(ids, output_attentions=True, output_hidden_states=True)
    agree(ours.hidden(ids), expected.last_hidden_state)
    with capture("*") as found:
        ours(ids)
    assert expected.last_hidden_state.std() > 0.5
    for layer in range(3):
        agree(found[f"blocks.{layer}.attn.weights"], expected.attentions[layer], 1e-5)
        agree(found[f"blocks.{layer}.resid_pre"], expected.hidden_states[layer])
        agree(found[f"blocks.{layer}.resid_post"], expected.hidden_states[layer + 1])
    agree(found["final_norm"], expected.last_hidden_state)


def test_padding(pair):
    theirs, ours = pair
    ids, padding = ids_of(9), torch.zeros(2, 9, dtype=torch.bool)
    padding[1, 5:] = True
    expected = theirs(ids, attention_mask=(~padding).long(), output_attentions=True)
    agree(ours.hidden(ids, padding=padding)[0], expected.last_hidden_state[0])
    agree(ours.hidden(ids, padding=padding)[1, :5], expected.last_hidden_state[1, :5])
    with capture("*.weights") as found:
        ours(ids, padding=padding)
    for layer in range(3):
        weights = found[f"blocks.{layer}.attn.weights"]
        agree(weights[0], expected.attentions[layer][0], 1e-5)
        agree(weights[1, :, :5], expected.attentions[layer][1, :, :5], 1e-5)
        assert weights[1, ..., 5:].eq(0).all()
