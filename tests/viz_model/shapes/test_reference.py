"""The shape reference against sizes that are counted in the test, and formulas against the weights themselves."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.reference.families import FAMILIES, save_small
from tests.support.small_models import small_model
from viz_model.model import Model
from viz_model.shapes.contract import outer_nodes
from viz_model.shapes.reference import letters, quantities
from viz_model.transformer import TransformerConfig, make_transformer
from viz_model.transformer.hooks import capture

IDS = [3, 1, 4, 1, 5]


def seq2seq():
    config = TransformerConfig(
        layout="encoder-decoder", n_layers=2, n_heads=4, d_model=24, d_ff=40, vocab_size=31, context_length=16
    )
    torch.manual_seed(0)
    return Model("translator", make_transformer(config).eval())


def by_name(model, trace, layer=1):
    return {row.site: row for row in quantities(model, trace, layer)}


def test_every_site_around_one_block_is_there_with_its_letters_and_sizes():
    model = Model("small", small_model(n_kv_heads=2, position="rotary", context_length=16))
    config = model.config
    rows = by_name(model, model.trace(IDS))
    with capture("*") as found:
        model.transformer(torch.tensor([IDS]))
    wanted = {
        name for name in found if not name.startswith("blocks.0") and (name[:6] != "blocks" or "blocks.1" in name)
    }
    assert rows.keys() == {name for name in wanted if not name.startswith("blocks.2")}
    width, heads, groups = config.d_model, config.n_heads, config.n_kv_heads
    assert rows["blocks.1.attn.q_pre"].shape == (1, heads, 5, width // heads)
    assert rows["blocks.1.attn.k"].shape == (1, groups, 5, width // heads)
    assert rows["blocks.1.attn.k"].axes == ("B", "G", "S", "D")
    assert rows["blocks.1.attn.weights"].count == heads * 25
    assert rows["blocks.1.ffn.hidden"].shape == (1, 5, config.d_ff)
    assert rows["logits"].shape == (1, config.vocab_size)
    assert rows["blocks.1.attn.q"].formula.startswith("Q = R_i")
    for row in rows.values():
        assert all(
            letters(model.trace(IDS)).get(axis, axis) in (size, str(size))
            for axis, size in zip(row.axes, row.shape, strict=True)
        )


@pytest.mark.parametrize(("part", "queries", "keys"), [("encoder", 5, 5), ("decoder", 3, 3), ("cross", 3, 5)])
def test_parts_of_an_encoder_decoder_have_their_own_axes(part, queries, keys):
    model = seq2seq()
    trace = model.trace(IDS, target=[30, 2, 7]).of(part)
    rows = by_name(model, trace)
    stack = "encoder" if part == "encoder" else "decoder"
    name = f"{stack}.blocks.1.{'cross' if part == 'cross' else 'attn'}"
    assert rows[f"{name}.weights"].shape == (1, 4, queries, keys)
    assert rows[f"{name}.k"].shape == (1, 4, keys, 6)
    assert {site for site in rows if not site.startswith(stack)} == ({"logits"} if part != "encoder" else set())
    assert not any(".cross." in site for site in rows) or part == "cross"


@pytest.mark.parametrize("place", ["pre", "post"])
def test_what_is_called_a_norm_at_the_end_changes_the_stream(place):
    model = Model(place, small_model(norm_place=place))
    trace = model.trace(IDS)
    last = f"blocks.{model.config.n_layers - 1}.resid_post"
    unchanged = torch.equal(trace["final_norm"], trace[last])
    assert unchanged == (place == "post")
    assert ("norm" in by_name(model, trace)["final_norm"].title) == (not unchanged)
    [box] = [node for node in outer_nodes(model.config, len(IDS)) if node.local == "final_norm"]
    assert ("norm" in box.title) == (not unchanged)


def test_without_a_feed_forward_half_there_is_none():
    model = Model("attention only", small_model(d_ff=0))
    assert not any("ffn" in site or "norm2" in site for site in by_name(model, model.trace(IDS)))


def test_formulas_of_the_attention_are_what_the_tensors_obey():
    """Written out from the weights: Q = xW_Q, scores = QKᵀ/√D, A = softmax(scores + M), out = concat(AV)W_O."""
    model = Model("small", small_model(n_kv_heads=4))
    config = model.config
    with capture("blocks.1.*") as found:
        model.trace(IDS)
    attention, x = model.transformer.blocks[1].attn, found["blocks.1.norm1"][0]
    q, k, v = (
        (x @ matrix.weight.T + (0 if matrix.bias is None else matrix.bias))
        .reshape(5, config.n_heads, -1)
        .transpose(0, 1)
        for matrix in (attention.query, attention.key, attention.value)
    )
    scores = q @ k.transpose(1, 2) / (config.d_model / config.n_heads) ** 0.5
    weights = (scores + torch.full((5, 5), -torch.inf).triu(1)).softmax(-1)
    joined = (weights @ v).transpose(0, 1).reshape(5, -1)
    out = joined @ attention.output.weight.T + (0 if attention.output.bias is None else attention.output.bias)
    for name, expected in (("q", q), ("scores", scores), ("weights", weights), ("out", out)):
        torch.testing.assert_close(found[f"blocks.1.attn.{name}"][0], expected, atol=1e-5, rtol=1e-4)


def formulas(model, trace, layer=0):
    return {row.site: row.formula for row in quantities(model, trace, layer)}


def test_formulas_are_those_of_the_model():
    """What the weights' names and the config say: no P where nothing is added, a gate, a norm behind, another text."""
    llama = Model("llama", small_model(position="rotary", activation="swiglu", n_kv_heads=2))
    found = formulas(llama, llama.trace(IDS))
    assert found["embed"] == r"x = E[\mathrm{ids}]"
    assert r"\odot" in found["blocks.0.ffn.hidden"]
    scaled = Model("scaled", small_model(position="sinusoidal", embedding_scale=True, d_model=24, norm_place="post"))
    found = formulas(scaled, scaled.trace(IDS))
    assert found["embed"] == r"x = \sqrt{C}\,E[\mathrm{ids}] + P"
    assert found["blocks.0.attn.q"] == "Q = x\\,W_{Q}"
    assert found["blocks.0.norm1"] == r"x = \mathrm{norm}_1(x + \mathrm{out})"
    sites = list(found)
    assert sites.index("blocks.0.norm1") > sites.index("blocks.0.attn.out"), "behind the half, as in the pass"
    translator = seq2seq()
    found = formulas(translator, translator.trace(IDS, target=[30, 2]).of("cross"))
    assert found["decoder.blocks.0.cross.k"] == "K = y\\,W_{K}"
    assert found["decoder.blocks.0.cross.q"] == "Q = \\hat{x}\\,W_{Q}"


