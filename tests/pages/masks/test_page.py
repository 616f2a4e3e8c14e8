"""The page Masks in every state that a reader can bring it to, its numbers against torch and transformers."""

import dataclasses
import shutil

import numpy as np
import pytest
import streamlit as st
import torch
from scipy.special import log_softmax, softmax
from scipy.stats import entropy
from streamlit.testing.v1 import AppTest
from torch.nn import functional as F

import viz_model as vm
from tests.support.app import PROMPTS, at, drawn_matrices, ids, opened
from tests.support.blobs import opened_large
from tests.support.numbers import read_number
from tests.support.transformers_tiny_gpt import gpt2, queries_keys_values
from viz_model.masking.drawn_mask import encode_mask

PROMPT, LAYER, HEAD, QUERY = "The queen gave the girl a ring, and she thanked her.", 2, 5, 9
T = len(ids(PROMPT))
TRIANGLE = np.tri(T, dtype=bool)
ROWS, COLUMNS = np.indices((T, T))
DRAWN = TRIANGLE ^ ((ROWS == 4) & np.isin(COLUMNS, [1, 8]))

CHOICES = {
    "causal": ({"mask_b": "causal"}, TRIANGLE),
    "bidirectional": ({"mask_b": "bidirectional"}, np.ones((T, T), bool)),
    "sliding window": ({"mask_b": "sliding window", "width_b": 2}, TRIANGLE & (ROWS - COLUMNS < 2)),
    "prefix": ({"mask_b": "prefix", "prefix_b": 5}, TRIANGLE | (COLUMNS < 5)),
    "padding": ({"mask_b": "padding", "padding_b": "0-1, 6"}, TRIANGLE & ~np.isin(COLUMNS, [0, 1, 6])),
    "drawn by hand": ({"mask_b": "drawn by hand", "cells_b": encode_mask(DRAWN)}, DRAWN),
}


def app(**choices) -> AppTest:
    chosen = {"prompt": PROMPT, "layer": LAYER, "head": HEAD, "query": QUERY, "key": 4} | choices
    return opened("masks", **at(**chosen))


def words(test):
    return " ".join(markdown.value for markdown in test.main.markdown)


def sdpa_weights(allowed):
    """The weights as torch's own attention mixes a value that is the identity; rows that read nothing are 0."""
    q, k, _ = (torch.tensor(part) for part in queries_keys_values(ids(PROMPT), LAYER, HEAD, allowed))
    mixed = F.scaled_dot_product_attention(q, k, torch.eye(T, dtype=torch.float64), attn_mask=torch.tensor(allowed))
    return np.where(allowed.any(1, keepdims=True), mixed.numpy(), 0)


@pytest.mark.parametrize("kind", CHOICES)
def test_masks_weights_and_difference_against_torch(kind):
    choice, allowed = CHOICES[kind]
    test = app(mask_a="causal", **choice)
    matrices = drawn_matrices(test)
    for name, cells in (("A", TRIANGLE), ("B", allowed)):
        values, shown = matrices[f"weights {name}"]
        np.testing.assert_array_equal(shown, cells)
        np.testing.assert_allclose(values, sdpa_weights(cells), atol=2e-4)
        np.testing.assert_array_equal(matrices[f"mask {name}"][1], cells)
    difference, shown = matrices["difference"]
    np.testing.assert_array_equal(shown, TRIANGLE | allowed)
    np.testing.assert_allclose(difference, sdpa_weights(allowed) - sdpa_weights(TRIANGLE), atol=2e-4)


@pytest.mark.parametrize("kind", CHOICES)
def test_own_or_foreign_is_said_with_the_number_of_cells(kind):
    choice, allowed = CHOICES[kind]
    said = words(app(mask_a="causal", **choice))
    opened, closed = (allowed & ~TRIANGLE).sum(), (TRIANGLE & ~allowed).sum()
    assert ("not the training mask" in said) == bool(opened or closed)
    assert (f"opens **{opened}** cell" in said) == bool(opened)
    assert (f"closes **{closed}** cell" in said) == bool(closed)
    assert f"{allowed.sum()} of {T * T} cells are open" in said


def test_a_window_as_wide_as_the_prompt_is_the_models_own():
    said = words(app(mask_a="sliding window", width_a=T, mask_b="causal"))
    assert "not the training mask" not in said
    assert "The open cells are the same as in the causal mask" in said


