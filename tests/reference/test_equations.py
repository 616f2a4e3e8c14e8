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
from tests.reference.families import _causal, compare, save_small
from tests.reference.variants import VARIANTS
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


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    @cache
    def get(name):
        folder = tmp_path_factory.mktemp("model")
        save_small(VARIANTS[name], folder)
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
    "DeepSeek-V3": {
        "q": (rf"Q = R_i\,(\mathrm{{norm}}_Q({X}\,W_{{DQ}})\,W_{{UQ}})", None),
        "v": (rf"V = \mathrm{{norm}}_K({X}\,W_{{DK}})\,W_{{UV}}", None),
    },
    "OPT": {"q": (rf"Q = 0.4082\,({X}\,W_{{Q}})", lambda own, x: heads_of(own.q_proj(x), 6) * 6**-0.5)},
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
        assert written == r"\mathrm{ReLU}(\hat{x}\,W_1)"
        expected = F.relu(own.wi(x))
    else:
        assert written == r"\mathrm{GELU}_{\tanh}(\hat{x}\,W_g) \odot \hat{x}\,W_1"
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


@pytest.mark.parametrize(
    ("model_type", "sizes"),
    [
        ("mpt", {"d_model": 36, "n_layers": 2, "n_heads": 6, "max_seq_len": 20, "attn_config": {"clip_qkv": 9.0}}),
        ("olmo", {"hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 6, "clip_qkv": 9.0,
                  "intermediate_size": 44, "max_position_embeddings": 20}),
    ],
)  # fmt: skip
def test_queries_that_may_be_cut_off_are_no_plain_product(model_type, sizes, tmp_path):
    """With 9 nothing is cut off in the first pass; other texts may have larger numbers."""
    family = _causal(model_type, sizes)
    save_small(family, tmp_path)
    assert compare(family, tmp_path).weights <= 1e-4
    model = vm.load(tmp_path)
    written = {row.site: row.formula for row in quantities(model, model.trace(IDS), 1)}
    for letter in "qkv":
        assert written[f"blocks.1.attn.{letter}"] == rf"{letter.upper()} = f_{letter.upper()}({X})"


def test_positions_that_are_not_seen_are_not_said_to_be_none(tmp_path):
    """CTRL adds sinusoids in its own code, in no module that the first pass could meet."""
    save_small(_causal("ctrl", {"n_embd": 36, "n_layer": 2, "n_head": 6, "n_positions": 20, "dff": 44}), tmp_path)
    model = vm.load(tmp_path)
    assert model.config.position is None
    assert "no positions" not in switchable(model)["positions"]


@pytest.mark.parametrize("name", ["M2M100", "mBART", "Pegasus"])
def test_norms_before_cross_attention_are_found(name, model_of):
    model = model_of(name)
    with capture("decoder.blocks.0.norm_cross"):
        model.trace(IDS[:7], target=IDS)
    assert model.config.norm_place == "pre"


@torch.inference_mode()
@pytest.mark.parametrize("name", [name for name, family in VARIANTS.items() if family.kind is AutoModelForCausalLM])
def test_the_width_of_the_stream_and_the_end_are_those_of_the_library(name, model_of):
    """C is not V, nor the width of narrow embeddings, wherever the library keeps the stack (Llama 4, OPT)."""
    model = model_of(name)
    said = model.transformer.model.config.get_text_config()
    assert (model.config.d_model, model.config.vocab_size) == (said.hidden_size, said.vocab_size)
    assert model.config.has_unembedding
    trace = model.trace(IDS)
    own = model.transformer.model(torch.tensor([IDS]), output_hidden_states=True)
    assert trace["blocks.0.resid_pre"].shape == own.hidden_states[0][0].shape == (len(IDS), said.hidden_size)
    close(trace["final_norm"], own.hidden_states[-1][0] if name != "OPT" else trace["final_norm"])
    close(trace.logits, own.logits[0, -1])


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

