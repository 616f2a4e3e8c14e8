"""The bundled tiny-llama in `transformers`."""

from functools import cache

from transformers import LlamaConfig, LlamaForCausalLM

import viz_model as vm
from tests.reference.name_maps import LLAMA_NAMES


@cache
def llama(base=None):
    """The same weights in `transformers`; with another base of its angles, if one is given."""
    ours, weights = vm.load("tiny-llama").config, vm.load("tiny-llama").transformer.state_dict()
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
