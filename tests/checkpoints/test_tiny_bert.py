"""The bundled twin of tiny-gpt keeps what its README says, measured on the committed weights."""

import json
import re
from functools import cache

import numpy as np
import torch
from safetensors.torch import load_file

import viz_model as vm
from tests.support.transformers_tiny_gpt import FOLDER as GPT
from viz_model.model.tokenizer import FILE_NAME as TOKENIZER_FILE
from viz_model.training.figures.masked import head_figures, masked_figures
from viz_model.training.figures.report import books_of

FOLDER = GPT.parent / "tiny-bert"


@cache
def measured():
    return masked_figures(vm.load("tiny-bert"), books_of(FOLDER, None))


def test_it_beats_the_unigram_by_far():
    found = measured()
    assert found.loss < 0.6 * found.unigram_loss
    assert found.accuracy > 5 * found.unigram_accuracy


def test_the_readme_tells_the_measured_figures():
    text, found = (FOLDER / "README.md").read_text(), measured()
    assert f"{found.count:,} hidden tokens" in text
    assert f"| {found.loss:.2f} | {found.unigram_loss:.2f} |" in text
    assert f"| {100 * found.accuracy:.1f} % | {100 * found.unigram_accuracy:.1f} % |" in text
    written = json.loads((FOLDER / "heads.json").read_text())
    for name, table in head_figures(vm.load("tiny-bert"), books_of(FOLDER, None)).items():
        np.testing.assert_allclose(written[name], table, atol=2e-3)
        layer, head = np.unravel_index(np.argmax(table), np.shape(table))
        assert re.search(rf"{name}[^\n]*{np.max(table.numpy()):.2f}[^\n]*layer {layer}, head {head}", text), name


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
