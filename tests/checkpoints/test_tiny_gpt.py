"""The bundled checkpoint keeps what its README says, measured on the committed weights."""

import re

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import viz_model as vm
from tests.support.transformers_tiny_gpt import FOLDER, attentions, gpt2
from viz_model.training.figures.repeats import measure_repeats
from viz_model.training.figures.report import books_of
from viz_model.training.figures.text import HALF, continued, random_repeats, text_loss


def test_a_story_is_continued_in_words_of_the_language():
    """At least nine of ten words of the continuation are words of other held-out text, and it is not one word."""
    known = set(re.findall(r"[a-z]+", (FOLDER / "held-out.txt").read_text().lower()))
    words = re.findall(r"[a-z]+", continued(vm.load("tiny-gpt")).lower())
    assert len(words) > 40
    assert sum(word in known for word in words) >= 0.9 * len(words)
    assert len(set(words)) > 0.4 * len(words)


def test_loss_and_induction_are_those_of_another_implementation():
    """The same weights in `transformers`: cross-entropy over one window, and one head's weights over one row."""
    model, ids = vm.load("tiny-gpt"), random_repeats(4353)[0].tolist()
    table = measure_repeats(model.transformer, random_repeats(4353)).induction.numpy()
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
