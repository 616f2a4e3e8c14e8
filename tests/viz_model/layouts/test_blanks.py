"""Blanks: probabilities against numpy, one pass a blank."""

import numpy as np
import pytest
import torch
from scipy.special import softmax

import viz_model as vm
from tests.support.small_models import small_model
from tests.support.small_tokenizers import ranks
from viz_model.layouts.blanks import ROWS, blank_bits, compare_guesses, with_blank
from viz_model.model import Model
from viz_model.model.tokenizer import Tokenizer

TOKENIZER = Tokenizer(ranks(b"th", b"the"), with_mask=True)
BERT = Model("bert", small_model(layout="encoder-only", vocab_size=TOKENIZER.vocab_size), TOKENIZER)
IDS = tuple(TOKENIZER.encode("the cat sat there"))


def test_a_blank_is_the_mask_token_and_nothing_else():
    blanked = with_blank(BERT, IDS, 3)
    assert blanked == (*IDS[:3], TOKENIZER.mask, *IDS[4:])
    assert TOKENIZER.token_bytes(TOKENIZER.mask) == b"<|mask|>"
    with pytest.raises(vm.PromptError, match="no mask token"):
        with_blank(vm.load("tiny-gpt"), (1, 2), 0)
    with pytest.raises(vm.PromptError, match="no position 99"):
        with_blank(BERT, IDS, 99)


def test_surprise_of_every_blank_is_that_of_a_pass_each():
    assert len(IDS) > ROWS, "more than one pass"
    found = [bits for some in blank_bits(BERT, IDS, range(len(IDS))) for bits in some]
    for place, token in enumerate(IDS):
        ids = [*IDS[:place], TOKENIZER.mask, *IDS[place + 1 :]]
        with torch.inference_mode():
            logits = BERT.transformer(torch.tensor([ids]), logits="all")[0, place].double().numpy()
        assert found[place] == pytest.approx(-np.log2(softmax(logits)[token]), rel=1e-4)


def test_two_distributions_over_one_vocabulary():
    random = np.random.default_rng(0)
    first, second = torch.from_numpy(random.normal(0, 3, 41)), torch.from_numpy(random.normal(0, 3, 40))
    found = compare_guesses(first, second, right=7, count=4)
    one, other = softmax(first.numpy()), np.append(softmax(second.numpy()), 0)  # one token more in the first
    likeliest = {*np.argsort(-one)[:4], *np.argsort(-other)[:4], 7}
    assert set(found.ids) == likeliest
    largest = np.maximum(one, other)[found.ids]
    assert (np.diff(largest) <= 0).all()
    np.testing.assert_allclose(found.first, one[found.ids])
    np.testing.assert_allclose(found.second, other[found.ids])
    assert found.probability == pytest.approx((one[7], other[7]))
    assert found.place == (1 + (one > one[7]).sum(), 1 + (other > other[7]).sum())
