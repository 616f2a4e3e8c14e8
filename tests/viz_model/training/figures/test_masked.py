"""Figures of hidden tokens against loops over tokens, and a model that is sure of one token."""

from collections import Counter

import numpy as np
import pytest
import torch

from tests.support.small_models import small_model
from tests.support.small_tokenizers import ranks, story
from viz_model.checkpoints import HEADS_FILE, load, save
from viz_model.errors import TrainingError
from viz_model.model import Model
from viz_model.model.tokenizer import Tokenizer
from viz_model.training.data import IGNORED, hide, split_books
from viz_model.training.figures import __main__ as command
from viz_model.training.figures import masked
from viz_model.training.figures.report import HELD_OUT_FILE

TOKENIZER = Tokenizer(ranks(b"th", b"the", b" the", b" a"), with_mask=True)
BOOKS = split_books(story())[1]
LENGTH = 48


def model(**changes):
    changes |= {"vocab_size": TOKENIZER.vocab_size, "context_length": LENGTH, "layout": "encoder-only"}
    return Model("small", small_model(**changes), TOKENIZER)


def rows():
    ids = [token for book in BOOKS for token in (TOKENIZER.end_of_text, *TOKENIZER.encode(book))]
    return [ids[start : start + LENGTH] for start in range(0, len(ids) - LENGTH + 1, LENGTH)]


def test_loss_and_accuracy_are_those_of_a_loop_over_hidden_tokens():
    host, whole = model(), rows()
    hidden = hide(np.array(whole), TOKENIZER.mask, np.random.default_rng(masked.SEED))
    losses, right, asked = [], [], []
    for ids, targets in zip(hidden.ids, hidden.targets, strict=True):
        logits = host.transformer(torch.from_numpy(ids)[None], logits="all")[0].double().numpy()
        for place in np.flatnonzero(targets != IGNORED):
            row = logits[place]
            losses.append(np.log(np.exp(row - row.max()).sum()) + row.max() - row[targets[place]])
            right.append(row.argmax() == targets[place])
            asked.append(targets[place])
    counts = Counter(token for row in whole for token in row)
    found = masked.masked_figures(host, BOOKS)
    assert found.count == len(asked) > 100
    assert found.loss == pytest.approx(np.mean(losses), rel=1e-5)
    assert found.accuracy == pytest.approx(np.mean(right))
    assert found.unigram_loss == pytest.approx(np.mean([-np.log(counts[t] / counts.total()) for t in asked]))
    [(commonest, _)] = counts.most_common(1)
    assert found.unigram_accuracy == pytest.approx(np.mean([token == commonest for token in asked]))


def test_one_hidden_token_is_named_from_both_sides_and_guessed_from_the_left():
    """Against a pass of each text, whose one token in the middle is hidden, or which ends before it."""
    host = model()
    twin = Model("twin", small_model(vocab_size=TOKENIZER.vocab_size - 1, context_length=LENGTH), TOKENIZER)
    ids = [token for book in BOOKS for token in (TOKENIZER.end_of_text, *TOKENIZER.encode(book))]
    middle, seen, guessed = LENGTH // 2, [], []
    for n in range(12):
        start = int(n * (len(ids) - LENGTH) / 11)
        window = ids[start : start + LENGTH]
        blanked = [*window[:middle], TOKENIZER.mask, *window[middle + 1 :]]
        named = host.transformer(torch.tensor([blanked]), logits="all")[0, middle].double().log_softmax(-1)
        before = twin.transformer(torch.tensor([window[:middle]]))[0].double().log_softmax(-1)
        seen.append(-float(named[window[middle]]))
        guessed.append(-float(before[window[middle]]))
    found = masked.both_sides(host, twin, BOOKS, count=12)
    assert found.loss == pytest.approx(np.mean(seen), rel=1e-4)
    assert found.left_loss == pytest.approx(np.mean(guessed), rel=1e-4)
    assert found.ahead == pytest.approx(np.mean(np.array(seen) < np.array(guessed)))
    assert found.count == 12


def test_figures_of_heads_are_means_over_all_rows():
    host = model()
    found = masked.head_figures(host, BOOKS)
    for layer, head in np.ndindex(host.config.n_layers, host.config.n_heads):
        each = [host.trace(row).weights(layer, head) for row in rows()[: masked.SEQUENCES]]
        before = np.mean([float(a[i, i - 1]) for a in each for i in range(1, LENGTH)])
        after = np.mean([float(a[i, i + 1]) for a in each for i in range(LENGTH - 1)])
        assert float(found["previous_text"][layer, head]) == pytest.approx(before, abs=1e-5)
        assert float(found["next_text"][layer, head]) == pytest.approx(after, abs=1e-5)


def test_the_command_prints_and_writes_them(tmp_path, monkeypatch, capsys):
    save(tmp_path, model().transformer, TOKENIZER)
    (tmp_path / HELD_OUT_FILE).write_text("\n\n".join(BOOKS) + "\n", "utf-8")
    monkeypatch.setattr("sys.argv", ["figures", str(tmp_path), "--write"])
    command.main()
    host = load(tmp_path)
    assert host.tokenizer.mask == TOKENIZER.mask
    assert f"loss      {masked.masked_figures(host, BOOKS).loss:.3f} nats/token" in capsys.readouterr().out
    assert set(host.measured_heads) == {"previous_text", "next_text"}
    assert (tmp_path / HEADS_FILE).exists()


def test_what_cannot_be_measured_is_said():
    with pytest.raises(TrainingError, match="has no mask token"):
        masked.masked_figures(Model("small", small_model()), BOOKS)
    with pytest.raises(TrainingError, match="one row needs 48"):
        masked.masked_figures(model(), ["the"])
