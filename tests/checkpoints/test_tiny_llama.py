"""The bundled model with Llama's parts keeps what its README says, and is Llama of `transformers` with its weights."""

from functools import cache

import torch
from transformers import LlamaConfig, LlamaForCausalLM

import viz_model as vm
from tests.reference.name_maps import LLAMA_NAMES
from tests.support.transformers_tiny_gpt import FOLDER as GPT

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