def test_the_next_token_against_transformers_and_scipy():
    choice, allowed = CHOICES["drawn by hand"]
    table = app(mask_a="causal", **choice).dataframe[0].value
    logits = []
    for cells in (TRIANGLE, allowed):
        added = torch.zeros(1, 1, T, T).masked_fill(~torch.tensor(cells), torch.finfo(torch.float32).min)
        with torch.inference_mode():
            logits.append(gpt2()(torch.tensor([ids(PROMPT)]), attention_mask=added).logits[0, QUERY].double().numpy())
    first, second = (softmax(row) for row in logits)
    assert sorted(table["mask A"])[-10:] == pytest.approx(sorted(first)[-10:], abs=1e-5)
    assert sorted(table["mask B"])[-10:] == pytest.approx(sorted(second)[-10:], abs=1e-5)
    np.testing.assert_allclose(table["mask B − mask A"], table["mask B"] - table["mask A"], atol=1e-9)
    said = words(app(mask_a="causal", **choice))
    bits = entropy(first, np.exp(log_softmax(logits[1])), base=2)
    [shown] = [read_number(part.split(" bits")[0]) for part in said.split("KL(mask A‖mask B) = **")[1:]]
    assert shown == pytest.approx(bits, rel=2e-3)


def test_entropy_of_every_query_against_scipy():
    said = words(app(mask_a="causal", **CHOICES["padding"][0]))
    for name, allowed in (("A", TRIANGLE), ("B", CHOICES["padding"][1])):
        seeing = allowed.any(1)
        bits = entropy(sdpa_weights(allowed)[seeing], base=2, axis=1)
        shown = said.split(f"Under mask {name}, the mean entropy is **")[1].split(" bits")[0]
        assert float(shown) == pytest.approx(bits.mean(), rel=2e-3)


def test_a_fully_masked_row_is_called_so_and_has_no_entropy():
    test = app(mask_a="causal", mask_b="padding", padding_b="0-1", query=1)
    said = words(test)
    assert "Queries 0–1 may read no token" in said
    assert "and query 1 may read no token." in said
    values, allowed = drawn_matrices(test)["weights B"]
    assert not allowed[:2].any()
    assert not values[:2].any()


def test_a_prompt_all_masked_is_drawn():
    test = app(mask_b="drawn by hand", cells_b=encode_mask(np.zeros((T, T), bool)))
    assert f"Queries 0–{T - 1} may read no token" in words(test)
    assert "Under mask B, no query may read a token." in words(test)


def test_a_later_token_changes_nothing_before_it_only_under_the_causal_mask():
    test = app(changed=6, replacement=" king")
    said, matrices = words(test), drawn_matrices(test)
    assert "Nothing before position 6 changed: the largest difference there is **exactly 0**" in said
    assert "**All 6** positions before position 6 changed" in said
    assert not matrices["stream A"][0][:, :6].any()
    assert matrices["stream A"][0][1:, 6:].all()
    assert matrices["stream B"][0][1:].all()
    other = [*ids(PROMPT)[:6], *ids(" king"), *ids(PROMPT)[7:]]
    with torch.inference_mode():
        old, new = (gpt2()(torch.tensor([run]), output_attentions=True).attentions for run in (ids(PROMPT), other))
    expected = (new[LAYER] - old[LAYER])[0, HEAD].numpy()
    np.testing.assert_allclose(matrices["change A"][0], expected, atol=1e-4)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [(" king queen", "is 2 tokens"), ("·a", "is already ·a"), ("\x00\x01", "tokens")],
)
def test_a_replacement_that_is_none_is_explained(typed, sentence):
    assert ids(PROMPT)[5] == ids(" a")[0]
    test = app(changed=5, replacement=typed)
    assert any(sentence in info.value for info in test.info)
    assert "stream A" not in drawn_matrices(test)


def test_a_dot_is_a_space_as_in_the_labels():
    assert "·king" in words(app(changed=6, replacement="·king"))


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
@pytest.mark.parametrize("kind", ["bidirectional", "drawn by hand"])
def test_any_prompt_is_drawn(prompt, kind):
    test = app(prompt=prompt, mask_b=kind, query=0, key=0)
    assert drawn_matrices(test)["weights B"][0].shape == (len(ids(prompt)),) * 2


