"""Every page in every state that a reader can bring it to, without a browser."""

import re
import shutil

import numpy as np
import pytest
import streamlit as st
from scipy.special import softmax
from scipy.stats import entropy
from streamlit.testing.v1 import AppTest

import viz_model as vm
from pages.heads.head_values import DRAWN
from tests.support.app import PROMPTS, address_of, at, ids, opened, panels_blob
from tests.support.blobs import received
from tests.support.transformers_tiny_gpt import attentions, queries_keys_values
from viz_ui.components.shared.packing import unpack
from viz_ui.frame.examples import EXAMPLES

PAGES = ("heads", "inside_a_head")


def app(page: str = "heads", **address: str) -> AppTest:
    return opened(page, **address)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("prompt", [*PROMPTS.values(), *EXAMPLES.values()], ids=[*PROMPTS, *EXAMPLES])
def test_any_prompt_is_drawn(page, prompt):
    test = app(page, **at(prompt=prompt))
    assert not test.info, [info.value for info in test.info]
    length = len(ids(prompt))
    assert f"{length:,} of 256 tokens" in [caption.value for caption in test.sidebar.caption]
    assert all(len(labels) in (length, 32) for labels in unpack(panels_blob(test))[0]["labels"])


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    ("prompt", "sentence"),
    [("", "The prompt is empty"), ("word " * 300, "reads at most 256")],
    ids=["empty", "over the context length"],
)
def test_a_prompt_that_cannot_be_traced_gets_a_sentence(page, prompt, sentence):
    test = app(page, **at(prompt=prompt))
    [info] = test.info
    assert sentence in info.value
    assert not test.main.get("bidi_component")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    "address",
    [
        {"model": "no-such-model"},
        {"layer": "99", "head": "-3"},
        {"layer": "x", "head": "1.5", "query": "NaN", "key": "∞"},
        {"query": "4000000000000000000000", "key": "1e999"},
        {"mask": "triangular", "drawn": "colours", "colours": "none"},
        {"unknown": "1", "": "2"},
        {"prompt": "\x00"},
    ],
    ids=repr,
)
def test_nonsense_in_the_address_is_passed_over(page, address):
    test = app(page, **(at(prompt="Once upon a time") | address))
    assert test.title[0].value
    assert test.main.get("bidi_component") or test.info


@pytest.mark.parametrize("model", ["tiny-gpt", "tiny-seq2seq", "induction"])
def test_an_address_with_a_model_alone_begins_with_an_example_of_it(model):
    test = app(model=model, layer=1)
    first = test.text_area(key="prompt").value
    assert first == next(iter((vm.load(model).examples or EXAMPLES).values()))
    assert address_of(test)["prompt"] == first
    assert test.number_input(key="layer").value == 1
    assert test.main.get("bidi_component")


def test_an_address_opens_exactly_that_view():
    test = app(**at(prompt="The cat sat", layer=2, head=5, query=1, key=0, mask="bidirectional", drawn="raw scores"))
    assert (test.number_input(key="layer").value, test.number_input(key="head").value) == (2, 5)
    assert (test.number_input(key="query").value, test.number_input(key="key").value) == (1, 0)
    assert test.text_area(key="prompt").value == "The cat sat"
    assert test.button_group(key="mask").value == "bidirectional"
    assert test.button_group(key="drawn").value == "raw scores"


def test_a_first_visit_is_alive_and_its_address_whole():
    test = app()
    assert not test.info
    assert set(address_of(test)) == {"model", "prompt", "head", "cell"}


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
def test_everything_that_can_be_drawn(name, mask):
    prompt, layer, head = "A cat sat on a mat.", 1, 3
    drawn, allowed = received(panels_blob(app(**at(prompt=prompt, drawn=name, mask=mask, layer=layer, head=head))))[
        name
    ]
    q, k, v = queries_keys_values(ids(prompt), layer, head, mask)
    permitted = np.tri(len(q), dtype=bool) if mask == "causal" else np.ones((len(q), len(q)), bool)
    scores = q @ k.T / np.sqrt(q.shape[1])
    weights = softmax(np.where(permitted, scores, -np.inf), axis=-1)
    expected = {
        "raw scores": q @ k.T,
        "scaled scores": scores,
        "scores + mask": np.where(permitted, scores, 0),
        "weights": weights,
        "value-weighted": weights * np.linalg.norm(v, axis=1),
    }[name]
    np.testing.assert_allclose(drawn, expected, atol=2e-4, rtol=1e-4)
    if DRAWN[name].masked:
        np.testing.assert_array_equal(np.ones_like(permitted) if allowed is None else allowed, permitted)
    else:
        assert allowed is None


