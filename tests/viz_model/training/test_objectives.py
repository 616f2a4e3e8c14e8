"""The losses against loops over tokens, with heads silenced in the weights themselves."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.support.small_models import VOCABULARY, small_model
from viz_model.training import objectives
from viz_model.training.data import (
    IGNORED,
    LETTERS,
    Batch,
    masked_batch,
    passage_batch,
    recurring_batch,
    repeated_batch,
    text_batch,
)
from viz_model.training.dates import date_batch
from viz_model.training.objectives import (
    dropped_out,
    echo_loss,
    induction_loss,
    next_token_loss,
    stage_loss,
    target_loss,
)
from viz_model.training.recipes import Stage
from viz_model.transformer.hooks import capture

MODEL = small_model()
WIDTH = MODEL.config.d_head
ORDINARY = VOCABULARY - 1
STREAM = np.random.default_rng(9).integers(0, VOCABULARY, 300).astype(np.uint16)


def drawn(seed=0):
    return np.random.default_rng(seed)


def surprise(logits, target):
    """−log p(target), in float64."""
    logits = logits.double().numpy()
    return np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[target]


def only_heads(block, heads):
    """A copy of the model in which the other heads of that block write nothing."""
    model = copy.deepcopy(MODEL)
    model.state_dict()[f"blocks.{block}.attn.output.weight"][:, heads * WIDTH :] = 0
    return model


def logits_of_what_is_written(block, heads, ids):
    with capture(f"blocks.{block}.attn.out", "*.weights") as found:
        only_heads(block, heads)(torch.from_numpy(ids))
    logits = MODEL.unembed(MODEL.final_norm(found[f"blocks.{block}.attn.out"]))
    return logits, found[f"blocks.{block}.attn.weights"]


def next_token(batch):
    logits = MODEL(torch.from_numpy(batch.ids), logits="all")
    places = np.argwhere(batch.targets != IGNORED)
    return np.mean([surprise(logits[b, t], batch.targets[b, t]) for b, t in places])


def echo(ids, heads):
    logits, _ = logits_of_what_is_written(0, heads, ids)
    rows, length = ids.shape
    return np.mean([surprise(logits[b, t], ids[b, t - 1]) for b in range(rows) for t in range(1, length)])


def induction(batch, heads):
    logits, weights = logits_of_what_is_written(1, heads, batch.ids)
    looked, named = [], []
    for b in range(len(batch.ids)):
        counted = np.flatnonzero(batch.targets[b] != IGNORED)
        half = len(counted) + 1
        for t in counted:
            after_the_copy = t - half + 1
            assert batch.ids[b, after_the_copy] == batch.targets[b, t]
            looked += [-np.log(float(weights[b, head, t, after_the_copy]) + 1e-9) for head in range(heads)]
            named.append(surprise(logits[b, t], batch.targets[b, t]))
    return np.mean(looked) + np.mean(named)


def close(loss, expected):
    assert float(loss) == pytest.approx(expected, rel=1e-4)


def test_next_token_loss_counts_the_targets_and_no_other():
    close(next_token_loss(MODEL, batch := text_batch(STREAM, 3, 12, drawn())), next_token(batch))
    close(next_token_loss(MODEL, batch := repeated_batch(ORDINARY, 4, 20, drawn())), next_token(batch))
    one = Batch(batch.ids[:1], np.full((1, 20), IGNORED))
    one.targets[0, 7] = 3
    close(next_token_loss(MODEL, one), next_token(one))


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_echo_loss(heads):
    ids = drawn().integers(0, ORDINARY, (3, 11))
    close(echo_loss(MODEL, ids, heads), echo(ids, heads))


@pytest.mark.parametrize("heads", [1, 2, 4])
def test_induction_loss(heads):
    batch = repeated_batch(ORDINARY, 3, 20, drawn())
    close(induction_loss(MODEL, batch, heads), induction(batch, heads))


def test_each_stage_has_its_own_loss(monkeypatch):
    monkeypatch.setattr(objectives, "ECHO_LENGTH", 16)
    stages = {name: Stage(name, steps=1, rows=3, length=20, echo_heads=2) for name in ("echo", "induction", "copy")}
    random = drawn(5)
    close(stage_loss(MODEL, stages["echo"], STREAM, drawn(5)), echo(random.integers(0, ORDINARY, (3, 20)), 2))
    random = drawn(5)
    reminder = random.integers(0, ORDINARY, (2, 16))
    expected = induction(repeated_batch(ORDINARY, 3, 20, random), 1) + echo(reminder, 2)
    close(stage_loss(MODEL, stages["induction"], STREAM, drawn(5)), expected)
    expected = next_token(repeated_batch(ORDINARY, 3, 20, drawn(5)))
    close(stage_loss(MODEL, stages["copy"], STREAM, drawn(5)), expected)
    random = drawn(5)
    text, repeats = text_batch(STREAM, 3, 20, random), repeated_batch(ORDINARY, 2, 20, random)
    both = Batch(np.vstack((text.ids, repeats.ids)), np.vstack((text.targets, repeats.targets)))
    stage = Stage("text", steps=1, rows=3, length=20, copy_rows=2)
    close(stage_loss(MODEL, stage, STREAM, drawn(5)), next_token(both))
    close(stage_loss(MODEL, Stage("text", steps=1, rows=3, length=20), STREAM, drawn(5)), next_token(text))


def test_the_text_stage_has_rows_in_which_a_passage_comes_again():
    random = drawn(5)
    parts = [text_batch(STREAM, 3, 24, random), passage_batch(STREAM, 2, 24, random)]
    parts.append(repeated_batch(ORDINARY, 1, 24, random))
    whole = Batch(np.vstack([part.ids for part in parts]), np.vstack([part.targets for part in parts]))
    stage = Stage("text", steps=1, rows=3, length=24, passage_rows=2, copy_rows=1)
    assert stage.all_rows == len(whole.ids)
    close(stage_loss(MODEL, stage, STREAM, drawn(5)), next_token(whole))


def test_the_recurring_stage_asks_for_second_copies_of_characters():
    model, stage = small_model(vocab_size=257), Stage("recurring", steps=1, rows=3, length=20)
    batch = recurring_batch(LETTERS, 3, 20, drawn(5))
    with torch.inference_mode():
        logits = model(torch.from_numpy(batch.ids), logits="all")
    found = [surprise(logits[row, at], batch.targets[row, at]) for row, at in np.argwhere(batch.targets != IGNORED)]
    close(stage_loss(model, stage, np.empty(0), drawn(5)), np.mean(found))


def test_the_masked_stage_asks_for_the_hidden_tokens():
    batch = masked_batch(STREAM, 3, 20, ORDINARY, drawn(5))
    assert (batch.ids == ORDINARY).any(), "the last token of the vocabulary is the mask"
    stage = Stage("masked", steps=1, rows=3, length=20)
    close(stage_loss(MODEL, stage, STREAM, drawn(5)), next_token(batch))
    more = masked_batch(STREAM, 3, 20, ORDINARY, drawn(5), 0.5)
    assert (more.targets != IGNORED).sum() > (batch.targets != IGNORED).sum()
    close(stage_loss(MODEL, replace(stage, masked_share=0.5), STREAM, drawn(5)), next_token(more))
    shorter = masked_batch(STREAM, 3, 16, ORDINARY, drawn(5), shortest=4)
    assert shorter.ids.shape[1] < 16
    close(stage_loss(MODEL, Stage("masked", 1, 3, 16, shortest=4), STREAM, drawn(5)), next_token(shorter))


def test_target_loss_is_that_of_each_translation_by_itself():
    """One pass a row, without padding, against the loss of the whole batch; of a recipe's stage too."""
    model, pairs = (
        small_model(layout="encoder-decoder", vocab_size=257, context_length=64),
        date_batch(5, 256, drawn(3)),
    )
    found = []
    for row in range(5):
        source = torch.from_numpy(pairs.source[row][~pairs.padding[row]])[None]
        logits = model(torch.from_numpy(pairs.ids[row])[None], source=source, logits="all")[0]
        found += [surprise(logits[place], pairs.targets[row, place]) for place in range(11)]
    assert len({(~row).sum() for row in pairs.padding}) > 1, "sources of more than one length"
    close(target_loss(model, pairs), np.mean(found))
    close(stage_loss(model, Stage("target", steps=1, rows=5, length=11), np.empty(0), drawn(3)), np.mean(found))


