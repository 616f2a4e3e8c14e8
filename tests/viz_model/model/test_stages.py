"""What is said of generated steps, against numpy written out and against one whole pass of another library."""

import numpy as np
import pytest

import viz_model as vm
from tests.support.plain_sampler import likeliest_first, plain_sampler
from tests.support.transformers_tiny_gpt import attentions
from viz_model.model.stages import assembled_weights, span, stages

PROMPT = "The queen gave the girl a ring."
CHOICES = {"temperature": 1.1, "top_k": 25, "top_p": 0.8}


@pytest.fixture(scope="module")
def steps():
    return list(vm.load("tiny-gpt").generate(PROMPT, max_new_tokens=6, seed=4, **CHOICES))


def softmax(logits):
    exponentials = np.exp(logits - logits.max())
    return exponentials / exponentials.sum()


def test_stages_count_what_is_left_and_what_it_weighs(steps):
    for step in steps:
        logits = step.sampled.logits.double().numpy()
        full = softmax(logits / CHOICES["temperature"])
        top_k = likeliest_first(logits)[: CHOICES["top_k"]]
        nucleus = plain_sampler(logits, **CHOICES) > 0
        everything, by_top_k, kept = stages(step.sampled)
        assert (everything.left, everything.probability) == (len(logits), pytest.approx(1))
        assert (by_top_k.left, by_top_k.probability) == (CHOICES["top_k"], pytest.approx(full[top_k].sum()))
        assert (kept.left, kept.probability) == (nucleus.sum(), pytest.approx(full[nucleus].sum()))


def test_the_draw_lies_on_the_span_of_the_drawn_token_and_spans_tile_the_line(steps):
    for step in steps:
        start, end = span(step.sampled, step.token_id)
        assert start <= step.sampled.draw < end
        assert end - start == pytest.approx(step.probability)
        logits = step.sampled.logits.double().numpy()
        drawn_from = plain_sampler(logits, **CHOICES)
        before = 0.0
        for token in likeliest_first(logits)[:30]:
            assert span(step.sampled, token) == pytest.approx((before, before + drawn_from[token]))
            before += drawn_from[token]
        assert before == pytest.approx(1)


def test_a_token_that_was_cut_has_no_span(steps):
    least = likeliest_first(steps[0].sampled.logits.numpy())[-1]
    assert span(steps[0].sampled, least) == pytest.approx((1, 1))


@pytest.mark.parametrize("count", [1, 2, 6])
def test_the_rows_of_all_steps_are_the_picture_of_one_whole_pass(steps, count):
    read = list(steps[count - 1].ids[:-1])
    for layer, head in ((0, 0), (2, 5), (3, 7)):
        whole = assembled_weights(steps[:count], layer, head)
        np.testing.assert_allclose(whole, attentions(read)[layer, head], atol=1e-5)