RULES = {  # what a generation config may say, alone and together
    "nothing": {},
    "first": {"forced_bos_token_id": 7},
    "last": {"forced_eos_token_id": 2, "max_length": 6},
    "never": {"suppress_tokens": [11, 39, 50]},
    "bad words": {"bad_words_ids": [[39], [2], [11, 11], [50, 50, 65]]},
    "never first": {"begin_suppress_tokens": [11, 39, 50]},
    "never behind the first": {"begin_suppress_tokens": [11, 38, 20], "forced_bos_token_id": 7},
    "not twice": {"no_repeat_ngram_size": 2},
    "no token twice": {"no_repeat_ngram_size": 1},
    "not too short": {"min_length": 9, "eos_token_id": [2, 11, 50]},
    "longest": {"max_length": 5},
    "all": {"forced_bos_token_id": 7, "forced_eos_token_id": 2, "max_length": 14, "suppress_tokens": [38],
            "no_repeat_ngram_size": 3, "bad_words_ids": [[61, 61]], "begin_suppress_tokens": [5], "min_length": 6},
}  # fmt: skip


@pytest.fixture(scope="module")
def writer_of(tmp_path_factory):
    """A model whose generation config has these settings, and what the library writes with it by itself."""

    @cache
    def get(family, rules):
        folder = tmp_path_factory.mktemp("writer")
        save_small(VARIANTS[family], folder)
        chosen = transformers.GenerationConfig.from_pretrained(folder)
        chosen.forced_eos_token_id = None  # of the library's defaults for BART
        chosen.update(**RULES[rules])
        chosen.save_pretrained(folder)
        return vm.load(folder)

    return get


def written_by_the_library(model, prompt, most):
    """Greedy, one text; the model's own longest length holds where it has one."""
    own, loaded = (
        model.transformer.model,
        transformers.GenerationConfig.from_pretrained(model.transformer.model.name_or_path),
    )
    most = {} if loaded.max_length else {"max_new_tokens": most}
    own.set_attn_implementation("eager")
    try:
        return own.generate(torch.tensor([prompt]), do_sample=False, num_beams=1, **most)[0].tolist()
    finally:
        own.set_attn_implementation("viz_model")


@torch.inference_mode()
@pytest.mark.parametrize("family", ["BART", "T5", "Llama"])
@pytest.mark.parametrize("rules", RULES)
def test_what_is_written_is_what_the_library_writes(family, rules, writer_of):
    model, prompt, most = writer_of(family, rules), [5, 9, 11, 30], 12
    theirs = written_by_the_library(model, prompt, most)
    if model.has_source:
        ours = model.written(prompt)
        theirs = theirs[:-1] if theirs[-1] in model.end_tokens else theirs
        assert ours[: most + 1] == theirs[: most + 1]
        return
    longest = RULES[rules].get("max_length")
    steps = list(model.generate(prompt, max_new_tokens=longest - len(prompt) if longest else most, temperature=0.0))
    assert list(steps[-1].ids) == theirs


@torch.inference_mode()
def test_a_rule_is_not_what_the_reader_or_the_largest_logit_chose(writer_of):
    model, source = writer_of("BART", "first"), [5, 9, 11, 30]
    first = next(model.generate(source, max_new_tokens=1, temperature=0.0))
    assert (first.token_id, first.fixed, first.forced) == (7, True, False)
    begun = next(model.generate(source, max_new_tokens=1, temperature=0.0, target=[2, 11]))
    assert not begun.fixed  # a text of one's own has begun otherwise already
    taken = next(model.generate(source, max_new_tokens=1, temperature=0.0, forced={0: 9}))
    assert (taken.token_id, taken.fixed, taken.forced) == (9, False, True)
    barred = writer_of("BART", "never")
    for step in barred.generate(source, max_new_tokens=6, temperature=2.0):
        assert step.token_id not in (11, 39, 50)
        assert step.sampled.probabilities[[11, 39, 50]].sum() == 0
        assert all(one.allowed == (one.token_id not in (11, 39, 50)) for one in step.top(67))


def test_what_is_not_followed_is_named(writer_of, tmp_path):
    assert writer_of("BART", "all").writing_rules.not_followed == ()
    save_small(VARIANTS["BART"], tmp_path)
    chosen = transformers.GenerationConfig.from_pretrained(tmp_path)
    chosen.update(num_beams=4, repetition_penalty=1.3, encoder_repetition_penalty=1.0, guidance_scale=1)
    chosen.save_pretrained(tmp_path)
    assert vm.load(tmp_path).writing_rules.not_followed == ("num_beams", "repetition_penalty")


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
