"""A pass taken apart: sums are what the pass computed, and each term is what numpy makes of the library's weights."""

from functools import cache

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.support.score_sums import summed_scores
from tests.support.small_models import small_model
from tests.support.transformers_tiny_gpt import FOLDER as GPT
from viz_model.attribution.components import components
from viz_model.model import Model

TWICE = "The red fox met a grey goose. The red fox met a"
DATE = "Friday, 3 May 2024"
NAMES = ("induction", "tiny-bert", "tiny-gpt", "tiny-llama", "tiny-seq2seq")
SMALL = {
    "odd widths": {"d_model": 21, "n_heads": 3, "n_kv_heads": 3, "d_ff": 13},
    "post-norm": {"norm_place": "post", "embedding_norm": True},
    "no feed-forward": {"d_ff": 0},
    "rms, gated, rotary, shared keys": {
        "norm": "rms", "activation": "swiglu", "position": "rotary", "bias": False, "n_kv_heads": 2,
        "rotary_pairs": "neighbours",
    },
    "sinusoids, scaled": {"position": "sinusoidal", "embedding_scale": True},
}  # fmt: skip


@cache
def traced(name):
    if name in SMALL:
        return Model("small", small_model(**SMALL[name])).trace([3, 9, 4, 17, 9, 4, 1])
    return vm.load(name).trace(DATE if name == "tiny-seq2seq" else TWICE)


def parts_of(trace):
    return [trace.of(part) for part in trace.config.parts]


@pytest.mark.parametrize("name", [*NAMES, *SMALL])
def test_components_add_up_to_the_stream_of_every_layer(name):
    for trace in parts_of(traced(name)):
        for layer in range(trace.n_layers):
            found = components(trace, range(trace.length), layer)
            stream = trace[trace.site("resid_self" if trace.part == "cross" else "resid_pre", layer)]
            np.testing.assert_allclose(found.parts.sum(0), stream, atol=1e-5 * float(stream.abs().max()))
            assert len(set(found.components)) == len(found.components) == len(found.parts)
        stream = trace[trace.site("resid_post", trace.n_layers - 1)]
        behind = components(trace, range(trace.length)).parts.sum(0)
        np.testing.assert_allclose(behind, stream, atol=1e-5 * float(stream.abs().max()))


@pytest.mark.parametrize("name", [*NAMES, *SMALL])
def test_terms_of_a_score_add_up_to_the_drawn_one(name):
    for trace in parts_of(traced(name)):
        for layer, head in np.ndindex(trace.n_layers, trace.config.n_heads):
            scores, key = trace.scores(layer, head).double(), trace.key_length // 3
            query = trace.length - 1 - layer
            found = trace.score_terms(layer, head, query, key)
            assert found.score == pytest.approx(float(scores[query, key]), abs=1e-9)
            np.testing.assert_allclose(found.of_query.sum(), found.of_key.sum(), atol=1e-9)
            assert (len(found.names_query), len(found.names_key)) == tuple(found.terms.shape)


@pytest.mark.parametrize("name", [*NAMES, *SMALL])
def test_sums_of_all_cells_of_all_heads_are_the_drawn_scores(name):
    for trace in parts_of(traced(name)):
        for layer, head in np.ndindex(trace.n_layers, trace.config.n_heads):
            scores = trace.scores(layer, head).double()
            close = 1e-5 * max(1.0, float(scores.abs().max()))
            np.testing.assert_allclose(summed_scores(trace, layer, head), scores, atol=close)


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-llama", "rms, gated, rotary, shared keys"])
def test_terms_relative_to_the_row_are_what_softmax_sees(name):
    """Against another key they are differences of two cells; against the row they are those to the mean of all."""
    trace, layer, head, query = traced(name), 1, 0, 5
    cells = [trace.score_terms(layer, head, query, key) for key in range(query + 1)]
    mean = torch.stack([cell.terms for cell in cells]).mean(0)
    for key, cell in enumerate(cells):
        relative = trace.score_terms(layer, head, query, key, than="row")
        np.testing.assert_allclose(relative.terms, cell.terms - mean, atol=1e-9)
        against = trace.score_terms(layer, head, query, key, than=2)
        np.testing.assert_allclose(against.terms, cell.terms - cells[2].terms, atol=1e-9)
        assert against.score == pytest.approx(cell.score - cells[2].score)
    weights = torch.tensor([trace.score_terms(layer, head, query, key, than="row").score for key in range(query + 1)])
    np.testing.assert_allclose(weights.softmax(0), trace.weights(layer, head)[query, : query + 1], atol=1e-5)


def weights_of_tiny_gpt():
    from safetensors.numpy import load_file

    return {name: tensor.astype(np.float64) for name, tensor in load_file(GPT / "model.safetensors").items()}


