"""A reader's generation: what is kept of it, what its component sends, and what of a browser's words it believes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import viz_model as vm
from pages.generate.run import Run, read_branches, step_numbers, write_branches
from tests.support.blobs import received_generation
from tests.support.properties import examples
from tests.support.small_models import small_model
from tests.support.transformers_tiny_gpt import attentions, gpt2, queries_keys_values
from viz_model.model.sampling import Sampling
from viz_ui.components.generation import checked, pack_generation
from viz_ui.look.text import labels

MODEL, PROMPT = vm.load("tiny-gpt"), "The queen gave the girl a ring."
SAMPLING = Sampling(0.9, 30, 0.9, 3)


def run(prompt=PROMPT, wanted=8, branches=None, sampling=SAMPLING):
    made = Run(MODEL, prompt, None, sampling, branches or {})
    while not made.is_done(wanted):
        made.advance(wanted, 0)
    return made


def ids(a_run):
    return list(a_run.steps[-1].ids)


@given(st.dictionaries(st.integers(0, 999_999), st.integers(0, 4000)))
def test_branches_come_back_from_the_address(branches):
    assert read_branches(write_branches(branches), 4001) == branches


@examples(50)
@given(st.text() | st.from_regex(r"[0-9:,]*"))
def test_nonsense_for_branches_is_passed_over(text):
    assert all(step >= 0 and 0 <= token < 100 for step, token in read_branches(text, 100).items())


def test_branches_beyond_the_vocabulary_or_malformed_are_dropped_and_the_others_kept():
    assert read_branches("3:7,x:1,4:100,-2:5,5:8:9,6:99", 100) == {3: 7, 6: 99}
    assert read_branches(None, 100) == {}


def test_steps_come_one_by_one_and_are_those_of_a_run_without_a_pause():
    made = Run(MODEL, PROMPT, None, SAMPLING, {})
    for count in range(1, 7):
        made.advance(6, 0)  # no time: one step
        assert len(made.steps) == count
        assert made.is_done(6) == (count == 6)
    whole = MODEL.generate(PROMPT, max_new_tokens=6, temperature=0.9, top_k=30, top_p=0.9, seed=3)
    assert [step.token_id for step in made.steps] == [step.token_id for step in whole]


def test_going_on_keeps_what_there_is():
    short, long = run(wanted=3), run(wanted=9)
    kept = list(short.steps)
    short.advance(9, 60)
    assert all(one is other for one, other in zip(short.steps, kept, strict=False))
    assert ids(short) == ids(long)


def test_a_branch_changes_only_what_comes_after_and_its_undoing_brings_all_back():
    first = run()
    taken = int(first.steps[3].sampled.order[7])
    assert taken != first.steps[3].token_id
    second = first.with_branches({3: taken})
    assert [one is other for one, other in zip(second.steps, first.steps, strict=False)] == [True] * 3
    second.advance(8, 60)
    assert second.steps[3].token_id == taken
    assert second.steps[3].forced
    assert ids(second) == ids(run(branches={3: taken}))
    third = second.with_branches({})
    assert len(third.steps) == 3
    third.advance(8, 60)
    assert ids(third) == ids(first)


def test_a_full_context_is_a_sentence_and_the_steps_stay():
    prompt = "king " * 250
    length = len(MODEL.encode(prompt))
    made = run(prompt, wanted=40)
    assert len(made.steps) == 256 - length + 1  # the last token is chosen after 256 were read, and is not read
    assert "256" in made.problem
    assert "Shorten" in made.problem
    made.advance(len(made.steps), 1)  # asked for what there is, there is no problem
    assert made.problem == ""


def test_cached_logits_are_those_of_another_library_without_a_cache():
    for step in run(wanted=12).steps:
        with torch.inference_mode():
            logits = gpt2()(torch.tensor([step.ids[:-1]])).logits[0, -1]
        assert float((step.sampled.logits - logits).abs().max()) <= 1e-4
        assert step.largest_difference <= 1e-4


def blob(a_run, layer=2, head=5, **changes):
    steps = a_run.steps
    cache = steps[-1].cache
    given = {
        "prompt_length": steps[0].read,
        "keys": cache.key(layer)[head].numpy(),
        "values": cache.value(layer)[head].numpy(),
        "weights": a_run.weights(len(steps), layer, head).numpy(),
        "step": -1,
    }
    return pack_generation(a_run.pictures(99), labels(MODEL.token_bytes(ids(a_run))), **(given | changes))


def test_the_strips_and_the_square_are_those_of_another_implementation():
    a_run = run()
    header, keys, values, weights = received_generation(blob(a_run))
    read = ids(a_run)[:-1]
    _, k, v = queries_keys_values(read, 2, 5)
    np.testing.assert_allclose(keys, k, atol=2e-4)
    np.testing.assert_allclose(values, v, atol=2e-4)
    np.testing.assert_allclose(weights, attentions(read)[2, 5], atol=1e-5)
    assert header["step"] == 7
    assert header["ends"] == pytest.approx([np.abs(k).max(), np.abs(v).max()], rel=1e-3)


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 8},
        {"step": -2},
        {"keys": np.zeros((3, 32))},
        {"values": np.zeros((3, 32))},
        {"weights": np.zeros((2, 2))},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_does_not_fit_is_refused(changes):
    with pytest.raises(ValueError, match=r"step|tokens"):
        blob(run(wanted=8), **changes)


def test_an_event_is_believed_only_if_the_browser_could_have_meant_it():
    pictures = run(wanted=3).pictures(3)
    token = pictures[1].candidates[4].token_id
    assert checked([1, 5], "step", pictures) == (1, 5)
    assert checked([-1, 1], "step", pictures) == (-1, 1)
    assert checked([1, token, 2], "branch", pictures) == (1, token, 2)
    assert checked([1, None, 2], "branch", pictures) == (1, None, 2)
    strangers = {one.token_id for one in pictures[1].candidates}
    stranger = next(number for number in range(100) if number not in strangers)
    for value in ([3, 1], [-2, 1], [1, 0], [1], [True, 1], ["1", 1], [None, 1], [1, None], {"step": 1}, None, [1.0, 1]):
        assert checked(value, "step", pictures) is None, value
    for value in ([1, stranger, 2], [3, token, 1], [-1, token, 1], [1, token], [None, token, 1], [1, token, None]):
        assert checked(value, "branch", pictures) is None, value


def test_a_branch_drops_those_after_it_and_keeps_those_before():
    made = run(branches={1: 7, 3: 8, 5: 9})
    drawn = made.steps[3].sampled.token_id
    other = next(token for token in range(9) if token != drawn)
    assert made.branching(3, other) == {1: 7, 3: other}
    assert made.branching(3, drawn) == made.branching(3, None) == {1: 7}
    assert made.branching(4, other) == {1: 7, 3: 8, 4: other}


def test_steps_before_the_first_branch_that_differs_are_kept_and_no_others():
    made = run(branches={3: 8, 5: 9})
    assert len(made.with_branches({}).steps) == 3
    assert len(made.with_branches({3: 8}).steps) == 5
    assert len(made.with_branches({3: 8, 5: 9, 6: 1}).steps) == 6


def test_kept_weights_are_those_that_are_asked_for():
    made = run(wanted=4)
    for asked in ((4, 1, 2), (4, 1, 3), (4, 2, 3), (3, 2, 3)):
        np.testing.assert_array_equal(made.weights(*asked), run(wanted=4).weights(*asked))


def test_kept_weights_of_two_attentions_are_told_apart():
    """Both have as many keys: the source is as long as what the decoder has read."""
    pair = vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))
    made = Run(pair, (5, 9, 11, 9), None, SAMPLING, {})
    made.advance(4, 60)
    for part in (None, "cross", "self", "cross"):
        found = made.weights(4, 1, 2, part)
        for row, step in zip(found, made.steps, strict=True):
            own = step.weights(1, 2, part)[-1]
            np.testing.assert_array_equal(row[: len(own)], own)
    assert not made.weights(4, 1, 2, "self").triu(1).any()
    assert made.weights(4, 1, 2, "cross").triu(1).any()


def test_a_run_is_of_one_model_text_target_and_way_of_drawing():
    made = Run(MODEL, PROMPT, "a", SAMPLING, {})
    assert made.is_of(MODEL, PROMPT, "a", SAMPLING)
    others = ((None, PROMPT, "a", SAMPLING), (MODEL, "b", "a", SAMPLING), (MODEL, PROMPT, None, SAMPLING))
    assert not any(made.is_of(*other) for other in (*others, (MODEL, PROMPT, "a", Sampling(0.9, 30, 0.9, 4))))


def test_numbers_with_the_cache_stand_before_those_without_it():
    step = replace(run(wanted=3).steps[2], seconds=0.001, seconds_uncached=0.25, largest_difference=3e-5)
    lines = {what: numbers for what, *numbers in step_numbers(step)}
    assert lines["time"] == ["1.00 ms", "250 ms"]
    assert lines["tokens read"] == ["1", str(step.read)]
    assert lines["logits differ by"] == ["3.0×10⁻⁵", ""]


@pytest.mark.parametrize("sampling", [Sampling(0.9, 6, 0.3, 3), Sampling(0.7, 3, 1.0, 3), Sampling(1.3, 100, 0.5, 3)])
def test_each_stage_of_a_candidate_has_its_own_number(sampling):
    """Written out in numpy: what top-k leaves, what top-p cuts of that, and what is left to draw from."""
    made = run(wanted=2, sampling=sampling)
    for step, picture in zip(made.steps, made.pictures(2), strict=True):
        logits = step.sampled.logits.double().numpy()
        order = np.argsort(-logits, kind="stable")
        full = np.exp(logits / sampling.temperature - (logits / sampling.temperature).max())
        full /= full.sum()
        first = order[: sampling.top_k]
        before = np.concatenate(([0.0], np.cumsum(full[first] / full[first].sum())[:-1]))
        kept = first[before < sampling.top_p]
        probability = np.zeros_like(full)
        probability[kept] = full[kept] / full[kept].sum()
        for one in picture.candidates:
            token = one.token_id
            assert one.label == labels(MODEL.token_bytes([token]))[0].removeprefix("0 ").strip("‘’")
            assert (one.by_top_k, one.kept, one.allowed) == (token in first, token in kept, True)
            assert [one.logit, one.scaled] == pytest.approx([logits[token], logits[token] / sampling.temperature])
            assert [one.full, one.probability] == pytest.approx([full[token], probability[token]], abs=1e-6)
