"""The loss of a text against torch's own cross-entropy."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.small_models import random_ids, small_model
from viz_model.errors import VizError
from viz_model.model import Model
from viz_model.training.loss import loss, windows

ROWS = random_ids(3, 12, seed=6)


class MaskToken:
    """Of a tokenizer, what the loss asks for."""

    mask = 28


def cross_entropy(logits, targets):
    return nn.CrossEntropyLoss()(logits.flatten(0, -2), targets.flatten()).item()


def test_every_next_token_of_a_causal_model():
    model = Model("small", small_model())
    found = loss(model, ROWS)
    logits = model.transformer(ROWS, logits="all")[:, :-1]
    assert found.nats == pytest.approx(cross_entropy(logits, ROWS[:, 1:]), rel=1e-5)
    assert found.tokens == 3 * 11


def test_what_a_decoder_reads_beside_its_source():
    model = Model("small", small_model(layout="encoder-decoder"))
    source = random_ids(5, seed=7)
    found = loss(model, ROWS, source)
    logits = model.transformer(ROWS, source=source.expand(3, -1), logits="all")[:, :-1]
    assert found.nats == pytest.approx(cross_entropy(logits, ROWS[:, 1:]), rel=1e-5)


def test_hidden_tokens_of_a_model_that_reads_in_both_directions():
    model = Model("small", small_model(layout="encoder-only"), MaskToken())
    found = loss(model, ROWS)
    shown = ROWS.clone()
    shown[:, [3, 10]] = MaskToken.mask
    logits = model.transformer(shown, logits="all")[:, [3, 10]]
    assert found.nats == pytest.approx(cross_entropy(logits, ROWS[:, [3, 10]]), rel=1e-5)
    assert found.tokens == 6


def test_where_there_is_nothing_to_predict():
    with pytest.raises(VizError, match="longer text"):
        loss(Model("small", small_model()), ROWS[:, :1])
    with pytest.raises(VizError, match="no mask token"):
        loss(Model("small", small_model(layout="encoder-only")), ROWS)


def test_windows_are_spread_over_the_text_and_never_longer_than_it():
    ids = np.arange(100, dtype=np.uint16)
    assert windows(ids, 10, 4)[:, 0].tolist() == [0, 30, 60, 90]
    assert torch.equal(windows(ids, 10, 1), torch.arange(10)[None])
    assert windows(ids, 60, 4).shape == (1, 60)
    assert windows(ids[:7], 10, 4).tolist() == [list(range(7))]
