"""Ways to switch heads, feed-forward halves and layers off, against the library's models with hooks of their own."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import viz_model as vm
from tests.support.small_models import small_model
from tests.support.transformers_tiny_gpt import gpt2
from tests.support.transformers_tiny_llama import llama
from viz_model.heads.comparison import divergences
from viz_model.intervention.ablation import ablate_units, band
from viz_model.model import Model

TWICE = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"
OTHER = "The red fox met a grey goose by the new mill. The red fox met a grey goose by the"
TALE = "Once upon a time there was a king who had three daughters. The youngest was as fair as the sun."
PLACES = [(0, 0), (1, 0), (2, 7), (3, 2)]
GOOD, BAD = " old", " new"


class Library:
    """tiny-gpt or tiny-llama in the library's code: what its halves write, read or replaced by hooks of this file."""

    def __init__(self, name):
        self.model = vm.load(name)
        if name == "tiny-gpt":
            self.theirs = gpt2()
            blocks = self.theirs.transformer.h
            self.projections = [block.attn.c_proj for block in blocks]
            self.halves = [block.mlp for block in blocks]
        else:
            self.theirs = llama()
            blocks = self.theirs.model.layers
            self.projections = [block.self_attn.o_proj for block in blocks]
            self.halves = [block.mlp for block in blocks]

    def logits(self, text):
        return self.theirs(torch.tensor([self.model.encode(text)])).logits[0].double()

    def hooked(self, unit, layer, head, change, text):
        """Logits (T,V) where `change` is made to what a unit writes, (T,·)."""

        def of_head(_, read):
            joined = read[0].clone()
            part = slice(32 * head, 32 * (head + 1))
            joined[0, :, part] = change("head", joined[0, :, part])
            return (joined, *read[1:])

        def of_output(name):
            return lambda _, __, given: change(name, given[0].clone())[None]

        handles = []
        if unit == "head":
            handles.append(self.projections[layer].register_forward_pre_hook(of_head))
        if unit in ("feed-forward", "layer"):
            handles.append(self.halves[layer].register_forward_hook(of_output("feed-forward")))
        if unit == "layer":
            handles.append(self.projections[layer].register_forward_hook(of_output("attention")))
        try:
            return self.logits(text)
        finally:
            for handle in handles:
                handle.remove()

    def written(self, unit, layer, head, text):
        """What a unit writes of a text, by the name of each of its parts."""
        found = {}

        def keep(name, written):
            found[name] = written.clone()
            return written

        self.hooked(unit, layer, head, keep, text)
        return found


@pytest.fixture(scope="module", params=["tiny-gpt", "tiny-llama"])
def library(request):
    return Library(request.param)


def kl(before, after):
    logs = before.log_softmax(-1)
    return float((logs.exp() * (logs - after.log_softmax(-1))).sum()) / np.log(2)


def close(found, expected, largest):
    """To 1e-4 of the number itself, or of a thousandth of the largest one, where rounding is more than that."""
    assert float(found) == pytest.approx(float(expected), rel=1e-4, abs=1e-7 * float(largest) + 1e-6)


WAYS = {"zero": None, "mean": None, "mean of a text": TALE, "another prompt": OTHER}


@torch.inference_mode()
@pytest.mark.parametrize("unit", ["head", "feed-forward", "layer"])
@pytest.mark.parametrize("how", WAYS)
def test_every_unit_and_way_is_what_it_is_in_the_library(library, how, unit):
    model = library.model
    good, bad = (model.encode(word)[0] for word in (GOOD, BAD))
    found = vm.ablate(model, TWICE, how=how, unit=unit, values_of=WAYS[how], with_loss=True)
    before, targets = library.logits(TWICE), torch.tensor(model.encode(TWICE)[1:])
    for layer, head in PLACES:
        source = {"mean": TWICE, "mean of a text": TALE, "another prompt": OTHER}.get(how)
        written = library.written(unit, layer, head, source) if source else {}

        def change(name, own, written=written):
            if how == "zero":
                return torch.zeros_like(own)
            theirs = written[name] if how == "another prompt" else written[name].mean(0)
            return theirs.expand_as(own)

        after = library.hooked(unit, layer, head, change, TWICE)
        place = (layer, head) if unit == "head" else (layer, 0)
        close(found.kl[place], kl(before[-1], after[-1]), found.kl.max())
        largest = found.logit_change(good).abs().max() * 1000
        close(found.logit_change(good)[place], after[-1, good] - before[-1, good], largest)
        expected = (after[-1, good] - after[-1, bad]) - (before[-1, good] - before[-1, bad])
        close(found.logit_change(good, bad)[place], expected, largest)
        expected = F.cross_entropy(after[:-1], targets) - F.cross_entropy(before[:-1], targets)
        close(found.loss_change[place], expected, 10)
    assert found.loss_before == pytest.approx(float(F.cross_entropy(before[:-1], targets)), rel=1e-5)