def test_inside_a_head_is_the_head_of_another_implementation():
    prompt, layer, head = "The queen gave the girl a ring.", 2, 5
    matrices = received(panels_blob(app("inside_a_head", **at(prompt=prompt, layer=layer, head=head))))
    q, k, v = queries_keys_values(ids(prompt), layer, head)
    weights = attentions(ids(prompt))[layer, head]
    expected = {"q": q, "k": k, "v": v, "raw": q @ k.T, "scores": q @ k.T / np.sqrt(32), "weights": weights}
    for name, values in (expected | {"mixed": weights @ v}).items():
        np.testing.assert_allclose(matrices[name][0], values, atol=2e-4, rtol=1e-4, err_msg=name)


def shown_weight(table: str) -> float:
    """The number at the end of the step "divided by the row's sum", as LaTeX: 0.25, or 1.5 \\times 10^{-7}."""
    [line] = [line for line in table.splitlines() if "divided by the row's sum" in line]
    mantissa, power = re.search(r"= ([\d.]+)(?: \\times 10\^\{(-?\d+)\})?\$", line).groups()
    return float(mantissa) * 10.0 ** int(power or 0)


@pytest.mark.parametrize("page", PAGES)
def test_the_arithmetic_ends_in_the_weight_of_another_implementation(page):
    prompt, layer, head, i, j = "The queen gave the girl a ring, and she thanked her.", 2, 5, 9, 4
    test = app(page, **at(prompt=prompt, layer=layer, head=head, query=i, key=j))
    weight = attentions(ids(prompt))[layer, head, i, j]
    [table] = [markdown.value for markdown in test.markdown if "divided by the row's sum" in markdown.value]
    assert shown_weight(table) == pytest.approx(weight, rel=1e-3)


def test_the_table_of_heads_against_numpy():
    prompt = "The queen gave the girl a ring."
    table = app(**at(prompt=prompt)).dataframe[0].value
    weights = attentions(ids(prompt))
    for row in table.to_dict("records"):
        a = weights[int(row["layer"]), int(row["head"])]
        assert row["entropy"] == pytest.approx(entropy(a, base=2, axis=1).mean(), abs=1e-4)
        assert row["first"] == pytest.approx(a[:, 0].mean(), abs=1e-5)
        assert row["itself"] == pytest.approx(np.diagonal(a).mean(), abs=1e-5)
        assert row["previous"] == pytest.approx(np.diagonal(a, -1).mean(), abs=1e-5)


def test_a_shorter_prompt_brings_the_query_back_into_it():
    test = app(**at(prompt="one two three four five six", query=5, key=4))
    test.text_area(key="prompt").set_value("one two").run()
    assert not test.exception
    assert test.number_input(key="query").value == len(ids("one two")) - 1


def test_it_is_said_of_a_mask_that_the_model_was_not_trained_with_it():
    test = app(**at(prompt="one two three", mask="bidirectional"))
    assert any("not with this one" in caption.value for caption in test.sidebar.caption)


@pytest.mark.parametrize("damage", ["no folder", "no weights", "truncated weights", "no tokenizer", "broken config"])
def test_a_damaged_checkpoint_is_explained(monkeypatch, tmp_path, damage):
    if damage != "no folder":
        shutil.copytree(vm.checkpoints.FOLDER / "tiny-gpt", tmp_path / "tiny-gpt")
    weights = tmp_path / "tiny-gpt" / "model.safetensors"
    if damage == "no weights":
        weights.unlink()
    elif damage == "truncated weights":
        weights.write_bytes(weights.read_bytes()[:100_000])
    elif damage == "no tokenizer":
        (tmp_path / "tiny-gpt" / "tokenizer.tiktoken").unlink()
    elif damage == "broken config":
        (tmp_path / "tiny-gpt" / "config.json").write_text("{")
    monkeypatch.setattr(vm.checkpoints, "FOLDER", tmp_path)
    st.cache_resource.clear()
    [info] = app().info
    st.cache_resource.clear()
    named = {"no folder": "tiny-gpt", "no tokenizer": "tokenizer", "broken config": "config.json"}
    assert named.get(damage, "model.safetensors") in info.value
    assert "Restore" in info.value or "folder" in info.value
