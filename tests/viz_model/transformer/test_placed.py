"""Where a model computes and in which precision: the same face, and numbers as near as the precision allows."""

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.reference.families import FAMILIES, save_small
from viz_model.transformer.hooks import capture, edit
from viz_model.transformer.placed import ComputePlace, places_here

PROMPT = "Once upon a time there was a king"
DATE = "Friday, 3 May 2024"
HERE = {str(place) for place in places_here()}
PLACES = [
    pytest.param(place, marks=pytest.mark.skipif(place not in HERE, reason=f"this computer has no {place.split()[0]}"))
    for place in ("cpu bfloat16", "cuda float32", "cuda bfloat16", "mps float32", "mps bfloat16")
]


def near(ours, theirs, place):
    """As near as 8 bits of a number are, over the layers of a small model; float32 elsewhere adds in another order."""
    limit = 0.06 if "bfloat16" in place else 1e-3
    assert float((ours - theirs).abs().max()) <= limit * max(1.0, float(theirs.abs().max()))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-llama", "tiny-bert", "tiny-seq2seq"])
def test_a_pass_there_is_seen_here_and_is_near_that_in_float32(name, place):
    prompt = DATE if name == "tiny-seq2seq" else PROMPT
    plain, model = vm.load(name), vm.load(name, place)
    assert plain.place.is_plain
    assert str(model.place) == place
    options = {} if name != "tiny-seq2seq" else {"target": "2024"}
    wanted, trace = plain.trace(prompt, **options), model.trace(prompt, **options)
    assert trace.tensors.keys() == wanted.tensors.keys()
    for site, tensor in trace.tensors.items():
        assert tensor.device.type == "cpu", site
        assert tensor.dtype == wanted[site].dtype, site
    near(trace.logits, wanted.logits, place)
    for part in trace.config.parts:
        near(trace.of(part).weights(0, 1), wanted.of(part).weights(0, 1), place)
    difference = model.difference(trace)
    assert difference == pytest.approx(float((trace.logits - wanted.logits).abs().max()), abs=1e-5)
    assert plain.difference(wanted) == 0
    if place == "cpu bfloat16":
        assert difference > 1e-3, "nothing was rounded"


@pytest.mark.parametrize("place", PLACES)
def test_edits_captures_and_readings_there_are_as_here(place):
    plain, model = vm.load("tiny-gpt"), vm.load("tiny-gpt", place)
    off = [vm.SwitchOff(1, 2)]
    near(model.trace(PROMPT, edits=off).logits, plain.trace(PROMPT, edits=off).logits, place)
    assert float(model.trace(PROMPT, edits=off).mixed(1)[2].abs().max()) == 0

    def halved(tensor):
        assert (tensor.device.type, tensor.dtype) == ("cpu", torch.float32)
        return tensor / 2

    with edit({"blocks.0.resid_mid": halved}), capture("blocks.0.resid_mid") as found:
        changed = model.transformer(torch.tensor([model.encode(PROMPT)]))
    with edit({"blocks.0.resid_mid": halved}):
        near(changed, plain.transformer(torch.tensor([model.encode(PROMPT)])), place)
    assert found["blocks.0.resid_mid"].dtype == torch.float32
    trace, wanted = model.trace(PROMPT), plain.trace(PROMPT)
    near(trace.lens(2), wanted.lens(2), place)
    ours, theirs = (one.logit_terms(5, than="mean") for one in (trace, wanted))
    np.testing.assert_allclose(ours.terms, theirs.terms, atol=0.06 * float(theirs.terms.abs().max()))
    ours, theirs = (one.score_terms(1, 0, 4, 2) for one in (trace, wanted))
    np.testing.assert_allclose(ours.terms, theirs.terms, atol=0.06 * float(theirs.terms.abs().max()))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-seq2seq"])
def test_writing_there_with_the_cache_is_as_without(name, place):
    model, prompt = vm.load(name, place), DATE if name == "tiny-seq2seq" else PROMPT
    steps = [*model.generate(prompt, max_new_tokens=5, temperature=0, compare=True)]
    assert len(steps) == 5
    for step in steps:
        assert step.largest_difference <= 0.06 * float(step.sampled.logits.abs().max())
        assert step.sampled.logits.dtype == torch.float32
    assert steps[-1].weights(0, 0).shape == (1, steps[-1].read)


@pytest.mark.parametrize("family", ["GPT-2", "Llama", "Gemma 2", "BERT", "T5", "BLOOM", "GPT-NeoX"])
def test_models_of_the_library_compute_in_bfloat16(family, tmp_path):
    """A number that stays in float32 among those in bfloat16 is an error of torch's in one family only."""
    save_small(FAMILIES[family], tmp_path)
    plain, model = vm.load(tmp_path), vm.load(tmp_path, "bfloat16")
    ids, options = [5, 44, 17, 8, 60, 23], {"target": [0, 7, 9]} if family == "T5" else {}
    wanted, trace = plain.trace(ids, **options), model.trace(ids, **options)
    assert trace.tensors.keys() == wanted.tensors.keys()
    assert all(tensor.dtype == wanted[site].dtype for site, tensor in trace.tensors.items())
    near(trace.logits, wanted.logits, "bfloat16")
    near(trace.weights(0, 1), wanted.weights(0, 1), "bfloat16")
    if model.config.layout != "encoder-only":
        steps = [*model.generate(ids, max_new_tokens=3, temperature=0, compare=True)]
        assert all(step.largest_difference <= 0.06 * float(step.sampled.logits.abs().max()) for step in steps)


def test_a_model_whose_code_cannot_compute_so_says_it_when_it_is_loaded(tmp_path):
    """Experts of the library's take widths of whole 16 bytes alone, in bfloat16."""
    save_small(FAMILIES["gpt-oss"], tmp_path)
    with pytest.raises(vm.VizError, match=r"cannot compute on the processor .*16 bytes.* Choose float32"):
        vm.load(tmp_path, "bfloat16")


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("", ComputePlace()),
        ("bfloat16", ComputePlace("cpu", "bfloat16")),
        ("CUDA:1, bfloat16", ComputePlace("cuda:1", "bfloat16")),
        ("float32 mps", ComputePlace("mps")),
    ],
)
def test_a_place_is_read_from_words(words, place):
    assert ComputePlace.of(words) == place
    assert ComputePlace.of(str(place)) == place


@pytest.mark.parametrize("words", ["gpu", "cuda cpu", "cuda:x", "mps:1", "int8", "cuda:99999", "bfloat16 float32"])
def test_what_is_no_place_is_refused(words):
    with pytest.raises(vm.VizError, match="does not say where a model computes"):
        vm.load("tiny-gpt", words)


def test_a_device_that_is_not_there_is_said_in_a_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(vm.VizError, match=r"There is no NVIDIA graphics card here .* Set VIZ_DEVICE to cpu"):
        vm.load("tiny-gpt", "cuda")


def test_the_environment_says_where_models_compute(monkeypatch):
    monkeypatch.setenv("VIZ_DEVICE", "bfloat16")
    assert str(vm.load("tiny-gpt").place) == "cpu bfloat16"
    assert vm.load("tiny-gpt", "cpu").place.is_plain
