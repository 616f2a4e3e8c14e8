"""The bundled checkpoint keeps what its README says, measured on the committed weights."""

import json
import re
from functools import cache

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import viz_model as vm
from tests.support.transformers_tiny_gpt import FOLDER, attentions, gpt2
from viz_model.training.figures.report import books_of
from viz_model.training.figures.text import HALF, figures, random_repeats, text_loss


@cache
def measured():
    return figures(vm.load("tiny-gpt"), books_of(FOLDER, None))


def test_held_out_loss_is_low_enough():
    assert measured()["held_out_loss"] <= 3.6


@pytest.mark.parametrize("what", ["previous_text", "previous_random", "induction"])
def test_the_copying_circuit_is_there(what):
    assert np.max(measured()["heads"][what]) >= 0.5


def test_the_second_copy_of_random_tokens_is_known():
    assert measured()["random_repeat_loss"] < 0.5 * np.log(4352)


def test_a_story_is_continued_in_words_of_the_language():
    """At least nine of ten words of the continuation are words of other held-out text, and it is not one word."""
    known = set(re.findall(r"[a-z]+", (FOLDER / "held-out.txt").read_text().lower()))
    words = re.findall(r"[a-z]+", measured()["story"].lower())
    assert len(words) > 40
    assert sum(word in known for word in words) >= 0.9 * len(words)
    assert len(set(words)) > 0.4 * len(words)


def test_the_heads_file_holds_what_is_measured():
    written = json.loads((FOLDER / "heads.json").read_text())
    for name, table in measured()["heads"].items():
        np.testing.assert_allclose(written[name], table, atol=2e-3)


def test_the_readme_tells_the_measured_figures():
    text = (FOLDER / "README.md").read_text()
    figure = measured()
    assert f"{figure['held_out_loss']:.2f} nats" in text
    for name, table in figure["heads"].items():
        layer, head = np.unravel_index(np.argmax(table), np.shape(table))
        assert re.search(rf"{name}[^\n]*{np.max(table):.2f}[^\n]*layer {layer}, head {head}", text), name


def test_loss_and_induction_are_those_of_another_implementation():
    """The same weights in `transformers`: cross-entropy over one window, and one head's weights over one row."""
    model, ids = vm.load("tiny-gpt"), random_repeats(4353)[0].tolist()
    table = np.array(measured()["heads"]["induction"])
    layer, head = np.unravel_index(table.argmax(), table.shape)
    theirs = np.mean([attentions(ids)[layer, head, i, i - HALF + 1] for i in range(HALF, 2 * HALF)])
    ours = model.trace(ids).weights(layer, head)
    assert theirs == pytest.approx(np.mean([ours[i, i - HALF + 1].item() for i in range(HALF, 2 * HALF)]), abs=1e-4)

    book = books_of(FOLDER, None)[0][:600]
    window = torch.tensor([[model.tokenizer.end_of_text, *model.tokenizer.encode(book)]])
    assert window.shape[1] <= 256, "one window, so that both read the same"
    with torch.inference_mode():
        theirs = gpt2()(window, labels=window).loss.item()
    assert text_loss(model, [book]) == pytest.approx(theirs, abs=1e-3)


def test_the_file_is_float16_and_about_four_million_parameters():
    weights = load_file(FOLDER / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    assert 3.5e6 < sum(tensor.numel() for tensor in weights.values()) < 5e6


def test_the_tokenizer_has_4096_merged_tokens():
    assert vm.load("tiny-gpt").tokenizer.vocab_size == 256 + 4096 + 1
