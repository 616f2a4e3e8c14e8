"""The figures of a model of text against loops over tokens, and on attention made by hand."""

import json

import numpy as np
import pytest
import torch

from tests.support.small_models import small_model
from tests.support.small_tokenizers import small_tokenizer, story
from viz_model.checkpoints import HEADS_FILE, load, save
from viz_model.errors import TrainingError
from viz_model.heads.measures import induction_share, previous_token_share
from viz_model.model import Model
from viz_model.training.data import split_books
from viz_model.training.figures import __main__ as command
from viz_model.training.figures import repeats
from viz_model.training.figures import text as figures
from viz_model.training.figures.report import HELD_OUT_FILE

TOKENIZER = small_tokenizer()
BOOKS = ["the king had a castle.\n" * 3, "the", "", "naïve 日本 " * 9]


def model(context_length=96, **changes):
    changes |= {"vocab_size": TOKENIZER.vocab_size, "context_length": context_length}
    return Model("small", small_model(**changes), TOKENIZER)


def surprises(host, book):
    """−log p of each token of a book after the control token, one pass for each token."""
    window = host.config.context_length
    ids, found = [TOKENIZER.end_of_text, *TOKENIZER.encode(book)], []
    first_end = min(window, len(ids) - 1)
    half = (window + 1) // 2
    for target in range(1, len(ids)):
        # Windows begin at 0, half, 2·half …; a token is predicted in the first that reaches it.
        start = 0 if target <= first_end else -(-(target - window) // half) * half
        logits = host.transformer(torch.tensor([ids[start:target]]))[0].double()
        found.append(float(logits.logsumexp(-1) - logits[ids[target]]))
    return found


@pytest.mark.parametrize("context_length", [8, 9, 24, 31, 96])
def test_text_loss_counts_every_token_once(context_length):
    host = model(context_length)
    each = [value for book in BOOKS for value in surprises(host, book)]
    assert len(each) == sum(len(TOKENIZER.encode(book)) for book in BOOKS)
    assert figures.text_loss(host, BOOKS) == pytest.approx(np.mean(each), rel=1e-4)


def test_a_model_that_knows_nothing_has_the_loss_of_chance():
    host = model()
    host.transformer.state_dict()["final_norm.weight"][:] = 0
    host.transformer.state_dict()["final_norm.bias"][:] = 0
    chance = np.log(TOKENIZER.vocab_size)
    assert figures.text_loss(host, BOOKS) == pytest.approx(chance, rel=1e-5)
    copied = figures.copying(host, [story()])
    assert copied.random.loss == copied.passages.loss == pytest.approx(chance, rel=1e-5)


def test_random_repeats_repeat_once_and_hold_no_control_token():
    ids = figures.random_repeats(261)
    half = ids.shape[1] // 2
    assert torch.equal(ids[:, :half], ids[:, half:])
    assert int(ids.max()) < 260
    assert torch.equal(ids, figures.random_repeats(261))
    assert len({tuple(row.tolist()) for row in ids}) == len(ids)


def test_repeated_passages_are_those_of_the_books():
    host = model()
    ids = figures.repeated_passages(host, BOOKS)
    assert torch.equal(ids, figures.repeated_passages(host, BOOKS))
    half = ids.shape[1] // 2
    assert torch.equal(ids[:, :half], ids[:, half:])
    whole = "".join(BOOKS)
    assert all(TOKENIZER.decode(row).strip("\N{REPLACEMENT CHARACTER}") in whole for row in ids[:, :half].tolist())
    assert len({tuple(row.tolist()) for row in ids}) > len(ids) // 4


def test_loss_of_repeats_and_their_right_guesses_are_those_of_a_loop(monkeypatch):
    monkeypatch.setattr(figures, "SEQUENCES", 3)
    monkeypatch.setattr(figures, "HALF", 6)
    host = model()
    copied = figures.copying(host, BOOKS)
    rows = {"random": figures.random_repeats(TOKENIZER.vocab_size), "passages": figures.repeated_passages(host, BOOKS)}
    for name, ids in rows.items():
        each, right = [], []
        for row in ids.tolist():
            for target in range(7, 12):  # of the second copy, 6 … 11, its first cannot be known
                logits = host.transformer(torch.tensor([row[:target]]))[0].double()
                each.append(float(logits.logsumexp(-1) - logits[row[target]]))
                right.append(int(logits.argmax()) == row[target])
        assert getattr(copied, name).loss == pytest.approx(np.mean(each), rel=1e-4)
        assert getattr(copied, name).right == pytest.approx(np.mean(right))


def test_the_share_of_the_example_is_that_of_the_word_which_comes_again(monkeypatch):
    monkeypatch.setattr(figures, "EXAMPLE", ("the the", " "))
    host = model()
    logits = host.transformer(torch.tensor([TOKENIZER.encode("the the")]))[0].double()
    assert figures.example_share(host) == pytest.approx(logits.softmax(-1)[ord(" ")].item(), rel=1e-5)


def test_figures_of_heads_are_means_over_all_rows(monkeypatch):
    monkeypatch.setattr(figures, "SEQUENCES", 4)
    monkeypatch.setattr(figures, "HALF", 6)
    host = model(context_length=16)
    found = figures.head_figures(host, BOOKS)
    assert {name: tuple(table.shape) for name, table in found.items()} == dict.fromkeys(figures.HEAD_FIGURES, (2, 4))
    ids = [token for book in BOOKS for token in TOKENIZER.encode(book)]
    text = [ids[start : start + 16] for start in range(0, 64, 16)]
    random = figures.random_repeats(TOKENIZER.vocab_size).tolist()
    passages = figures.repeated_passages(host, BOOKS).tolist()
    for layer, head in np.ndindex(2, 4):
        on_text = [host.trace(row).weights(layer, head) for row in text]
        on_random = [host.trace(row).weights(layer, head) for row in random]
        previous = {
            name: np.mean([float(a[i, i - 1]) for a in rows for i in range(1, len(a))])
            for name, rows in (("previous_text", on_text), ("previous_random", on_random))
        }
        on_passages = [host.trace(row).weights(layer, head) for row in passages]
        induction = {
            name: np.mean([float(a[i, i - 6 + 1]) for a in rows for i in range(6, 12)])
            for name, rows in (("induction", on_random), ("induction_text", on_passages))
        }
        for name, expected in {**previous, **induction}.items():
            assert float(found[name][layer, head]) == pytest.approx(expected, abs=1e-5)


def test_attention_made_by_hand_has_the_figures_it_should(monkeypatch):
    """Layer 0: head 0 looks at the token before, head 1 at itself; layer 1: head 0 is an induction head."""
    half, length = figures.HALF, 2 * figures.HALF

    def looking_at(*places):
        weights = torch.zeros(length, length)
        weights[torch.arange(length), torch.tensor(places).clamp(min=0)] = 1
        return weights

    before, itself = looking_at(*range(-1, length - 1)), looking_at(*range(length))
    induction = looking_at(*(i - half + 1 if i >= half else 0 for i in range(length)))
    by_hand = torch.stack((torch.stack((before, itself)), torch.stack((induction, itself))))  # (L,H,T,T)
    shares = repeats.Repeats(
        loss=0.0, right=1.0, previous=previous_token_share(by_hand), induction=induction_share(by_hand, half)
    )
    monkeypatch.setattr(figures, "measure_repeats", lambda transformer, ids: shares)
    monkeypatch.setattr(figures, "all_weights", lambda host, ids: by_hand[:, None].expand(-1, len(ids), -1, -1, -1))
    found = figures.head_figures(model(context_length=length), [story()])
    torch.testing.assert_close(found["previous_text"], found["previous_random"])
    assert found["induction_text"].tolist() == found["induction"].tolist()
    assert found["previous_text"][:, 1].tolist() == [0, 0]
    assert found["previous_text"][0, 0] == 1
    np.testing.assert_allclose(found["induction"], [[0, 0], [1, 0]])


def test_too_short_a_text_is_refused():
    with pytest.raises(TrainingError, match="held-out text has 1 tokens, but one row needs 96"):
        figures.head_figures(model(), ["the"])


def test_a_continued_story_begins_with_the_prompt():
    story = figures.continued(model(), "the", max_new_tokens=5)
    assert story.startswith("the")
    assert story == figures.continued(model(), "the", max_new_tokens=5)


def test_the_command_prints_and_writes_what_it_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, "EXAMPLE", ("the the", " "))
    monkeypatch.setattr(figures, "STORY", "the")
    monkeypatch.setattr(figures.continued, "__defaults__", ("the",))
    save(tmp_path, small_model(vocab_size=TOKENIZER.vocab_size, context_length=96), TOKENIZER)
    ends = split_books(story())[1]
    (tmp_path / HELD_OUT_FILE).write_text("\n\n".join(ends) + "\n", "utf-8")
    (tmp_path / "whole.txt").write_text(story(), "utf-8")
    printed = []
    for more in ([], ["--text", str(tmp_path / "whole.txt")], ["--write"]):
        monkeypatch.setattr("sys.argv", ["figures", str(tmp_path), *more])
        command.main()
        printed.append(capsys.readouterr().out)
        assert (tmp_path / HEADS_FILE).exists() == ("--write" in more)
    assert printed[0] == printed[1] == printed[2]  # the excerpt is the whole of this small text's ends
    host = load(tmp_path)
    assert f"held-out loss             {figures.text_loss(host, ends):.3f}" in printed[0]
    copied = figures.copying(host, ends)
    assert f"random tokens, once more  {copied.random.right:.1%} right, {copied.random.loss:.3f} nats" in printed[0]
    assert f"held-out text, once more  {copied.passages.right:.1%} right, {copied.passages.loss:.3f} nats" in printed[0]
    assert f"{figures.example_share(host):.2f}" in printed[0]
    measured = figures.head_figures(host, ends)
    assert host.measured_heads.keys() == measured.keys()
    for name, table in measured.items():
        np.testing.assert_allclose(host.measured_heads[name], table, atol=1e-4)
        assert json.dumps(host.measured_heads)
