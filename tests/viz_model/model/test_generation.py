"""Generation as a lazy loop against a loop of whole passes, its drawings against a plain sampler in numpy."""

import itertools

import numpy as np
import pytest
import torch

from tests.support.plain_sampler import plain_draw, plain_sampler
from tests.support.small_models import small_model
from tests.support.small_tokenizers import small_tokenizer
from viz_model.errors import PromptError, VizError
from viz_model.model import Model
from viz_model.shapes import costs

TOKENIZER = small_tokenizer()
MODEL = Model("teller", small_model(vocab_size=TOKENIZER.vocab_size, context_length=40), TOKENIZER)


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"temperature": -0.1}, "temperature is -0.1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": 0}, "Top-k is 0"),
        ({"top_p": 0}, "Top-p is 0"),
        ({"top_p": 1.01}, "Top-p is 1.01"),
        ({"top_p": float("nan")}, "Top-p is nan"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused_at_once(odd, words):
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


@pytest.mark.parametrize("cache", [True, False])
def test_every_step_is_what_a_plain_sampler_draws_from_a_whole_pass(cache):
    choices, ids = {"temperature": 1.2, "top_k": 30, "top_p": 0.9}, MODEL.encode("the old king")
    for step in MODEL.generate("the old king", max_new_tokens=20, seed=5, cache=cache, **choices):
        logits = MODEL.transformer(torch.tensor([ids]), logits="all")[0, -1]
        np.testing.assert_allclose(step.sampled.logits, logits, atol=1e-4)
        expected = plain_sampler(logits, **choices)
        draw = np.random.default_rng((5, step.number)).random()
        assert step.token_id == plain_draw(logits, expected, draw)
        ids.append(step.token_id)
        assert list(step.ids) == ids


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
    assert passes == [3, 1, 1]
    passes.clear()
    assert len(list(MODEL.generate([1, 2, 3], max_new_tokens=3, temperature=0, cache=False))) == 3
    assert passes == [3, 4, 5]


def test_a_full_context_stops_with_a_sentence_and_nothing_is_lost():
    steps, made = MODEL.generate([1] * 30, max_new_tokens=50, temperature=0), []
    with pytest.raises(PromptError, match="reads at most 40 tokens, so it stops after 11 of the 50 new ones"):
        made.extend(iter(lambda: next(steps), None))
    assert len(made) == 11
    assert made[-1].read == 40
    assert len(list(MODEL.generate([1] * 30, max_new_tokens=11))) == 11
    assert len(list(MODEL.generate([1] * 40, max_new_tokens=1))) == 1
    with pytest.raises(PromptError, match="41 tokens, but teller reads at most 40"):
        MODEL.generate([1] * 41, max_new_tokens=1)
    with pytest.raises(PromptError, match="The prompt is empty"):
        MODEL.generate("", max_new_tokens=1)
    assert list(MODEL.generate([1], max_new_tokens=0)) == []


def test_a_branch_goes_on_from_the_steps_before_it():
    choices = {"max_new_tokens": 12, "temperature": 1.3, "seed": 2}
    steps = list(MODEL.generate("the king", **choices))
    other = next(c.token_id for c in steps[4].top(2) if c.token_id != steps[4].token_id)
    anew = list(MODEL.generate("the king", forced={4: other}, **choices))
    branch = list(MODEL.generate("the king", forced={4: other}, kept=steps[:4], **choices))
    assert continued(anew) == continued(steps[:4]) + continued(branch)
    assert (branch[0].forced, branch[0].token_id, branch[0].number) == (True, other, 4)
    assert branch[0].sampled.token_id == steps[4].token_id != other  # what would have been drawn
    assert not any(step.forced for step in branch[1:])
    assert continued(steps) == continued(MODEL.generate("the king", **choices))  # the first run is as it was
    np.testing.assert_allclose(steps[-1].cache.keys, list(MODEL.generate("the king", **choices))[-1].cache.keys)
    longer = list(MODEL.generate("the king", kept=steps, **(choices | {"max_new_tokens": 15})))
    assert [step.number for step in longer] == [12, 13, 14]


def test_steps_of_another_prompt_are_refused():
    steps = list(MODEL.generate("the king", max_new_tokens=3))
    with pytest.raises(VizError, match="belong to another prompt"):
        MODEL.generate("the queen", kept=steps)
    with pytest.raises(VizError, match="without a cache"):
        MODEL.generate("the king", kept=list(MODEL.generate("the king", max_new_tokens=2, cache=False)))
    with pytest.raises(PromptError, match="There is no token 9999999"):
        MODEL.generate("the king", forced={0: 9999999})


def test_rows_are_those_of_a_whole_pass():
    steps = list(MODEL.generate("the king", max_new_tokens=6, temperature=0))
    config = MODEL.config
    trace = MODEL.trace(list(steps[-1].ids[:-1]))
    for layer in range(config.n_layers):
        for head in range(config.n_heads):
            for step in steps:
                rows = slice(step.read - step.queries, step.read)
                for found, expected in (
                    (step.scores(layer, head), trace.scores(layer, head)),
                    (step.weights(layer, head), trace.weights(layer, head)),
                ):
                    assert found.shape == (step.queries, step.read)
                    torch.testing.assert_close(found, expected[rows, : step.read], atol=1e-5, rtol=1e-4)


def test_both_ways_are_compared():
    steps = list(MODEL.generate("the king", max_new_tokens=8, compare=True))
    prompt = len(MODEL.encode("the king"))
    assert [step.queries for step in steps] == [prompt] + [1] * 7
    assert [step.read for step in steps] == list(range(prompt, prompt + 8))
    for step in steps:
        whole = MODEL.transformer(torch.tensor([step.ids[:-1]]))[0]
        assert step.largest_difference == pytest.approx(float((step.sampled.logits - whole).abs().max()), abs=1e-6)
        assert step.largest_difference <= 1e-4
        assert step.seconds > 0
        assert step.seconds_uncached > 0
        assert step.cache.nbytes == costs.step_cache_bytes(step)
    assert next(MODEL.generate("the king")).largest_difference is None


def test_candidates_are_the_likeliest_and_the_chosen_one():
    [step] = MODEL.generate("the king", max_new_tokens=1, top_k=3, forced={0: 7})
    logits = step.sampled.logits.double().numpy()
    candidates = step.top(5)
    assert [c.token_id for c in candidates[:5]] == sorted(range(len(logits)), key=lambda t: (-logits[t], t))[:5]
    assert candidates[-1].token_id == 7
    assert [c.kept for c in candidates[:5]] == [True] * 3 + [False] * 2
    expected = plain_sampler(logits, 1.0, 3, 1.0)
    for candidate in candidates:
        assert candidate.logit == pytest.approx(logits[candidate.token_id])
        assert candidate.probability == pytest.approx(expected[candidate.token_id])
        assert candidate.full_probability == pytest.approx(plain_sampler(logits, 1.0, None, 1.0)[candidate.token_id])
        assert candidate.token == TOKENIZER.token_bytes(candidate.token_id)


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
    assert [step.token for step in steps] == [b"a", TOKENIZER.token_bytes(TOKENIZER.end_of_text)]
    assert [step.is_end for step in steps] == [False, True]
    without = Model("speaker", transformer).generate([ord("x")], max_new_tokens=2, temperature=0)
    assert continued(without) == [ord("a"), TOKENIZER.end_of_text]
