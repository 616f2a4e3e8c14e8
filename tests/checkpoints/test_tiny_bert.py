"""The bundled twin of tiny-gpt keeps what its README says, measured on the committed weights."""

import json
import re
from functools import cache

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import viz_model as vm
from tests.support.transformers_tiny_gpt import FOLDER as GPT
from viz_model.layouts.blanks import blank_bits
from viz_model.layouts.depth import next_token_bits
from viz_model.model.tokenizer import FILE_NAME as TOKENIZER_FILE
from viz_model.training.figures.masked import both_sides, head_figures, masked_figures
from viz_model.training.figures.report import books_of
from viz_model.training.figures.text import SOME
from viz_ui.frame.examples import EXAMPLES

FOLDER = GPT.parent / "tiny-bert"
LEAST_GAP = 0.7  # nats


BOOKS = books_of(FOLDER, None)
README = (FOLDER / "README.md").read_text()
SENTENCES = [re.findall(r"[A-Z][^.!?\"\n]{60,120}\.", book)[0] for book in BOOKS[::3][:10]]


@cache
def of_some_books():
    return masked_figures(vm.load("tiny-bert"), BOOKS[SOME])


def test_it_beats_the_unigram_by_far():
    found = of_some_books()
    assert found.loss < 0.5 * found.unigram_loss
    assert found.accuracy > 5 * found.unigram_accuracy


def test_the_loss_of_some_books_is_what_the_readme_tells():
    assert f"{of_some_books().loss:.2f} on every eighth of the books" in README


@pytest.mark.slow
def test_the_readme_tells_the_measured_loss():
    found = masked_figures(vm.load("tiny-bert"), BOOKS)
    assert found.loss <= 3.0
    assert f"{found.count:,} hidden tokens" in README
    assert f"| {found.loss:.2f} | {found.unigram_loss:.2f} |" in README
    assert f"| {100 * found.accuracy:.1f} % | {100 * found.unigram_accuracy:.1f} % |" in README


def test_the_readme_tells_what_was_measured_of_its_heads():
    written = json.loads((FOLDER / "heads.json").read_text())
    for name, table in head_figures(vm.load("tiny-bert"), BOOKS).items():
        values = table.numpy()
        np.testing.assert_allclose(written[name], values, atol=2e-3)
        layer, head = np.unravel_index(values.argmax(), values.shape)
        assert re.search(rf"{name}[^\n]*{values.max():.2f}[^\n]*layer {layer}, head {head}", README), name


@pytest.mark.slow
def test_who_sees_both_sides_of_a_token_names_it_better_than_who_sees_what_is_before_it():
    found = both_sides(vm.load("tiny-bert"), vm.load("tiny-gpt"), BOOKS)
    assert found.left_loss - found.loss >= LEAST_GAP
    assert found.ahead > 0.5
    told = f"| loss, nats a token | {found.loss:.2f} | {found.left_loss:.2f} |"
    assert told in README
    assert f"ahead at {100 * found.ahead:.0f} %" in README


def ahead(text):
    """At which tokens after the first one that is hidden is named better than it is guessed from what is before it."""
    bert, gpt = vm.load("tiny-bert"), vm.load("tiny-gpt").trace(text)
    bits = np.concatenate(list(blank_bits(bert, gpt.ids, range(gpt.length))))
    return bits[1:] < next_token_bits(gpt).numpy()


def test_it_is_ahead_at_most_words_of_what_the_page_shows_first():
    assert ahead(EXAMPLES["A story begins"]).mean() > 0.5


def test_it_is_ahead_at_most_words_of_ten_held_out_sentences():
    assert len(SENTENCES) == 10
    assert np.concatenate([ahead(sentence) for sentence in SENTENCES]).mean() > 0.5


def test_only_mask_and_objective_differ_from_its_twin():
    """Fields of the config, names and shapes of the weights, and tokens: the same but for the row of the mask token."""
    ours, theirs = (json.loads((folder / "config.json").read_text()) for folder in (FOLDER, GPT))
    assert {name for name in ours if ours[name] != theirs.get(name, ours[name])} == {"layout", "vocab_size"}
    assert ours["vocab_size"] == theirs["vocab_size"] + 1
    assert (FOLDER / TOKENIZER_FILE).read_text() == (GPT / TOKENIZER_FILE).read_text()
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (FOLDER, GPT))
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name].shape != theirs[name].shape] == ["tokens.weight"]


def test_attention_is_torchs_with_nothing_masked():
    """One layer of it by torch.nn.MultiheadAttention with the same weights: every head's weights."""
    model = vm.load("tiny-bert")
    trace = model.trace("Once upon a time there was a king")
    with vm.capture("blocks.2.norm1") as found:
        model.trace("Once upon a time there was a king")
    ours, config = model.transformer.blocks[2].attn, model.config
    theirs = torch.nn.MultiheadAttention(config.d_model, config.n_heads, batch_first=True)
    parts = (ours.query, ours.key, ours.value)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        x = found["blocks.2.norm1"].clone()
        _, weights = theirs.eval()(x, x, x, average_attn_weights=False)
    for head in range(config.n_heads):
        torch.testing.assert_close(trace.weights(2, head), weights[0, head], atol=1e-5, rtol=1e-4)
