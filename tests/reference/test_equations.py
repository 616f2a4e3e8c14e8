"""What is said of the equation of a library model, against its own modules and functions with the same weights.

How queries, keys and values are made, how they are turned, what a pass costs, what is written first, and what a cache
holds where angles change with the length.
"""

import math
from functools import cache

import pytest
import torch
import transformers
from torch.nn import functional as F
from transformers import AutoModelForCausalLM

import viz_model as vm
from tests.reference.families import BART, BERT, FAMILIES, LLAMA, T5, _causal, _pair, save_small
from viz_model.heads.measures import entropy
from viz_model.misconceptions.equations import through_one_equation
from viz_model.model.formula import AttentionFormula
from viz_model.positions.rotary import pair_products, rotary_pairs
from viz_model.shapes.costs import PassSize, flops_cached, pass_flops
from viz_model.shapes.reference import quantities
from viz_model.transformer.hooks import capture

IDS = [5, 9, 11, 9, 11, 30, 44, 7, 8, 9, 11, 20]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 5}
LONGROPE = {
    "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.1, 1.3], "long_factor": [2.0, 3.0, 4.0],
    "original_max_position_embeddings": 10,
}  # fmt: skip
MODELS = FAMILIES | {
    "Llama, YaRN": _causal("llama", LLAMA, rope_parameters={**YARN, "rope_theta": 10000.0}),
    "Llama, llama3": _causal("llama", LLAMA, rope_parameters={
        "rope_type": "llama3", "factor": 8.0, "rope_theta": 10000.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8}),
    "Llama, linear": _causal("llama", LLAMA, rope_parameters={
        "rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}),
    "GPT-NeoX, a quarter": _causal("gpt_neox", {**BERT, "hidden_size": 48, "num_attention_heads": 3},
                                   rope_parameters={"rope_theta": 10000.0, "partial_rotary_factor": 0.25}),
    "gpt-oss, YaRN": _causal("gpt_oss", LLAMA, head_dim=10, sliding_window=5, num_local_experts=3,
                             num_experts_per_tok=2, rope_parameters={**YARN, "rope_theta": 150000.0, "truncate": False,
                                                                     "beta_fast": 32.0, "beta_slow": 1.0}),
    "OLMo": _causal("olmo", LLAMA),
    "Phi-3, longrope": _causal("phi3", LLAMA, original_max_position_embeddings=10, rope_parameters=LONGROPE),
    "T5, gated": _pair("t5", T5, feed_forward_proj="gated-gelu"),
    "M2M100": _pair("m2m_100", BART),
    "BART, forced": _pair("bart", BART),
    "Llama 4": _causal("llama4_text", {**LLAMA, "head_dim": 6}, num_local_experts=3, num_experts_per_tok=1,
                       intermediate_size_mlp=44, interleave_moe_layer_step=1),
}  # fmt: skip


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    @cache
    def get(name):
        folder = tmp_path_factory.mktemp("model")
        save_small(MODELS[name], folder)
        if name == "BART, forced":
            chosen = transformers.GenerationConfig.from_pretrained(folder)
            chosen.forced_bos_token_id = 7
            chosen.save_pretrained(folder)
        return vm.load(folder)

    return get


def close(found, expected, tolerance=1e-4):
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


# --- how queries, keys and values are made ---


def heads_of(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


X = r"\hat{x}"
# The formulas of the first layer, and what the library's own attention module makes of the same x.
MADE = {
    "Llama": {
        "q_pre": (rf"{X}\,W_{{Q}}", lambda own, x: heads_of(own.q_proj(x), 6)),
        "q": (rf"Q = R_i\,({X}\,W_{{Q}})", None),
        "v": (rf"V = {X}\,W_{{V}}", lambda own, x: heads_of(own.v_proj(x), 2)),
    },
    "Llama, YaRN": {"q": (rf"Q = R_i\,({X}\,W_{{Q}})", None), "k": (rf"K = R_j\,({X}\,W_{{K}})", None)},
    "gpt-oss, YaRN": {"q_pre": (rf"{X}\,W_{{Q}}", lambda own, x: heads_of(own.q_proj(x), 6))},
    "OLMo": {"k_pre": (rf"{X}\,W_{{K}}", lambda own, x: heads_of(own.k_proj(x), 2))},
    "Qwen3": {
        "q_pre": (rf"\mathrm{{norm}}_Q({X}\,W_{{Q}})", lambda own, x: own.q_norm(heads_of(own.q_proj(x), 6))),
        "q": (rf"Q = R_i\,\mathrm{{norm}}_Q({X}\,W_{{Q}})", None),
        "k_pre": (rf"\mathrm{{norm}}_K({X}\,W_{{K}})", lambda own, x: own.k_norm(heads_of(own.k_proj(x), 2))),
    },
    "Gemma 3": {"k_pre": (rf"\mathrm{{norm}}_K({X}\,W_{{K}})", lambda own, x: own.k_norm(heads_of(own.k_proj(x), 2)))},
    "OLMo 2": {"q_pre": (r"\mathrm{norm}_Q(x\,W_{Q})", lambda own, x: heads_of(own.q_norm(own.q_proj(x)), 6))},
    "DeepSeek-V3": {"k": (rf"K = f_K({X})", None), "q": (rf"Q = f_Q({X})", None)},
    "OPT": {"q": (rf"Q = 0.4082\,{X}\,W_{{Q}}", lambda own, x: heads_of(own.q_proj(x), 6) * 6**-0.5)},
    "SmolLM3": {"q_pre": (rf"{X}\,W_{{Q}}", lambda own, x: heads_of(own.q_proj(x), 6))},
    "GPT-2": {"k": (rf"K = {X}\,W_{{K}}", lambda own, x: heads_of(own.c_attn(x)[..., 36:72], 6))},
}


@torch.inference_mode()
@pytest.mark.parametrize("name", MADE)
def test_the_formula_of_queries_keys_and_values_is_what_the_weights_make(name, model_of):
    model = model_of(name)
    written = {row.site: row.formula for row in quantities(model, model.trace(IDS), 0)}
    own = next(module for module in model.transformer.model.modules() if "Attention" in type(module).__name__)
    with capture("blocks.0.*") as found:
        model.trace(IDS)
    reads = found.get("blocks.0.norm1", found["blocks.0.resid_pre"])
    for site, (formula, made) in MADE[name].items():
        assert written[f"blocks.0.attn.{site}"] == formula
        if made is not None:
            close(found[f"blocks.0.attn.{site}"], made(own, reads))


@torch.inference_mode()
@pytest.mark.parametrize("name", ["T5, gated", "T5"])
def test_the_formula_of_a_gated_feed_forward_has_its_gate(name, model_of):
    model = model_of(name)
    trace = model.trace(IDS[:7], target=IDS)
    written = {row.site: row.formula for row in quantities(model, trace.of("encoder"), 0)}[
        "encoder.blocks.0.ffn.hidden"
    ]
    with capture("encoder.blocks.0.norm2", "encoder.blocks.0.ffn.hidden") as found:
        model.trace(IDS[:7], target=IDS)
    own = model.transformer.model.encoder.block[0].layer[-1].DenseReluDense
    x = found["encoder.blocks.0.norm2"]
    if name == "T5":
        assert written == r"\varphi(\hat{x}\,W_1)"
        expected = F.relu(own.wi(x))
    else:
        assert written == r"\varphi(\hat{x}\,W_g) \odot \hat{x}\,W_1"
        expected = own.act(own.wi_0(x)) * own.wi_1(x)
    close(found["encoder.blocks.0.ffn.hidden"], expected)


# --- how they are turned ---

TURNING = [
    "Llama",
    "Llama, YaRN",
    "Llama, llama3",
    "Llama, linear",
    "GPT-NeoX",
    "GPT-NeoX, a quarter",
    "GPT-J",
    "Gemma 3",
]
TURNING += ["gpt-oss", "gpt-oss, YaRN", "OLMo", "Cohere", "Phi-3", "ModernBERT"]


@torch.inference_mode()
@pytest.mark.parametrize("name", TURNING)
def test_pairs_turned_by_their_frequencies_add_up_to_the_score_of_the_pass(name, model_of):
    model = model_of(name)
    trace = model.trace(IDS)
    for layer in range(model.config.n_layers):
        for query, key in ((11, 0), (7, 7), (3, 1)):
            pairs = rotary_pairs(trace, layer, 1, query, key)
            assert pair_products(pairs, query, key).sum().item() * pairs.scale == pytest.approx(
                trace.scores(layer, 1)[query, key].item(), abs=1e-3
            )


def test_a_layer_that_turns_nothing_says_so(model_of):
    trace = model_of("SmolLM3").trace(IDS)
    with pytest.raises(vm.VizError, match="Layer 1 of this model rotates nothing"):
        rotary_pairs(trace, 1, 0, 3, 1)
    with pytest.raises(vm.VizError, match="more than 10 tokens by other angles"):
        rotary_pairs(model_of("Phi-3, longrope").trace(IDS), 0, 0, 3, 1)


def test_a_table_of_sinusoids_in_a_module_of_its_own_is_one(model_of):
    assert model_of("M2M100").config.position == "sinusoidal"


@pytest.mark.parametrize("name", ["M2M100", "mBART", "Pegasus"])
def test_norms_before_cross_attention_are_found(name, model_of):
    model = model_of(name)
    with capture("decoder.blocks.0.norm_cross"):
        model.trace(IDS[:7], target=IDS)
    assert model.config.norm_place == "pre"


def test_the_stack_of_a_model_taken_out_of_a_larger_one_is_found(model_of):
    config = model_of("Llama 4").config
    assert (config.d_model, config.has_unembedding) == (36, True)


# --- the experiment on the equation, and the equation in words ---

WORDS = {
    "Llama": "softmax(QKᵀ/√D + M)",
    "Mistral": "softmax(QKᵀ/√D + M)",
    "Gemma 2": "softmax(3·tanh(0.378·QKᵀ / 3) + M)",
    "gpt-oss": "softmax(QKᵀ/√D + M | sink)",
    "Granite": "softmax(0.2·QKᵀ + M)",
}


@pytest.mark.parametrize("name", WORDS)
def test_one_function_gives_the_weights_of_the_pass_under_its_own_mask(name, model_of):
    trace = model_of(name).trace(IDS)
    for layer in range(trace.n_layers):
        found = through_one_equation(trace, layer, 1)
        assert found.difference < 1e-5
        assert found.formula.weights == WORDS[name]
        assert torch.equal(found.allowed[found.own], trace.mask(layer))
        assert found.formula.is_plain == (WORDS[name] == WORDS["Llama"])


def test_a_bias_and_no_scale_are_said(model_of):
    trace = model_of("T5").trace(IDS[:7], target=IDS)
    assert AttentionFormula.of(trace, 0).masked == "QKᵀ + bias + M"
    assert AttentionFormula.of(trace.of("cross"), 0).masked == "QKᵀ + M"
    assert AttentionFormula.of(trace, 0).latex_weights == r"\mathrm{softmax}\left(Q K^{\top} + b + M\right)"


# --- what a pass costs: products written out by hand ---


def attention_products(config, queries, keys, reads=None):
    c, h, g, d = config.d_model, config.n_heads, config.n_kv_heads, config.d_head
    return (
        queries * c * h * d
        + 2 * (queries if reads is None else reads) * c * g * d
        + 2 * queries * keys * h * d
        + (queries * h * d * c)
    )


def test_operations_of_experts_are_those_of_the_chosen_ones(model_of):
    c, f, v = 36, 44, 67
    for name, step in (("Mixtral", False), ("gpt-oss", True)):
        config, t = model_of(name).config, 1 if step else 13
        keys = 14 if step else 13
        layer = attention_products(config, t, keys) + t * (c * 3 + 2 * 3 * c * f)  # router, two of three experts
        by_hand = 2 * (config.n_layers * layer + c * v)
        assert pass_flops(model_of(name).transformer, PassSize(t, keys)) == by_hand


def test_operations_of_narrow_embeddings_and_gates(model_of):
    opt, t = model_of("OPT").config, 13
    layers = 2 * (attention_products(opt, t, t) + t * 2 * 36 * 44)
    narrow = t * 2 * 20 * 36 + 20 * 67  # in, out, and the logits of the last
    assert pass_flops(model_of("OPT").transformer, PassSize(t, t)) == 2 * (layers + narrow)
    config, s, t = model_of("T5, gated").config, 7, 5
    ffn = 3 * 24 * 28
    encoder = config.n_encoder_layers * (attention_products(config, s, s) + s * ffn)
    decoder = config.n_layers * (attention_products(config, t, t) + attention_products(config, t, s, reads=s) + t * ffn)
    found = pass_flops(model_of("T5, gated").transformer, PassSize(t, t, s, encodes=True))
    assert found == 2 * (encoder + decoder + 24 * 67)


# --- entropy beside a sink ---


def test_a_token_that_is_read_alone_has_no_entropy_beside_a_sink(model_of):
    trace = model_of("gpt-oss").trace(IDS)
    weights = trace.weights(1, 1)
    assert weights[0].sum() < 0.99
    found = entropy(weights)
    assert found[0] == 0
    shares = (weights[5] / weights[5].sum()).double()
    expected = -sum(p * math.log2(p) for p in shares.tolist() if p > 0)
    assert found[5].item() == pytest.approx(expected, abs=1e-5)


# --- what a model itself writes ---


@torch.inference_mode()
@pytest.mark.parametrize("name", ["BART, forced", "BART"])
def test_what_is_written_first_is_what_the_library_writes(name, model_of):
    model, source = model_of(name), [5, 9, 11, 30]
    own = model.transformer.model
    own.generation_config.forced_eos_token_id = None  # at the longest length only, which is not reached here
    own.set_attn_implementation("eager")
    try:
        theirs = own.generate(torch.tensor([source]), max_new_tokens=6, do_sample=False, num_beams=1)[0].tolist()
    finally:
        own.set_attn_implementation("viz_model")
    steps = list(model.generate(source, max_new_tokens=6, temperature=0.0))
    assert list(steps[-1].ids)[: len(theirs)] == theirs
    assert (theirs[1] == 7) == (name == "BART, forced") == steps[0].fixed
    assert not steps[0].forced
    assert model.written(source)[: len(theirs) - 1] == theirs[: len(model.written(source)[: len(theirs) - 1])]
    begun = next(model.generate(source, max_new_tokens=1, temperature=0.0, target=[2, 11]))
    assert not begun.fixed  # a text of one's own has begun otherwise already


@torch.inference_mode()
def test_a_cache_is_filled_anew_where_angles_change_with_the_length(model_of):
    model, ids = model_of("Phi-3, longrope"), [5, 9, 11, 30, 6, 7, 8, 9]
    with_cache = list(model.generate(ids, max_new_tokens=6, temperature=0.0, compare=True))
    without = list(model.generate(ids, max_new_tokens=6, temperature=0.0, cache=False))
    assert with_cache[-1].ids == without[-1].ids
    assert max(step.largest_difference for step in with_cache) < 1e-4
    assert [step.queries for step in with_cache] == [8, 1, 1, 11, 1, 1]
    assert flops_cached(with_cache[3]) == pass_flops(model.transformer, PassSize(11, 11))
    own = AutoModelForCausalLM.from_pretrained(
        model.transformer.model.name_or_path, attn_implementation="eager", dtype=torch.float32
    )
    theirs = own.generate(torch.tensor([ids]), max_new_tokens=6, do_sample=False, use_cache=False)[0].tolist()
    assert list(with_cache[-1].ids)[: len(theirs)] == theirs
