"""The command `python -m viz_model.training`, end to end on a tiny recipe."""

import csv
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer as _needed  # noqa: F401 -- by the trainer of the tokenizer

from tests.support.small_models import small_config
from tests.support.small_tokenizers import story
from viz_model.checkpoints import CONFIG_FILE, WEIGHTS_FILE, load
from viz_model.errors import TrainingError
from viz_model.model.tokenizer import FILE_NAME as TOKENIZER_FILE
from viz_model.model.tokenizer import Tokenizer
from viz_model.training import __main__ as command
from viz_model.training.data import split_books
from viz_model.training.figures.report import HELD_OUT_FILE, books_of
from viz_model.training.loop import CURVE_FILE, STATE_FILE, Training
from viz_model.training.recipes import RECIPES, Recipe, Stage

CONFIG = small_config(vocab_size=280, context_length=32)
STORY = story()
RECIPE = Recipe(
    CONFIG,
    (
        Stage("echo", steps=2, rows=2, length=16),
        Stage("induction", steps=2, rows=2, length=16),
        Stage("copy", steps=2, rows=2, length=16),
        Stage("text", steps=4, rows=2, length=32, copy_rows=1),
    ),
)


@pytest.fixture
def train(tmp_path, monkeypatch):
    """`train(text, *options)` runs the command in this process; gives the folder."""
    monkeypatch.setitem(RECIPES, "tiny", RECIPE)
    monkeypatch.setattr("viz_model.training.objectives.ECHO_LENGTH", 16)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)

    def run(text=STORY, *options):
        path = tmp_path / "text.txt"
        if isinstance(text, bytes):
            path.write_bytes(text)
        elif text is not None:
            path.write_text(text, "utf-8")
        arguments = ["tiny", "--text", str(path), "--out", str(tmp_path / "out"), *options]
        monkeypatch.setattr("sys.argv", ["training", *arguments])
        command.main()
        return tmp_path / "out"

    return run


def test_it_writes_a_checkpoint_that_loads(train, capsys):
    folder = train()
    names = {path.name for path in folder.iterdir()}
    assert names == {CONFIG_FILE, WEIGHTS_FILE, TOKENIZER_FILE, HELD_OUT_FILE, "training"}
    assert {path.name for path in (folder / "training").iterdir()} == {STATE_FILE, CURVE_FILE}
    weights = load_file(folder / WEIGHTS_FILE)
    assert all(tensor.dtype == torch.float16 for tensor in weights.values())
    state = torch.load(folder / "training" / STATE_FILE, weights_only=True)
    assert all(torch.equal(weights[name], tensor.half()) for name, tensor in state["model"].items())
    model = load(folder)
    assert model.config == CONFIG
    assert model.trace("the king").logits.shape == (280,)
    with (folder / "training" / CURVE_FILE).open(newline="") as file:
        assert next(csv.reader(file)) == ["step", "objective", "loss"]
    ends = split_books(STORY)[1]
    assert [book.strip("\n") for book in books_of(folder, None)] == [end.strip("\n") for end in ends]
    printed = capsys.readouterr().out
    assert f"{sum(tensor.numel() for tensor in weights.values()):,} parameters" in printed
    assert "Starting at step 0" in printed
    assert "step 10/10  text  loss" in printed


def test_the_tokenizer_learns_from_the_training_part_alone(train):
    end = split_books(STORY)[1][-1]
    assert STORY.endswith(end)
    tokenizer = Tokenizer.load(train(STORY.removesuffix(end) + ("zq" * len(end))[: len(end)]))
    assert not any(b"zq" in tokenizer.token_bytes(token) for token in range(280))


def test_a_stop_and_the_same_command_again_go_on(train, monkeypatch, capsys, tmp_path):
    whole = load_file(train() / WEIGHTS_FILE)
    (tmp_path / "out").rename(tmp_path / "whole")
    run = Training.run

    def stopped(training, report, **options):
        def stop(progress):
            report(progress)
            if progress.step == 7:
                training.save()
                raise KeyboardInterrupt

        run(training, stop, every=1)

    capsys.readouterr()
    monkeypatch.setattr(Training, "run", stopped)
    folder = train()
    assert "Stopped. The same command goes on" in capsys.readouterr().out
    assert not (folder / WEIGHTS_FILE).exists()
    monkeypatch.setattr(Training, "run", run)
    train()
    assert "Going on at step 7" in capsys.readouterr().out
    resumed = load_file(folder / WEIGHTS_FILE)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_the_text_stage_can_be_shortened(train, capsys):
    train(STORY, "--text-steps", "1")
    assert "step 7/7" in capsys.readouterr().out


