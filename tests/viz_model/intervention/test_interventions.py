"""Heads switched off and values patched, against the library's GPT-2 and Llama with hooks of their own."""

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.support.transformers_tiny_gpt import gpt2
from tests.support.transformers_tiny_llama import llama
from viz_model.transformer.hooks import edit

TWICE = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"
OTHER = TWICE.replace(" old", " new", 1)
ANSWER = (" old", " new")


def kl(before, after):
    logs, changed = before.double().log_softmax(-1), after.double().log_softmax(-1)
    return float((logs.exp() * (logs - changed)).sum()) / np.log(2)  # bits


def with_input(module, change):
    """Let a module read what `change` makes of its input."""
    return module.register_forward_pre_hook(lambda _, read: (change(read[0].clone()), *read[1:]))


@pytest.mark.parametrize(("how", "of_text"), [("zero", lambda x: 0.0), ("mean", lambda x: x.mean(1, keepdim=True))])
@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-llama"])
@torch.inference_mode()
def test_switching_a_head_off_does_what_it_does_in_the_library(name, how, of_text):
    model = vm.load(name)
    if name == "tiny-gpt":
        theirs = gpt2()
        projections = [block.attn.c_proj for block in theirs.transformer.h]
    else:
        theirs = llama()
        projections = [layer.self_attn.o_proj for layer in theirs.model.layers]
    ids = torch.tensor([model.encode(TWICE)])
    before = theirs(ids).logits[0, -1]
    found = vm.ablate(model, TWICE, how=how)
    token = model.encode(" old")[0]
    for layer, head in [(0, 0), (1, 0), (2, 7), (3, 2)]:

        def without(joined, head=head):
            joined[..., 32 * head : 32 * (head + 1)] = of_text(joined[..., 32 * head : 32 * (head + 1)])
            return joined

        handle = with_input(projections[layer], without)
        after = theirs(ids).logits[0, -1]
        handle.remove()
        assert float(found.kl[layer, head]) == pytest.approx(kl(before, after), rel=1e-3, abs=1e-5)
        assert float(found.logit_change(token)[layer, head]) == pytest.approx(
            float(after[token] - before[token]), abs=1e-3
        )


def test_any_position_can_be_looked_at():
    model, ids = vm.load("tiny-gpt"), vm.load("tiny-gpt").encode(TWICE)
    shorter = vm.ablate(model, ids[:9])
    np.testing.assert_allclose(vm.ablate(model, ids, position=8).kl, shorter.kl, atol=1e-4)
    with pytest.raises(vm.VizError, match="no position 99"):
        vm.ablate(model, ids, position=99)


def test_heads_that_were_not_asked_for_have_no_number():
    some = vm.ablate(vm.load("tiny-gpt"), TWICE, heads=[(1, 0), (2, 7)])
    every = vm.ablate(vm.load("tiny-gpt"), TWICE)
    known = ~some.kl.isnan()
    assert known.nonzero().tolist() == [[1, 0], [2, 7]]
    np.testing.assert_allclose(some.kl[known], every.kl[known], rtol=1e-4)
    assert not every.kl.isnan().any()
    low, high = every.control[1, 3]
    others = np.delete(every.kl[1].numpy(), 3)
    assert (low, high) == (others.min(), others.max())
    assert some.control[1, 0].isnan().all(), "no other head of its layer was tried"


def test_an_ablation_runs_in_batches_and_says_how_far_it_is(monkeypatch):
    whole = vm.ablate(vm.load("tiny-gpt"), TWICE)
    monkeypatch.setattr("viz_model.intervention.batches.MOST_ROWS", 5)
    told = []
    parts = vm.ablate(vm.load("tiny-gpt"), TWICE, tell=lambda done, total: told.append((done, total)))
    assert list(dict.fromkeys(told)) == [(done, 33) for done in (0, 5, 10, 15, 20, 25, 30, 33)]
    np.testing.assert_allclose(parts.kl, whole.kl, atol=1e-5)


def test_every_part_of_an_encoder_decoder_can_be_switched_off():
    model = vm.load("tiny-seq2seq")
    found = {part: vm.ablate(model, "5/3/24 (US)", part=part).kl for part in model.config.parts}
    assert all(table.shape == (2, 4) and float(table.max()) > 0 for table in found.values())
    assert not torch.allclose(found["encoder"], found["cross"])


def with_change(block, sites, change):
    """Let what stands at the sites of a block of the library's GPT-2 be what `change` makes of it; gives the hook."""
    if sites == "resid_pre":
        return with_input(block, change)
    if sites == "heads":
        return with_input(block.attn.c_proj, change)
    module = block.attn.c_proj if sites == "attn.out" else block.mlp.c_proj
    return module.register_forward_hook(lambda _, __, result: change(result.clone()))


def part_of(sites, at):
    """Where a position, or a head, lies in (1,T,C)."""
    return (0, slice(None), slice(32 * at, 32 * at + 32)) if sites == "heads" else (0, at)