@torch.inference_mode()
def test_a_mean_over_a_text_is_that_of_the_text_it_names():
    """One for all tokens, over all tokens of all texts; a text that is too long is read in pieces."""
    model = Model("small", small_model(n_layers=2, context_length=8))
    ids, texts = [5, 9, 11, 9, 4], [[7, 2, 6], [3, 3, 8, 1, 0]]
    means = [torch.cat([model.trace(text).mixed(1) for text in texts], 1).mean(1)]  # (H,D)
    long = [*range(1, 20)]
    pieces = [long[:8], long[8:16], long[16:]]
    means.append(torch.cat([model.trace(piece).mixed(1) for piece in pieces], 1).mean(1))
    for given, mean, tokens in zip((texts, long), means, (8, 19), strict=True):
        found = vm.ablate(model, ids, [(1, 2)], "mean of a text", values_of=given)
        assert found.replaced.tokens == tokens

        def put(mixed, mean=mean):
            mixed[:, 2] = mean[2]
            return mixed

        with vm.edit({"blocks.1.attn.mixed": put}):
            expected = model.transformer(torch.tensor([ids]))[0]
        np.testing.assert_allclose(found.edited[0], expected, atol=1e-5)
    of_traces = vm.ablate(model, ids, [(1, 2)], "mean of a text", values_of=[model.trace(text) for text in texts])
    of_texts = vm.ablate(model, ids, [(1, 2)], "mean of a text", values_of=texts)
    np.testing.assert_allclose(of_traces.edited, of_texts.edited, atol=1e-6)


@torch.inference_mode()
def test_prompts_of_unequal_length_are_aligned_by_their_ends_and_the_rest_keeps_its_values():
    model = Model("small", small_model(n_layers=2))
    ids, other = [5, 9, 11, 9, 4], [5, 9, 7, 3, 6, 4]
    found = vm.ablate(model, ids, [(0, 1)], "another prompt", values_of=other)
    assert found.replaced.alignment.pairs == ((0, 0), (1, 1), (5, 4))
    values = model.trace(other).mixed(0)[1]

    def put(mixed):
        for theirs, ours in ((0, 0), (1, 1), (5, 4)):
            mixed[0, 1, ours] = values[theirs]
        return mixed

    with vm.edit({"blocks.0.attn.mixed": put}):
        expected = model.transformer(torch.tensor([ids]))[0]
    np.testing.assert_allclose(found.edited[0], expected, atol=1e-5)


def test_the_mean_over_the_prompt_is_the_mean_of_a_text_that_is_the_prompt():
    model = vm.load("tiny-bert")
    prompt = "The king had a ring"
    own = ablate_units(model, prompt, how="mean")
    named = ablate_units(model, prompt, how="mean of a text", values_of=prompt)
    for unit, found in own.items():
        np.testing.assert_allclose(named[unit].kl, found.kl, rtol=1e-3, atol=1e-6)


def test_values_of_the_same_prompt_change_nothing_but_rounding():
    model = vm.load("tiny-seq2seq")
    trace = model.trace("5/3/24 (US)")
    for part in model.config.parts:
        for unit, found in ablate_units(model, trace, how="another prompt", values_of=trace, part=part).items():
            assert float(found.kl.max()) < 1e-8, (part, unit)
            assert float(found.logit_change(7).abs().max()) < 1e-4
            assert found.kl_rounding < 1e-8
            assert 0 <= found.logit_rounding(7) < 1e-4


def test_units_together_are_what_each_is_alone():
    model = vm.load("tiny-gpt")
    together = ablate_units(model, TWICE, with_loss=True)
    assert list(together) == ["head", "feed-forward", "layer"]
    for unit, found in together.items():
        alone = vm.ablate(model, TWICE, unit=unit)
        np.testing.assert_allclose(found.kl, alone.kl, rtol=1e-4, atol=1e-6)
        assert found.kl.shape == ((4, 8) if unit == "head" else (4, 1))
        assert alone.loss is None
        with pytest.raises(vm.VizError, match="with_loss"):
            _ = alone.loss_change


def test_a_model_without_feed_forward_has_layers_of_attention_alone():
    model = vm.load("induction")
    found = ablate_units(model, "abab")
    assert list(found) == ["head", "layer"]
    with pytest.raises(vm.VizError, match="no feed-forward"):
        vm.ablate(model, "abab", unit="feed-forward")
    with vm.edit({"blocks.1.attn.out": torch.zeros_like}):
        np.testing.assert_allclose(found["layer"].edited[1], model.trace("abab").logits, atol=1e-4)


def test_the_layer_of_a_decoder_is_switched_off_with_its_cross_attention():
    model = vm.load("tiny-seq2seq")
    trace = model.trace("5/3/24 (US)")
    found = vm.ablate(model, trace, unit="layer", part="decoder", position=3)
    off = {f"decoder.blocks.1.{half}.out": torch.zeros_like for half in ("attn", "cross", "ffn")}
    with vm.edit(off):
        edited = model.trace("5/3/24 (US)", target=trace.read).logits_at(3)
    np.testing.assert_allclose(found.edited[1], edited, atol=1e-4)