@pytest.mark.parametrize(
    "nonsense",
    [
        {"mask_a": "triangle", "mask_b": ""},
        {"mask_a": "sliding window", "width_a": "-4", "mask_b": "prefix", "prefix_b": "many"},
        {"mask_a": "sliding window", "width_a": "1e9", "mask_b": "prefix", "prefix_b": "∞"},
        {"mask_a": "padding", "padding_a": "seven", "mask_b": "padding", "padding_b": "0-99999"},
        {"mask_a": "drawn by hand", "cells_a": "<script>", "mask_b": "drawn by hand", "cells_b": "12.AAAA"},
        {"changed": "999", "replacement": "\x00"},
        {"changed": "x", "replacement": "word " * 100},
        {"changed": "inf", "replacement": "\u202e"},
        {"mask_a": "sliding window", "width_a": "inf", "mask_b": "prefix", "prefix_b": "inf"},
        {"mask_a": "sliding window", "width_a": "1e3", "mask_b": "prefix", "prefix_b": "-inf"},
    ],
    ids=repr,
)
def test_nonsense_in_the_address_is_passed_over(nonsense):
    test = app(**nonsense)
    assert drawn_matrices(test)["weights A"][0].shape == (T, T)
    if "padding_a" in nonsense:
        assert "is no position" in words(test).replace("\\", "")
    if "cells_a" in nonsense:
        assert words(test).count("The model\\'s own mask is used instead") == 2
    assert not any("\u202e" in info.value for info in test.info)


def test_a_drawing_for_another_prompt_is_fitted_and_said():
    test = app(prompt=PROMPT + " He", mask_b="drawn by hand", cells_b=encode_mask(DRAWN))
    longer = len(ids(PROMPT + " He"))
    expected = np.tri(longer, dtype=bool)
    expected[:T, :T] = DRAWN
    np.testing.assert_array_equal(drawn_matrices(test)["mask B"][1], expected)
    assert f"This mask was drawn for {T} tokens\\, but here there are {longer} tokens" in words(test)


def test_a_link_restores_everything():
    test = app(mask_a="prefix", prefix_a=4, mask_b="padding", padding_b="2", changed=3, replacement=" king")
    assert test.selectbox(key="mask_a").value == "prefix"
    assert test.number_input(key="prefix_a").value == 4
    assert test.text_input(key="padding_b").value == "2"
    assert test.number_input(key="changed").value == 3
    assert test.text_input(key="replacement").value == " king"


def test_the_sidebar_s_mask_changes_nothing_here():
    for position in (1, 3, 7):
        causal, other = (drawn_matrices(app(mask=mask, changed=position)) for mask in ("causal", "bidirectional"))
        assert "stream B" in causal
        for name in causal:
            np.testing.assert_array_equal(causal[name][0], other[name][0])


def test_a_code_with_white_space_around_it_is_read():
    test = app(mask_b="drawn by hand", cells_b=f" {encode_mask(DRAWN)} ")
    np.testing.assert_array_equal(drawn_matrices(test)["mask B"][1], DRAWN)


def test_after_another_model_the_address_means_what_is_on_the_screen(monkeypatch, tmp_path):
    """An encoder-only model beside the bundled one: its own mask is the other one."""
    shutil.copytree(vm.checkpoints.FOLDER / "tiny-gpt", tmp_path / "tiny-gpt")
    gpt = vm.load("tiny-gpt")
    reader = vm.Transformer(dataclasses.replace(gpt.config, layout="encoder-only"))
    vm.checkpoints.save(tmp_path / "reader", reader, gpt.tokenizer)
    monkeypatch.setattr(vm.checkpoints, "FOLDER", tmp_path)
    st.cache_resource.clear()
    test = app(mask_b="prefix", prefix_b=2)
    test.selectbox(key="model").select("reader").run()
    assert not test.exception
    assert (test.selectbox(key="mask_a").value, test.button_group(key="mask").value) == ("bidirectional",) * 2
    assert test.selectbox(key="mask_b").value == "prefix"  # what the reader chose stays
    test.selectbox(key="model").select("tiny-gpt").run()
    assert (test.selectbox(key="mask_a").value, test.button_group(key="mask").value) == ("causal",) * 2
    st.cache_resource.clear()


@pytest.mark.parametrize(
    ("panel", "title", "file_name"),
    [
        ("weights A", ", layer 2, head 5: weights A", "_layer2_head5_weights-A"),
        ("mask B", ": mask B, bidirectional", "_mask-B"),
        ("stream A", ": Change of the residual stream, mask A", "_stream-A"),
        ("change B", ", layer 2, head 5: change B", "_layer2_head5_change-B"),
    ],
)
def test_only_what_is_of_a_head_is_called_so_when_it_is_opened(panel, title, file_name):
    found = opened_large(app(mask_a="causal", mask_b="bidirectional"), panel)
    assert found == (f"tiny-gpt{title}", f"tiny-gpt{file_name}", ["NPZ of the whole head"])