@torch.inference_mode()
def patched_in_the_library(theirs, sites, layer, at, clean, corrupted):
    """Logits of the last position (V,)."""
    block, kept = theirs.transformer.h[layer], []

    def keep(x):
        kept.append(x.clone())
        return x

    def put(x):
        x[part_of(sites, at)] = kept[0][part_of(sites, at)]
        return x

    for change, ids in ((keep, clean), (put, corrupted)):
        handle = with_change(block, sites, change)
        logits = theirs(ids).logits[0, -1]
        handle.remove()
    return logits


@pytest.mark.parametrize(
    ("sites", "places"),
    [
        ("resid_pre", [(0, 9), (1, 9), (2, 20), (1, 0)]),
        ("attn.out", [(0, 9), (1, 20), (2, 10)]),
        ("ffn.out", [(0, 9), (3, 20)]),
        ("heads", [(0, 0), (1, 0), (2, 7)]),
    ],
)
def test_a_patched_value_does_what_it_does_in_the_library(sites, places):
    model, theirs = vm.load("tiny-gpt"), gpt2()
    clean, corrupted = (torch.tensor([model.encode(text)]) for text in (TWICE, OTHER))
    good, bad = (model.encode(word)[0] for word in ANSWER)
    found = vm.patch(model, TWICE, OTHER, sites, ANSWER)
    with torch.inference_mode():
        logits = [theirs(ids).logits[0, -1] for ids in (clean, corrupted)]
    ends = [float(of[good] - of[bad]) for of in logits]
    assert [found.clean, found.corrupted] == pytest.approx(ends, abs=1e-3)
    for layer, at in places:
        logits = patched_in_the_library(theirs, sites, layer, at, clean, corrupted)
        effect = (float(logits[good] - logits[bad]) - ends[1]) / (ends[0] - ends[1])
        assert float(found.effect[layer, at]) == pytest.approx(effect, abs=2e-3), (layer, at)


def test_all_of_it_is_the_clean_run_and_nothing_the_corrupted_one():
    """The prompts differ in one token, so before layer 0 all of the difference is in one place."""
    model = vm.load("tiny-gpt")
    found = vm.patch(model, TWICE, OTHER, answer=ANSWER)
    changed = [n for n, (a, b) in enumerate(zip(model.encode(TWICE), model.encode(OTHER), strict=True)) if a != b]
    assert len(changed) == 1
    assert float(found.effect[0, changed[0]]) == pytest.approx(1, abs=1e-4)
    assert np.abs(np.delete(found.effect[0].numpy(), changed)).max() < 1e-4
    assert float(found.effect[3].max()) < 1.05


def test_the_head_that_copies_is_found():
    """tiny-gpt's induction head: switched off, the copy is gone; put back, the answer is."""
    model = vm.load("tiny-gpt")
    off, back = vm.ablate(model, TWICE), vm.patch(model, TWICE, OTHER, "heads", ANSWER)
    assert off.kl[1].argmax() == back.effect[1].argmax() == 0
    assert float(back.effect.max()) == float(back.effect[1, 0]) > 0.8


def test_what_cannot_be_done_is_refused():
    model, gone = vm.load("tiny-gpt"), [(9, 0)]
    for bad in ({"heads": gone}, {"heads": []}, {"heads": "some"}, {"heads": [1]}, {"how": "twice"}, {"part": "cross"}):
        with pytest.raises(vm.VizError):
            vm.ablate(model, TWICE, **bad)
    with pytest.raises(vm.VizError, match="no token -1"):
        vm.ablate(model, "a b", heads=[(0, 0)]).logit_change(-1)
    with pytest.raises(vm.VizError, match="equal length"):
        vm.patch(model, TWICE, "Once", answer=ANSWER)
    with pytest.raises(vm.VizError, match="no value can bring an answer back"):
        vm.patch(model, TWICE, TWICE, answer=ANSWER)
    for answer in ((" old",), " old", (" old", " old"), (" old", "xylophone"), None):
        with pytest.raises(vm.VizError):
            vm.patch(model, TWICE, OTHER, answer=answer)
    with pytest.raises(vm.VizError, match="sites"):
        vm.patch(model, TWICE, OTHER, "weights", ANSWER)


def test_edits_of_others_stay_out_of_it():
    """What somebody watches or changes around it is not what is compared."""
    model = vm.load("tiny-gpt")
    alone = vm.ablate(model, TWICE, heads=[(1, 0)])
    trace = model.trace(TWICE)
    with edit({"blocks.0.attn.mixed": torch.zeros_like}):
        model.transformer(torch.tensor([[1, 2]]))
        within = vm.ablate(model, trace, heads=[(1, 0)])
    np.testing.assert_allclose(within.kl, alone.kl, atol=1e-6)


def test_the_mask_of_the_pass_stays():
    """What is switched off in a pass under another mask is compared under that mask."""
    model = vm.load("tiny-gpt")
    trace = model.trace("The king had a ring", mask="bidirectional")
    nothing = vm.ablate(model, trace, heads=[(3, 1)])
    with edit({"blocks.3.attn.mixed": lambda mixed: torch.cat((mixed[:, :1], 0 * mixed[:, 1:2], mixed[:, 2:]), 1)}):
        edited = model.trace("The king had a ring", mask="bidirectional").logits
    np.testing.assert_allclose(nothing.edited[0], edited, atol=1e-4)
    assert float(nothing.kl[3, 1]) == pytest.approx(kl(trace.logits, edited), abs=1e-5)