def test_a_text_without_blank_lines_works(train):
    text = STORY.replace("\n\n", "\n")
    folder = train(text)
    assert len(books_of(folder, None)) == 1
    assert load(folder).tokenizer.vocab_size == 280


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "asks for 280 tokens, but the tokenizer has 257. Give a longer text"),
        ("\n\n\n", "the tokenizer has 257. Give a longer text"),
        ("the king\n" * 3, "Give a longer text"),
        ("one paragraph only, all of it held out " * 200, "the tokenizer has 257. Give a longer text"),
        (b"caf\xe9\n" * 100, "text.txt cannot be read as UTF-8"),
        (None, "text.txt cannot be read"),
    ],
    ids=["empty", "newlines", "short", "one paragraph", "latin-1", "missing"],
)
def test_a_text_that_cannot_be_learned_from_is_said_so(train, text, words, tmp_path):
    with pytest.raises(TrainingError, match=words):
        train(text)
    assert not (tmp_path / "out").exists()


def test_a_short_text_with_a_tokenizer_already_there(train):
    folder = train()
    for path in (folder / "training").iterdir():
        path.unlink()
    with pytest.raises(TrainingError, match="tokens to train on, but one row needs 33"):
        train("the king\nhad\n")


def test_a_tokenizer_of_another_recipe_is_refused(train, monkeypatch):
    folder = train()
    other = Recipe(small_config(vocab_size=290, context_length=32), RECIPE.stages)
    monkeypatch.setitem(RECIPES, "tiny", other)
    with pytest.raises(TrainingError, match=r"290 tokens, but the tokenizer has 280\. Remove .*tiktoken"):
        train()
    assert Tokenizer.load(folder).vocab_size == 280


def test_a_finished_checkpoint_can_be_started_from(train, tmp_path, capsys):
    """With no steps of text the weights come back as they were; with some, only the text stage runs."""
    first = train()
    same, further = tmp_path / "same", tmp_path / "further"
    train(STORY, "--start", str(first), "--out", str(same), "--text-steps", "0")
    before, after = load_file(first / WEIGHTS_FILE), load_file(same / WEIGHTS_FILE)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    capsys.readouterr()
    train(STORY, "--start", str(first), "--out", str(further))
    assert "Starting at step 6" in capsys.readouterr().out
    assert not torch.equal(load_file(further / WEIGHTS_FILE)["tokens.weight"], before["tokens.weight"])
    assert (further / TOKENIZER_FILE).read_bytes() == (first / TOKENIZER_FILE).read_bytes()


def test_a_checkpoint_of_another_shape_is_no_start(train, tmp_path, monkeypatch):
    first = train()
    monkeypatch.setitem(
        RECIPES, "tiny", Recipe(small_config(vocab_size=280, context_length=32, n_layers=3), RECIPE.stages)
    )
    with pytest.raises(TrainingError, match="other sizes than the recipe"):
        train(STORY, "--start", str(first), "--out", str(tmp_path / "other"))


def test_a_recipe_that_makes_its_own_examples_needs_no_text_and_reads_bytes(tmp_path, monkeypatch, capsys):
    config = small_config(layout="encoder-decoder", vocab_size=257, context_length=64)
    monkeypatch.setitem(RECIPES, "dates", Recipe(config, (Stage("target", steps=2, rows=2, length=11),)))
    arguments = ["training", "dates", "--out", str(tmp_path / "dates"), "--threads", str(torch.get_num_threads())]
    monkeypatch.setattr("sys.argv", arguments)
    command.main()
    model = load(tmp_path / "dates")
    assert model.tokenizer.encode("3 May") == list(b"3 May")
    assert not (tmp_path / "dates" / HELD_OUT_FILE).exists()
    assert "training tokens" not in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", [*arguments, "--text", str(tmp_path / "text.txt")])
    with pytest.raises(TrainingError, match="Leave --text out"):
        command.main()
    monkeypatch.setattr("sys.argv", ["training", "tiny-gpt", "--out", str(tmp_path / "none")])
    with pytest.raises(TrainingError, match="Give one: --text FILE"):
        command.main()


def test_a_recipe_that_begins_with_another_model_takes_its_weights_and_tokens(train, tmp_path, monkeypatch):
    """The twin reads the same tokens and a mask token besides, and begins where the other ended."""
    first = train()
    text_of = (first / TOKENIZER_FILE).read_text()
    config = replace(CONFIG, layout="encoder-only", vocab_size=CONFIG.vocab_size + 1)
    still = Stage("masked", steps=1, rows=2, length=32, matrix_rate=0.0, rate=0.0)
    twin = Recipe(config, (still,), begins_with=str(first))
    monkeypatch.setitem(RECIPES, "tiny", twin)
    monkeypatch.setattr(
        "sys.argv", ["training", "tiny", "--text", str(tmp_path / "text.txt"), "--out", str(tmp_path / "twin")]
    )
    command.main()
    assert (tmp_path / "twin" / TOKENIZER_FILE).read_text() == text_of
    theirs, ours = (load_file(folder / WEIGHTS_FILE) for folder in (first, tmp_path / "twin"))
    assert theirs.keys() == ours.keys()
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name][: len(tensor)], tensor)
    assert load(tmp_path / "twin").tokenizer.mask == config.vocab_size - 1