def test_the_loss_is_that_of_every_token_even_where_few_logits_are_held_at_once(monkeypatch):
    model = vm.load("tiny-gpt")
    whole = vm.ablate(model, TWICE, PLACES, with_loss=True)
    monkeypatch.setattr("viz_model.intervention.ablation.LOGITS_BYTES", 4 * model.config.vocab_size * 12)
    parts = vm.ablate(model, TWICE, PLACES, with_loss=True)
    np.testing.assert_allclose(parts.loss, whole.loss, rtol=1e-5)
    assert whole.loss_rounding < 1e-5


def test_the_control_is_the_same_edit_elsewhere():
    table = torch.tensor([[1.0, 4.0, torch.nan], [3.0, 2.0, 5.0]], dtype=torch.float64)
    of_heads = band(table, "head")
    np.testing.assert_allclose(of_heads[1], [[2, 5], [3, 5], [2, 3]])
    np.testing.assert_allclose(of_heads[0], [[4, 4], [1, 1], [1, 4]])
    np.testing.assert_allclose(band(table[:, :1], "layer")[:, 0], [[3, 3], [1, 1]])
    assert band(table[:1, :1], "head").isnan().all()
    found = vm.ablate(vm.load("tiny-gpt"), TWICE, unit="feed-forward")
    others = np.delete(found.kl[:, 0].numpy(), 2)
    np.testing.assert_allclose(found.control[2, 0], [others.min(), others.max()])


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"how": "mean of a text"}, "values_of must be the text"),
        ({"how": "another prompt"}, "values_of must be the other prompt"),
        ({"how": "zero", "values_of": "a"}, "leave values_of out"),
        ({"how": "twice"}, "can be replaced by zero, mean"),
        ({"how": "mean of a text", "values_of": []}, "empty"),
        ({"how": "mean of a text", "values_of": ""}, "empty"),
        ({"how": "mean of a text", "values_of": "word " * 20_000}, "at most 16,384 tokens"),
        ({"how": "another prompt", "values_of": "xyz"}, "equal length"),
        ({"unit": "neuron"}, "a head, a feed-forward, a layer"),
        ({"unit": "layer", "heads": [(0, 0)]}, "all are switched off in turn"),
        ({"with_loss": 1}, "True or False"),
    ],
)
def test_what_cannot_be_done_is_refused(choice, sentence):
    with pytest.raises(vm.VizError, match=sentence):
        vm.ablate(vm.load("tiny-gpt"), TWICE, **choice)


def test_a_prompt_without_a_loss_says_why():
    with pytest.raises(vm.VizError, match="sees every token"):
        vm.ablate(vm.load("tiny-bert"), "The king", with_loss=True)
    with pytest.raises(vm.VizError, match="one token"):
        vm.ablate(vm.load("tiny-llama"), "a", with_loss=True)


def test_a_trace_under_another_mask_keeps_it_for_every_unit():
    model = vm.load("tiny-gpt")
    trace = model.trace("The king had a ring", mask="bidirectional")
    found = vm.ablate(model, trace, unit="feed-forward")
    with vm.edit({"blocks.2.ffn.out": torch.zeros_like}):
        edited = model.trace("The king had a ring", mask="bidirectional").logits
    np.testing.assert_allclose(found.edited[2], edited, atol=1e-4)


def test_a_forbidden_token_makes_no_divergence_infinite():
    before, edited = torch.tensor([1.0, 2.0, -torch.inf]), torch.tensor([[2.0, 1.0, -torch.inf]])
    assert divergences(before, edited) == pytest.approx(float(divergences(before[:2], edited[:, :2])))


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_heads_of_an_edited_model_are_off_on_top_of_its_edits(how):
    model = vm.load("tiny-llama")
    ends = [model.trace(text)["blocks.1.resid_post"][-1] for text in ("love", "hate")]
    found = vm.ablate(
        model.edited([vm.SwitchOff(0, 1), vm.AddVector(1, "love", "hate", 3.0)]), TWICE, [(0, 4), (2, 3)], how
    )

    def without(*heads):
        """As one reads the pass: 0 or its own mean, of heads that are switched off one after the other."""

        def change(layer):
            def changed(mixed):
                for _, head in [place for place in heads if place[0] == layer]:
                    mixed[:, head] = 0 if how == "zero" else mixed[:, head].mean(1, keepdim=True)
                return mixed

            return changed

        def first(mixed):
            mixed[:, 1] = 0
            return change(0)(mixed)

        own = {"blocks.0.attn.mixed": first, "blocks.2.attn.mixed": change(2)}
        with vm.edit(own | {"blocks.1.resid_post": lambda stream: stream + 3 * (ends[0] - ends[1])}):
            return model.trace(TWICE).logits

    np.testing.assert_allclose(found.logits, without(), atol=1e-4)
    for row, head in enumerate([(0, 4), (2, 3)]):
        np.testing.assert_allclose(found.edited[row], without(head), atol=1e-4)
