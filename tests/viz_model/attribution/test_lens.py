"""The logit lens against hidden states and the unembedding of `transformers`, with ranks and divergences by numpy."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.support.transformers_tiny_gpt import gpt2
from tests.support.transformers_tiny_llama import llama
from viz_model.attribution.lens import read_lens

TEXT = "The red fox met a grey goose. The red fox met a"
DATE = "Friday, 3 May 2024"
NAMES = ("induction", "tiny-bert", "tiny-gpt", "tiny-llama", "tiny-seq2seq")


@cache
def traced(name):
    trace = vm.load(name).trace(DATE if name == "tiny-seq2seq" else TEXT)
    return trace.of(trace.config.self_part)


@torch.inference_mode()
def library_logits(name):
    """(L,T,V) float64: each hidden state through the library's own final norm and unembedding."""
    model = {"tiny-gpt": gpt2, "tiny-llama": llama}[name]()
    norm = model.transformer.ln_f if name == "tiny-gpt" else model.model.norm
    kept = []
    hooks = [
        block.register_forward_hook(lambda _, __, out: kept.append(out if isinstance(out, torch.Tensor) else out[0]))
        for block in (model.transformer.h if name == "tiny-gpt" else model.model.layers)
    ]
    model(torch.tensor([traced(name).ids]))
    for hook in hooks:
        hook.remove()
    return np.stack([model.lm_head(norm(stream))[0].double().numpy() for stream in kept])


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-llama"])
def test_every_layer_says_what_the_library_says(name):
    known, trace = library_logits(name), traced(name)
    shares = np.exp(known - known.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    found = read_lens(trace, range(trace.length))
    np.testing.assert_array_equal(found.tokens, known.argmax(-1))
    np.testing.assert_allclose(found.probability, shares.max(-1), atol=1e-5)
    np.testing.assert_allclose(found.entropy, -(shares * np.log2(shares)).sum(-1), atol=1e-3)
    apart = (shares[-1] * (np.log2(shares[-1]) - np.log2(shares))).sum(-1)  # of the output from the layer
    np.testing.assert_allclose(found.divergence, apart, atol=1e-3)
    tokens = [int(known[-1, 6].argmax()), 3, 900]
    curves = trace.lens_of(tokens, 6)
    np.testing.assert_array_equal(curves.rank, 1 + (known[:, 6, None] > known[:, 6, tokens, None]).sum(-1))
    np.testing.assert_allclose(curves.logit, known[:, 6, tokens], atol=1e-4)
    np.testing.assert_allclose(curves.probability, shares[:, 6, tokens], atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_last_row_is_the_output(name):
    trace = traced(name)
    found = read_lens(trace, range(trace.length))
    for position in range(trace.length):
        shares = trace.logits_at(position).double().softmax(-1)
        assert float(found.probability[-1, position]) == pytest.approx(float(shares.max()), abs=1e-6)
        assert int(found.tokens[-1, position]) == int(shares.argmax())
        torch.testing.assert_close(
            trace.lens(trace.n_layers - 1, position), trace.logits_at(position), atol=1e-6, rtol=1e-6
        )
        curve = trace.lens_of([5], position)
        assert float(curve.probability[-1, 0]) == pytest.approx(float(shares[5]), abs=1e-6)
    assert found.divergence[-1].abs().max() == 0


def read_by(unembed):
    """The pass of tiny-gpt with other logits."""
    host = SimpleNamespace(stack_maps=vm.load("tiny-gpt").transformer.stack_maps, unembed=unembed)
    return replace(traced("tiny-gpt"), host=host)


def test_equally_likely_tokens_share_a_rank():
    run = read_by(lambda hidden: torch.zeros(*hidden.shape[:-1], 7))
    assert run.lens_of([0, 6]).rank.unique().tolist() == [1]


def test_what_a_model_forbids_makes_no_prediction_infinite():
    """A logit of −∞ is a probability of 0, which adds nothing to an entropy or a divergence."""
    without = torch.tensor([0.0, -torch.inf, 0.0])
    found = read_lens(read_by(lambda hidden: hidden[..., :3] + without), range(4))
    known = read_lens(read_by(lambda hidden: hidden[..., [0, 2]]), range(4))
    torch.testing.assert_close(found.entropy, known.entropy)
    torch.testing.assert_close(found.divergence, known.divergence)
    assert not (found.tokens == 1).any()


def test_what_is_not_there_is_refused():
    for tokens in ([], [-1], [4353], "ab", 3, None, [1.5]):
        with pytest.raises(vm.VizError):
            traced("tiny-gpt").lens_of(tokens)
    with pytest.raises(vm.VizError, match="position"):
        traced("tiny-gpt").lens_of([3], 99)