# As the papers and the libraries of these families have it; S: the row of the segment that a text of one part is in.
EMBEDDINGS = {
    "GPT-2": r"x = E[\mathrm{ids}] + P",
    "Llama": r"x = E[\mathrm{ids}]",
    "Gemma": r"x = \sqrt{C}\,E[\mathrm{ids}]",
    "Granite": r"x = 3\,E[\mathrm{ids}]",
    "OPT": r"x = E[\mathrm{ids}]\,W_E + P",  # narrower rows
    "BERT": r"x = \mathrm{norm}(E[\mathrm{ids}] + P + S[\mathrm{segments}])",
    "DistilBERT": r"x = \mathrm{norm}(E[\mathrm{ids}] + P)",
    "RoBERTa": r"x = \mathrm{norm}(E[\mathrm{ids}] + P + S[\mathrm{segments}])",
    "ModernBERT": r"x = \mathrm{norm}(E[\mathrm{ids}])",
    "BART": r"x = \mathrm{norm}(E[\mathrm{ids}] + P)",
    "Marian": r"x = \sqrt{C}\,E[\mathrm{ids}] + P",
    "T5": r"x = E[\mathrm{ids}]",
}


@pytest.mark.parametrize("family", EMBEDDINGS)
def test_the_embedding_of_a_family_is_the_sum_that_its_formula_says(family, tmp_path):
    options = {"Granite": {"embedding_multiplier": 3.0}, "Marian": {"scale_embedding": True}}.get(family, {})
    chosen = FAMILIES[family]
    save_small(replace(chosen, options=chosen.options | options), tmp_path)
    model = vm.load(tmp_path)
    trace = model.trace([5, 9, 33, 7]).of(model.config.parts[0])
    found = {row.site: row for row in quantities(model, trace, 0)}
    stack = model.config.stack_name(trace.part)
    formula = found[f"{stack}embed"].formula
    assert formula == EMBEDDINGS[family]
    if "S[" in formula:  # the row itself, and the sum of all rows, normed by numpy
        rows = trace["embed.tokens"] + trace["embed.positions"] + trace["embed.segments"]
        table = next(v for name, v in model.transformer.model.state_dict().items() if "token_type_embeddings" in name)
        np.testing.assert_array_equal(trace["embed.segments"], table[[0] * 4])
        norm = {
            n.rpartition(".")[-1]: v for n, v in model.transformer.model.state_dict().items() if "ngs.LayerNorm" in n
        }
        centred = (rows - rows.mean(-1, keepdim=True)).numpy()
        normed = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        np.testing.assert_allclose(trace["embed"], normed * norm["weight"].numpy() + norm["bias"].numpy(), atol=1e-4)


