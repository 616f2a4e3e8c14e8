"""What a head adds to a logit, token by token: numpy with the weights and the attention of `transformers`."""

from functools import cache

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.support.small_models import small_model
from tests.support.transformers_tiny_gpt import gpt2
from tests.support.transformers_tiny_llama import llama
from viz_model.model import Model

TEXT = "The red fox met a grey goose. The red fox met a"
DATE = "Friday, 3 May 2024"
SMALL = {
    "post-norm": {"norm_place": "post", "embedding_norm": True},
    "rms, gated, rotary, shared keys": {
        "norm": "rms", "activation": "swiglu", "position": "rotary", "bias": False, "n_kv_heads": 2,
    },
    "encoder, decoder": {"layout": "encoder-decoder", "n_encoder_layers": 1, "norm_place": "post"},
}  # fmt: skip


@cache
def traced(name):
    if name in SMALL:
        return Model("small", small_model(**SMALL[name])).trace([3, 9, 4, 17, 9, 4, 1])
    return vm.load(name).trace(DATE if name == "tiny-seq2seq" else TEXT)


def array(tensor):
    return tensor.detach().double().numpy()


@torch.inference_mode()
def seen(model, ids, projections):
    """Attention maps of every layer, what each of these modules gave, and the last hidden state before its norm."""
    given = {}
    hooks = [
        model.get_submodule(name).register_forward_hook(lambda _, __, out, name=name: given.update({name: out[0]}))
        for name in projections
    ]
    norm = model.transformer.ln_f if hasattr(model, "transformer") else model.model.norm
    hooks.append(norm.register_forward_pre_hook(lambda _, entering: given.update(stream=entering[0][0])))
    attentions = model(torch.tensor([ids]), output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    return [array(one[0]) for one in attentions], {name: array(tensor) for name, tensor in given.items()}


def test_of_gpt2_it_is_what_numpy_says():
    """A[q,s] · V[s] · W_O through the layer norm, whose mean and deviation are those of the whole stream."""
    trace, theirs, heads, width = traced("tiny-gpt"), gpt2(), 8, 32
    names = [f"transformer.h.{layer}.attn.c_attn" for layer in range(4)]
    attentions, given = seen(theirs, trace.ids, names)
    query, stream = 7, given["stream"][7]
    rows, gain = array(theirs.lm_head.weight), array(theirs.transformer.ln_f.weight)
    for than, less in ((None, 0.0), ("mean", rows.mean(0)), (17, rows[17])):
        found = trace.logit_sources(5, query, than)
        for row, (layer, head) in enumerate(np.ndindex(4, heads)):
            assert found.names[row] == f"layer {layer}, head {head}"
            values = given[names[layer]][:, 512:].reshape(-1, heads, width)[:, head]  # (T,D)
            out = array(theirs.transformer.h[layer].attn.c_proj.weight)[head * width : (head + 1) * width]
            written = attentions[layer][head, query, :, None] * values @ out  # (T,C)
            normed = gain * (written - written.mean(1, keepdims=True)) / np.sqrt(stream.var() + 1e-5)
            expected = normed @ (rows[5] - less)
            np.testing.assert_allclose(array(found.terms[row]), expected, atol=1e-5 * np.abs(expected).max())


def test_of_llama_it_is_what_numpy_says():
    """Two query heads read one value head, and the norm divides by the root of the mean square."""
    trace, theirs = traced("tiny-llama"), llama()
    config = theirs.config
    width, share = (
        config.hidden_size // config.num_attention_heads,
        config.num_attention_heads // config.num_key_value_heads,
    )
    assert share > 1
    names = [f"model.layers.{layer}.self_attn.v_proj" for layer in range(config.num_hidden_layers)]
    attentions, given = seen(theirs, trace.ids, names)
    query, stream = len(trace.ids) - 1, given["stream"][-1]
    direction = array(theirs.lm_head.weight)[9] * array(theirs.model.norm.weight)
    scale = np.sqrt((stream**2).mean() + config.rms_norm_eps)
    found = trace.logit_sources(9)
    for row, (layer, head) in enumerate(np.ndindex(config.num_hidden_layers, config.num_attention_heads)):
        values = given[names[layer]].reshape(len(trace.ids), -1, width)[:, head // share]
        out = array(theirs.model.layers[layer].self_attn.o_proj.weight)[:, head * width : (head + 1) * width]
        written = attentions[layer][head, query, :, None] * values @ out.T
        expected = written @ direction / scale
        np.testing.assert_allclose(array(found.terms[row]), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["induction", "tiny-bert", "tiny-gpt", "tiny-llama", "tiny-seq2seq", *SMALL])
@pytest.mark.parametrize("than", [None, "mean", 5])
def test_the_shares_of_a_head_add_up_to_its_term(name, than):
    whole = traced(name)
    for part in {whole.config.self_part, whole.config.parts[-1]}:
        trace = whole.of(part)
        for position in (-1, 2):
            terms, found = trace.logit_terms(3, position, than), trace.logit_sources(3, position, than)
            heads = terms.terms[[terms.components.index(component) for component in found.components]]
            np.testing.assert_allclose(found.of_heads, heads, atol=1e-12 * float(heads.abs().max()))
            assert found.of_no_token.abs().max() < 1e-6 * float(heads.abs().max())
            assert found.terms.shape == (trace.n_layers * trace.config.n_heads, trace.key_length)
            assert found.of_tokens.sum() == pytest.approx(float(found.terms.sum()))


def test_what_may_not_be_read_adds_nothing():
    trace = vm.load("tiny-gpt").trace(TEXT)
    assert trace.logit_sources(3, 4).terms[:, 5:].abs().max() == 0


def test_what_an_edit_put_into_mixed_values_is_of_no_token():
    """A head that is switched off still has its weights; what it would add with them is taken back."""

    def without_head(mixed):
        mixed[:, 3] = 0
        return mixed

    with vm.edit({"blocks.2.attn.mixed": without_head}):
        trace = vm.load("tiny-gpt").trace(TEXT)
    found, at = trace.logit_sources(3), 2 * 8 + 3
    assert found.of_heads[at] == pytest.approx(0.0, abs=1e-12)
    assert found.of_no_token[at] == pytest.approx(-float(found.terms[at].sum()))
    assert found.terms[at].abs().max() > 1e-3
    others = [row for row in range(32) if row != at]
    assert found.of_no_token[others].abs().max() < 1e-6


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-llama", "encoder, decoder"])
def test_rows_of_weights_are_those_of_the_whole_matrix(name):
    """Stored or not: of a long prompt only these rows are worked out. Mixed values are kept whole."""
    fused = traced(name)
    model = Model("small", fused.host, None)
    given = {"target": fused.read.ids} if fused.source else {}
    ids = (fused.source or fused.read).ids
    kept = model.trace(list(ids), stored_weights_bytes=1 << 26, **given)
    assert kept.stored
    assert not fused.stored
    for part in kept.config.parts:
        rows, layer = [2, 0], kept.of(part).n_layers - 1
        whole = torch.stack([kept.of(part).weights(layer, head) for head in range(kept.config.n_heads)])
        for trace in (kept.of(part), fused.of(part)):
            torch.testing.assert_close(trace.weights_of(layer, rows), whole[:, rows], atol=1e-5, rtol=0)
            torch.testing.assert_close(trace.mixed(layer), kept.of(part).mixed(layer), atol=1e-5, rtol=1e-5)


def test_what_is_not_there_is_refused():
    trace = traced("tiny-gpt")
    for arguments in ((-1,), (4353,), ("a",), (3, 99), (3, -1, 9999), (3, -1, "all")):
        with pytest.raises(vm.VizError):
            trace.logit_sources(*arguments)
    for queries in ([], [99], 3, "ab", None, [0.5]):
        with pytest.raises(vm.VizError):
            trace.weights_of(0, queries)
    with pytest.raises(vm.VizError, match="encoder"):
        traced("tiny-seq2seq").of("encoder").logit_sources(3)
