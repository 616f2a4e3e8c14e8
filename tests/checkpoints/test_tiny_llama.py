"""The bundled model with Llama's parts keeps what its README says, and is Llama of `transformers` with its weights."""

import json
import re
from functools import cache

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import viz_model as vm
from tests.reference.name_maps import LLAMA_NAMES
from tests.support.transformers_tiny_gpt import FOLDER as GPT
from viz_model.training.figures.report import books_of
from viz_model.training.figures.text import head_figures, text_loss

FOLDER = GPT.parent / "tiny-llama"
README = (FOLDER / "README.md").read_text()


@cache
def model():
    return vm.load("tiny-llama")


@cache
def llama(base=None):
    """The same weights in `transformers`; with another base of its angles, if one is given."""
    ours, weights = model().config, model().transformer.state_dict()
    theirs = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=ours.d_model,
            intermediate_size=ours.d_ff,
            num_hidden_layers=ours.n_layers,
            num_attention_heads=ours.n_heads,
            num_key_value_heads=ours.n_kv_heads,
            vocab_size=ours.vocab_size,
            max_position_embeddings=ours.context_length,
            rms_norm_eps=ours.norm_epsilon,
            rope_parameters={"rope_type": "default", "rope_theta": base or ours.rotary_base},
            tie_word_embeddings=True,
            attn_implementation="eager",
        )
    )
    state = {"model.embed_tokens.weight": weights["tokens.weight"], "model.norm.weight": weights["final_norm.weight"]}
    for layer in range(ours.n_layers):
        for name, his in LLAMA_NAMES.items():
            state[f"model.layers.{layer}.{his}.weight"] = weights[f"blocks.{layer}.{name}.weight"]
    missing, strange = theirs.load_state_dict(state, strict=False)
    assert missing == ["lm_head.weight"]
    assert not strange
    return theirs.eval()


def test_it_is_llama_of_another_library():
    ids = model().encode("Once upon a time there was a king who had three daughters.")
    trace = model().trace(ids)
    with torch.inference_mode():
        theirs = llama()(torch.tensor([ids]), output_attentions=True)
    torch.testing.assert_close(trace.logits, theirs.logits[0, -1], atol=1e-4, rtol=1e-4)
    for layer, maps in enumerate(theirs.attentions):
        for head in range(model().config.n_heads):
            torch.testing.assert_close(trace.weights(layer, head), maps[0, head], atol=1e-5, rtol=1e-4)


def held_out_loss_told(folder):
    [told] = re.findall(r"Held-out loss: ([\d.]+) nats", (folder / "README.md").read_text())
    return float(told)


def test_the_held_out_loss_is_what_the_readme_tells_and_no_worse_than_that_of_tiny_gpt():
    """Their figures are of all 34 books, which takes a minute each; both are measured on every sixth of them."""
    books = books_of(FOLDER, None)[::6]
    ours, his = text_loss(model(), books), text_loss(vm.load("tiny-gpt"), books)
    assert held_out_loss_told(FOLDER) <= held_out_loss_told(GPT)
    assert ours - his == pytest.approx(held_out_loss_told(FOLDER) - held_out_loss_told(GPT), abs=0.03)
    assert ours == pytest.approx(held_out_loss_told(FOLDER), abs=0.25)


def test_what_was_measured_of_its_heads():
    written = json.loads((FOLDER / "heads.json").read_text())
    for name, table in head_figures(model(), books_of(FOLDER, None)).items():
        values = table.numpy()
        np.testing.assert_allclose(written[name], values, atol=2e-3)
        layer, head = np.unravel_index(values.argmax(), values.shape)
        assert re.search(rf"{name}[^\n]*{values.max():.2f}[^\n]*layer {layer}, head {head}", README), name


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-llama"])
def test_both_have_the_same_size(name):
    assert vm.load(name).transformer.n_parameters() == pytest.approx(4.3e6, rel=0.02)
