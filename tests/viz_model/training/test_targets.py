"""Losses and ranks against `transformers` and numpy; one pass against decode steps."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

import viz_model as vm
from tests.support.small_models import make_model, small_config
from tests.support.transformers_tiny_gpt import gpt2
from viz_model.model import Model
from viz_model.model.tokenizer import Tokenizer
from viz_model.training.targets import (
    compare_with_steps,
    expected,
    hidden_token_targets,
    next_token_targets,
    step_by_step,
)

PROMPT = "The queen gave the girl a ring, and she thanked her. " * 6  # more than AT_ONCE tokens


class WithMask(Tokenizer):
    """Bytes and a mask token: 258 tokens."""

    def __init__(self):
        super().__init__({bytes([byte]): byte for byte in range(256)}, with_mask=True)


def model_of(layout: str, tokenizer=None, **changes) -> Model:
    vocabulary = 257 if tokenizer is None else tokenizer.vocab_size
    config = replace(small_config(vocab_size=vocabulary, context_length=64), layout=layout, **changes)
    return Model("small", make_model(config), tokenizer or Tokenizer.of_bytes())


def checked(targets, logits: np.ndarray, ids: np.ndarray) -> None:
    """`logits` (N,V) of somebody else: the same losses, ranks and first guesses."""
    losses = -log_softmax(logits, axis=-1)[np.arange(len(ids)), ids]
    np.testing.assert_allclose(targets.losses, losses, atol=2e-4)
    better = (logits > logits[np.arange(len(ids)), ids][:, None]).sum(1)
    assert (np.abs(targets.ranks.numpy() - 1 - better) <= 1).mean() > 0.99  # float32 elsewhere: ties may turn
    assert (targets.ranks.numpy() == 1 + better).mean() > 0.9
    assert (targets.best.numpy() == logits.argmax(1)).all()
    assert targets.loss == pytest.approx(losses.mean(), abs=1e-4)


def test_next_tokens_are_those_of_transformers():
    model = vm.load("tiny-gpt")
    trace = model.trace(PROMPT)
    targets = next_token_targets(trace)
    assert len(targets) == trace.length - 1 > 64
    with torch.inference_mode():
        logits = gpt2()(torch.tensor([trace.ids])).logits[0, :-1].double().numpy()
    checked(targets, logits, np.array(trace.ids[1:]))
    top = expected(trace, 3, 5)
    probabilities = np.exp(log_softmax(logits[3]))
    assert [token for token, _ in top] == np.argsort(-probabilities)[:5].tolist()
    np.testing.assert_allclose([share for _, share in top], np.sort(probabilities)[::-1][:5], atol=1e-5)


def test_hidden_tokens_are_asked_for_behind_the_mask():
    model = model_of("encoder-only", WithMask())
    prompt = "a row of bytes, long enough to hide some of them"
    trace, targets = hidden_token_targets(model, prompt, seed=3)
    whole = np.frombuffer(prompt.encode(), np.uint8)
    places = targets.positions.numpy()
    assert (targets.ids.numpy() == whole[places]).all()
    read = np.array(trace.ids)
    others = np.setdiff1d(np.arange(len(whole)), places)
    assert (read[others] == whole[others]).all()
    assert (read[places] == model.tokenizer.mask).mean() > 0.5
    logits = model.transformer(torch.tensor([trace.ids]), logits="all")[0, targets.positions].double().numpy()
    checked(targets, logits, whole[places])
    assert torch.equal(hidden_token_targets(model, prompt, seed=3)[1].positions, targets.positions)
    assert any(
        not np.array_equal(hidden_token_targets(model, prompt, seed)[1].positions.numpy(), places) for seed in range(3)
    )


def test_about_fifteen_percent_are_hidden_and_at_least_one():
    model = model_of("encoder-only", WithMask())
    counts = [len(hidden_token_targets(model, "x" * 60, seed)[1]) for seed in range(40)]
    assert np.mean(counts) == pytest.approx(9, abs=1.5)
    assert all(len(hidden_token_targets(model, "x", seed)[1]) == 1 for seed in range(3))


def test_an_encoder_decoder_is_asked_for_its_target():
    model = model_of("encoder-decoder", n_encoder_layers=1)
    trace = model.trace("3 May 2024", target="2024-05-03")
    targets = next_token_targets(trace.of("cross"))
    assert bytes(targets.ids.tolist()) == b"2024-05-03"
    logits = model.transformer(torch.tensor([trace.ids]), source=torch.tensor([list(b"3 May 2024")]), logits="all")
    checked(targets, logits[0, :-1].double().numpy(), targets.ids.numpy())


def test_decode_steps_have_the_losses_of_one_pass():
    model = vm.load("tiny-gpt")
    trace = model.trace(PROMPT)
    steps, told = list(step_by_step(model, trace.ids)), []
    losses = next_token_targets(trace).losses.numpy()
    np.testing.assert_allclose([step.loss for step in steps], losses, atol=1e-3)
    assert all(step.seconds > 0 for step in steps)
    found = compare_with_steps(model, trace, lambda *progress: told.append(progress))
    assert found.steps == len(steps) == trace.length - 1
    assert told == [(step, trace.length - 1) for step in range(1, trace.length)]
    assert found.largest_difference == pytest.approx(np.abs([step.loss for step in steps] - losses).max(), abs=1e-6)
    assert found.pass_seconds > 0 < found.step_seconds


def test_under_a_foreign_mask_steps_and_pass_are_not_the_same():
    model = vm.load("tiny-gpt")
    trace = model.trace(PROMPT[:100], mask="bidirectional")
    steps = [step.loss for step in step_by_step(model, trace.ids)]
    assert np.abs(np.array(steps) - next_token_targets(trace).losses.numpy()).max() > 0.1


def test_what_has_no_targets_says_so():
    with pytest.raises(vm.PromptError, match="no token after it"):
        next_token_targets(vm.load("tiny-gpt").trace("a"))
    encoder = model_of("encoder-only")
    with pytest.raises(vm.VizError, match="reads in both directions"):
        next_token_targets(encoder.trace("abc"))
    with pytest.raises(vm.VizError, match="no mask token"):
        hidden_token_targets(encoder, "abc", 0)
    with pytest.raises(vm.VizError, match="Only causal models can use a cache"):
        list(step_by_step(encoder, [1, 2, 3]))
