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
from transformers.models.bloom import modeling_bloom

import viz_model as vm
from tests.reference.families import BART, BERT, FAMILIES, LLAMA, T5, _causal, _pair, save_small
from viz_model.heads.measures import entropy
from viz_model.misconceptions.equations import through_one_equation
from viz_model.misconceptions.whole import loss_without, switchable
from viz_model.model.formula import AttentionFormula
from viz_model.positions.biases import distance_bias
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


def of_groups(own, x):
    """(B,T,G,H/G + 2,D), of three groups."""
    return own.query_key_value(x).unflatten(-1, (3, 4, 6))


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
    "GPT-Neo": {
        "q": (rf"Q = {X}\,W_{{Q}}", lambda own, x: heads_of(own.attention.q_proj(x), 6)),
        "v": (rf"V = {X}\,W_{{V}}", lambda own, x: heads_of(own.attention.v_proj(x), 6)),
    },
    "Falcon, grouped": {  # of each group two queries, their key and their value
        "q_pre": (rf"{X}\,W_{{Q}}", lambda own, x: of_groups(own, x)[..., :2, :].flatten(2, 3).transpose(1, 2)),
        "k": (rf"K = R_j\,({X}\,W_{{K}})", None),
        "k_pre": (rf"{X}\,W_{{K}}", lambda own, x: of_groups(own, x)[..., 2, :].transpose(1, 2)),
        "v": (rf"V = {X}\,W_{{V}}", lambda own, x: of_groups(own, x)[..., 3, :].transpose(1, 2)),
    },
    "BLOOM": {"v": (rf"V = {X}\,W_{{V}}", lambda own, x: heads_of(own.query_key_value(x), 6)[..., 12:])},
    "MPT": {"q": (rf"Q = {X}\,W_{{Q}}", lambda own, x: heads_of(own.Wqkv(x)[..., :36], 6))},
    "ALBERT": {"k": (r"K = x\,W_{K}", lambda own, x: heads_of(own.key(x), 6))},
    "MPNet": {"k": (r"K = x\,W_{K}", lambda own, x: heads_of(own.attn.k(x), 6))},
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
    reads = found["blocks.0.resid_pre"]
    if model.config.norm_place != "post":
        reads = found.get("blocks.0.norm1", reads)
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
    "GPT-Neo": "softmax(QKᵀ + M)",
    "Falcon": "softmax(QKᵀ/√D + M)",
    "BLOOM": "softmax(QKᵀ/√D + bias + M)",
    "MPNet": "softmax(QKᵀ/√D + bias + M)",
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


@torch.inference_mode()
@pytest.mark.parametrize(
    ("name", "formula"),
    [("BLOOM", r"b_{ij} = m_h\,j"), ("Falcon, ALiBi", r"b_{ij} = m_h\,j"), ("MPT", r"b_{ij} = m_h\,(j - S + 1)")],
)
def test_slopes_are_those_of_press_et_al(name, formula, model_of):
    """§3: for H heads, a power of 2, 2^(−8/H), 2^(−16/H) …; for 6 those of 4, then every other one of 8."""
    published = [2.0 ** -(8 * n / 4) for n in range(1, 5)] + [2.0**-1, 2.0**-3]
    model, trace = model_of(name), model_of(name).trace(IDS)
    before = 6**-0.5 if name == "Falcon, ALiBi" else 1.0  # Falcon divides by √D after the sum
    assert trace.equation(1).slopes == pytest.approx([before * slope for slope in published])
    assert {row.site: row.formula for row in quantities(model, trace, 1)}["blocks.1.attn.bias"] == formula
    found = distance_bias(trace, 1)
    assert found.distances.tolist() == list(range(-len(IDS) + 1, 1))
    close(found.by_distance, found.distances * torch.tensor(trace.equation(1).slopes).double()[:, None], 1e-5)
    place = torch.arange(len(IDS))
    counted = place if name != "MPT" else place - len(IDS) + 1
    close(trace.bias(1, 3)[5], before * published[3] * counted, 1e-5)
    assert model.trace([7]).bias(1, 3) is not None  # 0, but it is there


@torch.inference_mode()
def test_learned_biases_by_distance_are_those_of_the_librarys_table(model_of):
    model = model_of("MPNet")
    encoder = model.transformer.model.mpnet.encoder
    found = distance_bias(model.trace(IDS), 1)
    assert (found.slopes, found.spread) == (None, 0)
    buckets = encoder.relative_position_bucket(found.distances)
    learned = encoder.relative_attention_bias(buckets).T.double()  # (H,distances)
    close(found.by_distance, learned - learned[:, found.distances == 0], 1e-6)
    with pytest.raises(vm.VizError, match="adds nothing to its scores"):
        distance_bias(model_of("BERT").trace(IDS), 0)


@torch.inference_mode()
def test_a_model_without_its_distance_bias(model_of, monkeypatch):
    """With its positions off, BLOOM is the library's with slopes of 0."""
    rows = torch.tensor([IDS])
    model = model_of("BLOOM")
    assert switchable(model)["positions"] == ""
    off, whole = (loss_without(model, rows, parts).nats for parts in (["positions"], []))
    monkeypatch.setattr(modeling_bloom, "_get_alibi_slopes", lambda heads, device: torch.zeros(heads))
    folder = model.transformer.model.name_or_path
    own = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    theirs = F.cross_entropy(own(rows).logits[0, :-1], rows[0, 1:]).item()
    assert off == pytest.approx(theirs, abs=1e-5)
    assert abs(off - whole) > 1e-3


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


def test_operations_of_groups_and_of_shared_layers(model_of):
    t = 13
    config = model_of("Falcon, grouped").config
    layer = attention_products(config, t, t) + t * 2 * 36 * 144
    assert pass_flops(model_of("Falcon, grouped").transformer, PassSize(t, t)) == 2 * (2 * layer + 36 * 67)
    albert = model_of("ALBERT").config  # two groups of two layers: each layer is computed
    layers = 4 * (attention_products(albert, t, t) + t * 2 * 36 * 44)
    narrow = t * 20 * 36 + 36 * 20 + 20 * 67
    assert pass_flops(model_of("ALBERT").transformer, PassSize(t, t)) == 2 * (layers + narrow)


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