def written_out(stream, weight, bias, part):
    """What a part of a stream (C,) is behind a layer norm whose mean and deviation are those of the whole."""
    deviation = np.sqrt(stream.var() + 1e-5)
    return weight * (part - part.mean()) / deviation, bias


def test_a_head_that_feeds_another_adds_what_numpy_says():
    """The key's side of an induction cell: what previous-token head 0.0 wrote there, through W_K of head 1.0."""
    trace, weights, width = traced("tiny-gpt"), weights_of_tiny_gpt(), 32
    query = trace.length - 1  # the second “ a”, which reads the token behind the first one
    key = list(trace.ids).index(trace.ids[query]) + 1
    wrote = np.zeros(256)
    wrote[:width] = trace.mixed(0)[0, key].double()
    part = weights["blocks.0.attn.output.weight"] @ wrote
    block = "blocks.1"
    norm = (weights[f"{block}.norm1.weight"], weights[f"{block}.norm1.bias"])
    stream = trace[f"{block}.resid_pre"].double().numpy()
    of_key = weights[f"{block}.attn.key.weight"][:width] @ written_out(stream[key], *norm, part)[0]
    asked = trace.q(1)[0, query].double().numpy()
    found = trace.score_terms(1, 0, query, key)
    at = found.names_key.index("layer 0, head 0")
    assert float(found.of_key[at]) == pytest.approx(float(asked @ of_key) / width**0.5, rel=1e-4)
    relative = trace.score_terms(1, 0, query, key, than="row")
    assert int(relative.of_key.argmax()) == at, "induction is built upon the head that reads the token before"


def test_what_a_head_adds_to_a_logit_is_what_numpy_says():
    trace, weights, width = traced("tiny-gpt"), weights_of_tiny_gpt(), 32
    layer, head, token = 2, 7, int(traced("tiny-gpt").logits.argmax())
    wrote = np.zeros(256)
    wrote[head * width : (head + 1) * width] = trace.mixed(layer)[head, -1].double()
    part = weights[f"blocks.{layer}.attn.output.weight"] @ wrote
    stream = trace["blocks.3.resid_post"][-1].double().numpy()
    normed, _ = written_out(stream, weights["final_norm.weight"], weights["final_norm.bias"], part)
    rows = weights["tokens.weight"]
    for than, direction in ((None, rows[token]), (5, rows[token] - rows[5]), ("mean", rows[token] - rows.mean(0))):
        found = trace.logit_terms(token, than=than)
        at = found.names.index(f"layer {layer}, head {head}")
        assert float(found.terms[at]) == pytest.approx(float(normed @ direction), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", [*NAMES, *SMALL])
def test_terms_of_a_logit_add_up_to_it_and_the_last_row_of_the_lens_is_the_output(name):
    trace = traced(name).of(traced(name).config.self_part)
    for position in (-1, 2):
        logits = trace.logits_at(position).double()
        token = int(logits.argmax())
        for than, less in ((None, 0.0), (5, logits[5]), ("mean", logits.mean())):
            found = trace.logit_terms(token, position, than)
            assert found.logit == pytest.approx(float(logits[token] - less), abs=1e-9)
            assert abs(found.remainder) < 1e-5 * max(1.0, float(found.terms.abs().sum()))
        np.testing.assert_allclose(trace.lens(trace.n_layers - 1, position), logits, atol=1e-4)
    layers = range(trace.n_layers)
    sure = [trace.lens(layer).softmax(-1).max().item() for layer in layers]
    assert len(set(sure)) == len(sure), "each layer says something else"


def test_what_is_not_there_is_refused():
    trace = traced("tiny-gpt")
    for arguments in ((4, 0, 1, 0), (0, 8, 1, 0), (0, 0, 99, 0), (0, 0, 1, -1), (0, 0, 1, "x"), ("0", 0, 1, 0)):
        with pytest.raises(vm.VizError):
            trace.score_terms(*arguments)
    for than in ("all", -1, 99, 2.5, [1]):
        with pytest.raises(vm.VizError):
            trace.score_terms(0, 0, 1, 0, than=than)
        with pytest.raises(vm.VizError):
            trace.logit_terms(3, than=than if than != 99 else 9999)
    for token in (-1, 4353, None, "a"):
        with pytest.raises(vm.VizError):
            trace.logit_terms(token)
    with pytest.raises(vm.VizError, match="layer"):
        trace.lens(4)
    with pytest.raises(vm.VizError, match="position"):
        trace.lens(0, 99)
    with pytest.raises(vm.VizError, match="encoder"):
        traced("tiny-seq2seq").of("encoder").logit_terms(3)
