"""Our decoder with GPT-2's weights against GPT-2 of `transformers`."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from tests.reference.name_maps import agree, gpt2_config, gpt2_weights, loaded
from tests.reference.written_out import attention
from tests.support.small_models import randomise
from viz_model.transformer import Transformer
from viz_model.transformer.hooks import capture

ODD = {"n_layer": 3, "n_head": 3, "n_embd": 48, "vocab_size": 97, "n_positions": 33}


def pair(**changes):
    config = GPT2Config(**ODD | changes, attn_implementation="eager")
    theirs = randomise(GPT2LMHeadModel(config), size=0.2)
    return theirs, loaded(gpt2_config(config), gpt2_weights(theirs))


def ids_of(length, batch=2):
    return torch.randint(97, (batch, length), generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize("length", [1, 7, 33])
@pytest.mark.parametrize("changes", [{}, {"n_inner": 50, "activation_function": "relu", "n_head": 8}])
def test_logits_attention_maps_and_hidden_states(changes, length):
    theirs, ours = pair(**changes)
    ids = ids_of(length)
    expected = theirs(ids, output_attentions=True, output_hidden_states=True)
    agree(ours(ids, logits="all"), expected.logits)
    agree(ours(ids), expected.logits[:, -1])
    with capture("*") as found:
        agree(ours(ids, logits="all"), expected.logits)
    assert expected.logits.std() > 0.5  # nothing agrees by being next to nothing
    for layer in range(3):
        agree(found[f"blocks.{layer}.attn.weights"], expected.attentions[layer], 1e-5)
        agree(found[f"blocks.{layer}.resid_pre"], expected.hidden_states[layer])
    agree(found["final_norm"], expected.hidden_states[3])
    agree(found["logits"], expected.logits)


def test_every_site_of_a_block_is_what_gpt2_has_there():
    theirs, ours = pair()
    ids, seen = ids_of(9), {}
    block = theirs.transformer.h[1]
    parts = {
        "norm1": block.ln_1,
        "attn.qkv": block.attn.c_attn,
        "attn.out": block.attn.c_proj,
        "norm2": block.ln_2,
        "ffn.hidden": block.mlp.act,
        "ffn.out": block.mlp.c_proj,
        "resid_post": block,
    }
    for name, part in parts.items():
        part.register_forward_hook(lambda _m, _i, out, name=name: seen.__setitem__(name, out))
    block.ln_2.register_forward_pre_hook(lambda _m, inputs: seen.__setitem__("resid_mid", inputs[0]))
    block.attn.c_proj.register_forward_pre_hook(lambda _m, inputs: seen.__setitem__("joined", inputs[0]))
    theirs(ids)
    with capture("blocks.1.*") as found:
        ours(ids)
    for name in ("norm1", "attn.out", "resid_mid", "norm2", "ffn.hidden", "ffn.out", "resid_post"):
        theirs_there = seen[name][0] if isinstance(seen[name], tuple) else seen[name]
        agree(found[f"blocks.1.{name}"], theirs_there)
    for letter, joined in zip("qkv", seen["attn.qkv"].chunk(3, -1), strict=True):
        agree(found[f"blocks.1.attn.{letter}"], joined.unflatten(-1, (3, 16)).transpose(1, 2))
    agree(found["blocks.1.attn.mixed"].transpose(1, 2).flatten(-2), seen["joined"])


def test_scores_before_the_softmax_are_not_the_weights_after_it():
    theirs, ours = pair()
    ids = ids_of(9)
    expected = theirs(ids, output_attentions=True).attentions
    with capture("*.attn.*") as found:
        ours(ids)
    for layer, weights in enumerate(expected):
        held = {name: found[f"blocks.{layer}.attn.{name}"] for name in ("q", "k", "v", "mask", "scores")}
        _, scores, from_scores, _ = attention(held["q"], held["k"], held["v"], held["mask"])
        agree(held["scores"].double(), torch.from_numpy(scores))
        agree(torch.from_numpy(from_scores).float(), weights, 1e-5)
        assert (held["scores"] - weights).abs().max() > 0.5


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding(side):
    theirs, ours = pair()
    ids, padding = ids_of(9), torch.zeros(2, 9, dtype=torch.bool)
    real = slice(3, None) if side == "left" else slice(0, 6)
    padding[1] = True
    padding[1, real] = False
    positions = (~padding).long().cumsum(-1).sub(1).clamp(min=0)
    options = {"attention_mask": (~padding).long(), "position_ids": positions, "output_attentions": True}
    expected = theirs(ids, **options)
    with capture("*.weights") as found:
        logits = ours(ids, padding=padding, logits="all")
    agree(logits[0], expected.logits[0])
    agree(logits[1, real], expected.logits[1, real])
    for layer in range(3):
        weights = found[f"blocks.{layer}.attn.weights"]
        agree(weights[0], expected.attentions[layer][0], 1e-5)
        agree(weights[1, :, real], expected.attentions[layer][1, :, real], 1e-5)


def test_parameter_counts():
    theirs, ours = pair()
    assert ours.n_parameters() == theirs.num_parameters()


def test_gpt2_small_has_the_published_number_of_parameters():
    with torch.device("meta"):
        assert Transformer(gpt2_config(GPT2Config())).n_parameters() == 124_439_808
