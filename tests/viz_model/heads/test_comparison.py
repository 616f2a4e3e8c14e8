"""What two passes differ in, against scipy and numpy; what a changed token reaches, against transformers."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import entropy

import viz_model as vm
from tests.support.transformers_tiny_gpt import gpt2
from viz_model.errors import PromptError, VizError
from viz_model.heads.comparison import (
    compare_next_tokens,
    likely_tokens,
    predicts,
    query_entropy,
    single_token,
    stream_change,
    with_token,
)

PROMPT, POSITION = "The queen gave the girl a ring, and she thanked her.", 5


@pytest.fixture(scope="module")
def model():
    return vm.load("tiny-gpt")


def test_next_tokens_against_scipy():
    first, second = (torch.randn(50, generator=torch.Generator().manual_seed(seed)) * 3 for seed in (1, 2))
    found = compare_next_tokens(first, second, count=4)
    p, r = softmax(first.double().numpy()), softmax(second.double().numpy())
    likeliest = set(np.argsort(-p)[:4]) | set(np.argsort(-r)[:4])
    assert set(found.ids) == likeliest
    assert found.ids == sorted(likeliest, key=lambda token: -max(p[token], r[token]))
    np.testing.assert_allclose(found.first, p[found.ids], rtol=1e-12)
    np.testing.assert_allclose(found.second, r[found.ids], rtol=1e-12)
    assert found.divergence == pytest.approx(entropy(p, r, base=2), rel=1e-12)
    change = (second.double() - first.double()).numpy()
    assert found.logit_change_id == np.abs(change).argmax()
    assert found.logit_change == change[found.logit_change_id]


def test_the_same_prediction_twice_differs_in_nothing():
    logits = torch.tensor([1e4, -1e4, 3.0])
    found = compare_next_tokens(logits, logits)
    assert (found.divergence, found.logit_change) == (0, 0)
    assert sorted(found.ids) == [0, 1, 2]
    np.testing.assert_allclose(found.first, np.exp(log_softmax(logits.double())), rtol=1e-12, atol=0)


def test_entropy_of_a_query_that_reads_nothing_is_no_number():
    allowed = torch.tensor([[0, 0, 0], [1, 1, 0], [1, 1, 1]]).bool()
    weights = torch.tensor([[0, 0, 0], [0.25, 0.75, 0], [0, 1, 0]])
    found = query_entropy(weights, allowed).numpy()
    assert np.isnan(found[0])
    assert found[1:] == pytest.approx([entropy([0.25, 0.75], base=2), 0])


@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
def test_what_a_changed_token_reaches_by_transformers(model, mask):
    ids = tuple(model.encode(PROMPT))
    other = with_token(ids, POSITION, single_token(model, " king"))
    change = stream_change(model.trace(ids, mask), model.trace(other, mask)).numpy()
    given = {} if mask == "causal" else {"attention_mask": torch.zeros(1, 1, len(ids), len(ids))}
    with torch.inference_mode():
        states = [
            [
                state[0].double()
                for state in gpt2()(torch.tensor([run]), output_hidden_states=True, **given).hidden_states
            ]
            for run in (ids, other)
        ]
    # their last state is after the final norm, ours before it
    expected = [((new - old).norm(dim=-1) / old.norm(dim=-1)).numpy() for old, new in zip(*states, strict=True)][:-1]
    np.testing.assert_allclose(change[:-1], expected, atol=1e-4)
    before = change[:, :POSITION]
    if mask == "causal":
        assert not before.any()
    else:
        assert (before[1:] > 0).all()  # after the first layer every position has heard of it
        assert not before[0].any()
    assert change[0, POSITION] > 0.1


def test_prompts_of_other_lengths_cannot_be_laid_over_each_other(model):
    with pytest.raises(VizError, match="2 and 3 tokens"):
        stream_change(model.trace([5, 6]), model.trace([5, 6, 7]))


def test_one_token_in_the_place_of_another():
    assert with_token((4, 5, 6), 1, 9) == (4, 9, 6)
    assert with_token((4, 5, 6), 2, 9) == (4, 5, 9)
    for position in (-1, 3):
        with pytest.raises(PromptError, match="positions 0 to 2"):
            with_token((4, 5, 6), position, 9)


def test_a_text_that_is_not_one_token_is_told_its_pieces(model):
    assert model.tokenizer.decode([single_token(model, " king")]) == " king"
    with pytest.raises(PromptError, match=r"“ king queen” is 2 tokens:  king \|  queen"):
        single_token(model, " king queen")
    with pytest.raises(PromptError, match="Type the token"):
        single_token(model, "")


def test_likely_tokens_are_those_of_the_prediction_before(model):
    trace = model.trace(PROMPT)
    with torch.inference_mode():
        logits = gpt2()(torch.tensor([trace.ids])).logits[0, POSITION - 1].numpy()
    ranked = [token for token in np.argsort(-logits) if token != trace.ids[POSITION]]
    assert likely_tokens(trace, POSITION, 5) == ranked[:5]
    assert len(likely_tokens(trace, 0, 5)) == 5


def test_where_nothing_is_predicted_the_words_of_the_text_are_offered_but_not_its_signs():
    trace = vm.load("tiny-seq2seq").trace("2 May 2024").of("encoder")
    sign, *others = dict.fromkeys(trace.ids)
    assert not predicts(trace)
    expected = [token for token in others if token != trace.ids[3]]
    assert likely_tokens(trace, 3, 4, {sign}) == expected[:4]
    assert likely_tokens(trace, 3, 4) == [sign, *expected][:4]


def test_a_token_that_a_model_forbids_does_not_hide_how_far_two_predictions_are_apart():
    """Of logits of −∞ the difference is no number, and the larger of 0 and no number was 0."""
    first, second = torch.tensor([1.0, 0.0, -torch.inf]), torch.tensor([0.0, 1.0, -torch.inf])
    p, q = (logits.softmax(-1).double()[:2] for logits in (first, second))
    expected = (p * (p / q).log2()).sum().item()
    assert compare_next_tokens(first, second).divergence == pytest.approx(expected, rel=1e-6)
