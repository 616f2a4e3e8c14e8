"""Sampling against a plain sampler in numpy and against `transformers`; generation as a lazy loop."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from tests.properties import examples
from tests.viz_model.models import small_model
from tests.viz_model.tokenizers import small_tokenizer
from viz_model.errors import PromptError, VizError
from viz_model.generation import next_token_probabilities
from viz_model.model import Model

TOKENIZER = small_tokenizer()
MODEL = Model("teller", small_model(vocab_size=TOKENIZER.vocab_size, context_length=40), TOKENIZER)


def plain_sampler(logits, temperature, top_k, top_p):
    """In the order of the papers, one token at a time; ties go to the smaller id."""
    logits = np.asarray(logits, np.float64)
    if temperature == 0:
        best = int(np.argmax(logits))
        return np.eye(len(logits))[best]
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:top_k]
    exponentials = [np.exp((logits[token] - logits.max()) / temperature) for token in order]
    kept, mass = {}, 0.0
    for token, exponential in zip(order, exponentials, strict=True):
        if mass >= top_p:
            break
        kept[token] = exponential / sum(exponentials)
        mass += kept[token]
    result = np.zeros(len(logits))
    for token, share in kept.items():
        result[token] = share / sum(kept.values())
    return result


def logits_of(seed, size, ties):
    drawn = np.random.default_rng(seed).normal(0, 3, size).astype(np.float32)
    return torch.from_numpy(np.round(drawn) if ties else drawn)


choices = {
    "seed": st.integers(0, 999),
    "size": st.integers(1, 60),
    "temperature": st.sampled_from([0.05, 0.7, 1.0, 1.3, 5.0]),
    "top_k": st.sampled_from([None, 1, 2, 5, 40, 1000]),
    "top_p": st.sampled_from([0.1, 0.35, 0.8, 0.95, 1.0]),
}


@examples(200)
@given(**choices, ties=st.booleans())
def test_probabilities_are_those_of_a_plain_sampler(seed, size, temperature, top_k, top_p, ties):
    logits = logits_of(seed, size, ties)
    found = next_token_probabilities(logits, temperature, top_k, top_p)
    assert found.dtype == logits.dtype
    np.testing.assert_allclose(found, plain_sampler(logits, temperature, top_k, top_p), atol=1e-6)
    assert float(found.sum()) == pytest.approx(1, abs=1e-5)


@examples(200)
@given(**choices)
def test_probabilities_are_those_of_transformers(seed, size, temperature, top_k, top_p):
    logits = logits_of(seed, size, ties=False)
    warped = TemperatureLogitsWarper(temperature)(None, logits[None].double())
    if top_k is not None:
        warped = TopKLogitsWarper(top_k)(None, warped)
    if top_p < 1:
        warped = TopPLogitsWarper(top_p)(None, warped)
    found = next_token_probabilities(logits, temperature, top_k, top_p)
    np.testing.assert_allclose(found, warped[0].softmax(-1), atol=1e-6)


def test_ties_go_to_the_smaller_id_and_no_more_than_k_are_kept():
    logits = torch.tensor([1.0, 3.0, 3.0, 3.0, 0.0])
    assert next_token_probabilities(logits, 0).tolist() == [0, 1, 0, 0, 0]
    assert next_token_probabilities(logits, 1, top_k=2).tolist() == [0, 0.5, 0.5, 0, 0]
    assert next_token_probabilities(logits, 1, top_p=0.2).tolist() == [0, 1, 0, 0, 0]
    assert next_token_probabilities(torch.zeros(4), 1, top_p=0.5).tolist() == [0.5, 0.5, 0, 0]


@pytest.mark.parametrize("temperature", [1e-3, 1e-20, 1e-45, 1e-310, 5e-324])
def test_towards_temperature_zero_it_becomes_greedy(temperature):
    logits = torch.tensor([1e4, 2e4, -3e4, 1.99e4])
    assert next_token_probabilities(logits, temperature).tolist() == [0, 1, 0, 0]


def test_a_huge_temperature_is_uniform():
    assert next_token_probabilities(torch.tensor([1.0, 5.0]), float("inf")).tolist() == [0.5, 0.5]


def test_without_a_cut_no_token_of_a_large_vocabulary_is_lost():
    logits = torch.randn(50_000, generator=torch.Generator().manual_seed(0)) * 0.1
    assert (next_token_probabilities(logits) > 0).all()


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": 0}, "Top-k is 0"),
        ({"top_p": 0}, "Top-p is 0"),
        ({"top_p": 1.01}, "Top-p is 1.01"),
        ({"top_p": float("nan")}, "Top-p is nan"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused_at_once(odd, words):
    with pytest.raises(VizError, match=words):
        next_token_probabilities(torch.zeros(3), **odd)
    with pytest.raises(VizError, match=words):
        MODEL.generate("the", **odd)  # before the first step is asked for


def continued(steps):
    return [step.token_id for step in steps]


def test_greedy_is_the_loop_of_argmax():
    ids, expected = MODEL.encode("the king"), []
    for _ in range(12):
        expected.append(int(MODEL.transformer(torch.tensor([[*ids, *expected]]), logits="all")[0, -1].argmax()))
    steps = list(MODEL.generate("the king", max_new_tokens=12, temperature=0))
    assert continued(steps) == expected
    assert all(step.probability == 1 for step in steps)
    assert [step.token for step in steps] == [TOKENIZER.token_bytes(token) for token in expected]


def test_a_seed_reproduces_and_another_does_not():
    one, again, other = (
        continued(MODEL.generate("the", max_new_tokens=30, temperature=1.5, seed=seed)) for seed in (7, 7, 8)
    )
    assert one == again != other
    torch.manual_seed(123)  # what else draws does not matter
    between = MODEL.generate("the", max_new_tokens=30, temperature=1.5, seed=7)
    assert [step.token_id for step in between if torch.rand(1) >= 0] == one


def test_each_step_tells_the_probability_it_was_drawn_with():
    choices, ids = {"temperature": 0.9, "top_k": 20, "top_p": 0.9}, MODEL.encode("a castle")
    for step in MODEL.generate("a castle", max_new_tokens=15, seed=3, **choices):
        logits = MODEL.transformer(torch.tensor([ids]), logits="all")[0, -1]
        expected = plain_sampler(logits, choices["temperature"], choices["top_k"], choices["top_p"])
        assert step.probability == pytest.approx(expected[step.token_id], abs=1e-5)
        assert step.probability > 0
        ids.append(step.token_id)


def test_what_is_drawn_follows_the_probabilities():
    logits = MODEL.transformer(torch.tensor([MODEL.encode("the")]))[0]
    expected = plain_sampler(logits, 2.0, 5, 1.0)
    drawn = [
        next(MODEL.generate("the", max_new_tokens=1, temperature=2.0, top_k=5, seed=seed)).token_id
        for seed in range(400)
    ]
    counts = np.bincount(drawn, minlength=len(expected))
    assert set(np.flatnonzero(counts)) <= set(np.flatnonzero(expected))
    deviation = np.sqrt(expected * (1 - expected) / 400)
    assert (abs(counts / 400 - expected) <= 4 * deviation).all()


def test_steps_are_made_only_when_asked_for(monkeypatch):
    passes = []
    forward = type(MODEL.transformer).forward
    monkeypatch.setattr(
        type(MODEL.transformer),
        "forward",
        lambda self, ids, **options: passes.append(ids.shape[1]) or forward(self, ids, **options),
    )
    steps = MODEL.generate([1, 2, 3], max_new_tokens=20, temperature=0)
    assert passes == []
    assert len(list(itertools.islice(steps, 3))) == 3
    assert passes == [3, 4, 5]


def test_the_prompt_and_the_new_tokens_must_fit_the_context_together():
    assert len(list(MODEL.generate([1] * 30, max_new_tokens=10))) == 10
    with pytest.raises(PromptError, match="30 tokens and 11 new ones are more than the 40 that teller can hold"):
        MODEL.generate([1] * 30, max_new_tokens=11)
    with pytest.raises(PromptError, match="41 tokens, but teller reads at most 40"):
        MODEL.generate([1] * 41, max_new_tokens=1)
    with pytest.raises(PromptError, match="The prompt is empty"):
        MODEL.generate("", max_new_tokens=1)
    assert list(MODEL.generate([1], max_new_tokens=0)) == []


def test_a_model_that_reads_both_ways_draws_no_next_token():
    encoder = Model("reader", small_model(layout="encoder-only"))
    with pytest.raises(PromptError, match="reader reads in both directions"):
        encoder.generate([1, 2])


def test_the_end_of_the_text_ends_it():
    """A model that says a, then the control token, whatever it reads."""
    sequence = {ord("x"): ord("a"), ord("a"): TOKENIZER.end_of_text}
    transformer = small_model(
        vocab_size=TOKENIZER.vocab_size, d_model=264, n_heads=1, n_kv_heads=1, position="none", norm="rms",
        tied_unembedding=False, n_layers=1, bias=False,
    )  # fmt: skip
    state = transformer.state_dict()
    for name, tensor in state.items():
        tensor.fill_(1.0 if "norm" in name else 0.0)  # all blocks write nothing
    for token, following in sequence.items():
        state["tokens.weight"][token, token] = 1
        state["unembedding.weight"][following, token] = 1
    steps = list(Model("speaker", transformer, TOKENIZER).generate("x", max_new_tokens=9, temperature=0))
    assert [step.token for step in steps] == [b"a"]
    without = Model("speaker", transformer).generate([ord("x")], max_new_tokens=2, temperature=0)
    assert continued(without) == [ord("a"), TOKENIZER.end_of_text]
