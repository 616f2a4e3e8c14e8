"""The text that ships for a model to read: whether it was kept out of its training, and that the model can read it."""

import pytest

import viz_model as vm
from tests.support.small_models import small_model
from viz_model.model import Model
from viz_model.training.dates import split_days
from viz_model.training.held_out import held_out_text


@pytest.mark.parametrize(
    ("name", "is_held_out"), [("tiny-gpt", True), ("tiny-bert", True), ("tiny-llama", True), ("induction", False)]
)
def test_the_tales_and_whether_they_were_kept_out_of_training(name, is_held_out):
    model = vm.load(name)
    text, held_out = held_out_text(model, name)
    assert held_out == is_held_out
    assert len(model.ids(text[:2000])) > 100
    assert len(text) > 500_000


def test_dates_are_of_days_that_training_has_in_no_form():
    text, held_out = held_out_text(vm.load("tiny-seq2seq"), "tiny-seq2seq")
    targets = [line.split("\t")[1] for line in text.split("\n")]
    assert held_out
    assert len(targets) == len(set(targets)) > 1000
    assert not {day.isoformat() for day in split_days()[0]} & set(targets)


def test_another_encoder_decoder_reads_sentences_and_writes_what_follows():
    model = vm.load("tiny-seq2seq")
    text, held_out = held_out_text(model, "another one")
    assert not held_out
    assert "\t" not in text
    assert all(0 < len(line) <= 202 for line in text.split("\n"))


def test_a_model_without_a_tokenizer_reads_no_text():
    with pytest.raises(vm.VizError, match="has no tokenizer"):
        held_out_text(Model("small", small_model()), "small")