def test_dropout_sets_its_share_to_zero_and_keeps_the_mean():
    ids, share = torch.from_numpy(drawn().integers(0, ORDINARY, (8, 20))), 0.25
    written = ("blocks.0.attn.out", "blocks.1.ffn.out")
    with capture(*written) as plain:
        MODEL(ids)
    with dropped_out(share, seed=1), capture(*written) as dropped:
        MODEL(ids)
    lost = dropped[written[0]] == 0
    assert float(lost.float().mean()) == pytest.approx(share, abs=4 * (share * (1 - share) / lost.numel()) ** 0.5)
    torch.testing.assert_close(dropped[written[0]][~lost], plain[written[0]][~lost] / (1 - share))
    assert float((dropped[written[1]] == 0).float().mean()) == pytest.approx(share, abs=0.05)


def test_dropout_follows_its_seed_and_none_changes_nothing():
    ids = torch.from_numpy(drawn().integers(0, ORDINARY, (2, 9)))

    def logits(share, seed):
        with dropped_out(share, seed):
            return MODEL(ids)

    assert torch.equal(logits(0.1, 3), logits(0.1, 3))
    assert not torch.equal(logits(0.1, 3), logits(0.1, 4))
    assert torch.equal(logits(0.0, 3), MODEL(ids))
    stages = [Stage("text", steps=1, rows=3, length=20, dropout=share) for share in (0.0, 0.5)]
    whole, dropped = (stage_loss(MODEL, stage, STREAM, drawn(5)) for stage in stages)
    assert not torch.isclose(whole, dropped)


def test_gradients_reach_the_heads_that_are_asked_for_and_no_other():
    model = copy.deepcopy(MODEL).requires_grad_(True)
    echo_loss(model, drawn().integers(0, ORDINARY, (3, 11)), 1).backward()
    gradient = model.blocks[0].attn.query.weight.grad
    assert gradient[:WIDTH].abs().max() > 0
    assert (gradient[WIDTH:] == 0).all()
    assert model.blocks[1].attn.query.weight.grad is None