# What else their papers and configs have: scale, bias, cap and sink of attention, sums of the stream, and the head.
FORMULAS = {
    "T5": {
        "attn.scores": r"Q K^{\top}",  # no scale
        "attn.weights": r"A = \mathrm{softmax}(\mathrm{scores} + b + M)",
        "logits": r"0.2041\,\hat{x}_{T-1}\,E^{\top}",  # C = 24: tied logits are divided by √C
    },
    "Granite": {
        "attn.scores": r"0.2\,Q K^{\top}",
        "resid_post": r"x + 0.5\,\mathrm{out}",
        "logits": r"0.3333\,\hat{x}_{T-1}\,W_U",
    },
    "Gemma 2": {
        "attn.scores": r"0.378\,Q K^{\top}",  # 7^(−1/2)
        "attn.weights": r"A = \mathrm{softmax}(\mathrm{capped} + M)",
        "attn.out_norm": r"\mathrm{out} = \mathrm{norm}_{1'}(\mathrm{out})",
        "logits": r"30\,\tanh(\hat{x}_{T-1}\,E^{\top} / 30)",
    },
    "gpt-oss": {"attn.weights": r"A = \mathrm{softmax}(\mathrm{scores} + M\mid s_h)", "resid_mid": r"x + \mathrm{out}"},
    "GPT-J": {"resid_post": r"x + \sum \mathrm{out}", "attn.scores": r"Q K^{\top} / \sqrt{D}"},
    "BERT": {"logits": r"\mathrm{norm}_h(\mathrm{GELU}(x_{T-1}\,W_h))\,E^{\top}", "resid_mid": "x"},
}


@pytest.mark.parametrize("family", FORMULAS)
def test_formulas_of_a_family_are_its_own(family, tmp_path):
    save_small(FAMILIES[family], tmp_path)
    model = vm.load(tmp_path)
    trace = model.trace([5, 9, 33, 7], target=[2, 8, 9] if model.has_source else None)
    found = formulas(model, trace)
    for site, formula in FORMULAS[family].items():
        name = site if site == "logits" else f"{model.config.block_name(trace.part, 0)}.{site}"
        assert found[name] == formula, site
