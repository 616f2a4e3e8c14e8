"""The shape reference against sizes that are counted in the test, and formulas against the weights themselves."""

import pytest
import torch

from tests.viz_model.models import small_model
from viz_model.hooks import capture
from viz_model.model import Model
from viz_model.quantities import letters, quantities
from viz_model.transformer import TransformerConfig, make_transformer

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
    assert all(site == "logits" or site.startswith(stack) for site in rows)
    assert not any(".cross." in site for site in rows) or part == "cross"


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
