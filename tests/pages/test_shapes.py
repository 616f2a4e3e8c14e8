"""The page Shapes in every state that a reader can bring it to, its numbers against `transformers`."""

import re

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest
from transformers import GPT2Config, GPT2LMHeadModel

import viz_model as vm
from tests.bundled import gpt2
from tests.pages.test_pages import MAIN, at, ids, panels_blob
from tests.received import received
from viz_model.presets import PRESETS
from viz_model.shapes import all_nodes
from viz_ui.components.packing import unpack

PROMPT = "The queen gave the girl a ring, and she thanked her."
ANY = {"shapes": "a model of any size"}
LONG = "king " * 200


def shapes(**address) -> AppTest:
    test = AppTest.from_file(MAIN, default_timeout=60)
    for name, value in at(**({"prompt": PROMPT} | address)).items():
        test.query_params[name] = value
    test.run()
    test.switch_page("../pages/shapes.py").run()
    assert not test.exception, test.exception
    return test


def hidden(layer: int, what: str) -> np.ndarray:
    """An inner tensor of tiny-gpt by `transformers`."""
    block, seen = gpt2().transformer.h[layer], []
    part = {"ffn.hidden": block.mlp.act, "ffn.out": block.mlp.c_proj, "attn.out": block.attn.c_proj}[what]
    hook = part.register_forward_hook(lambda _module, _inputs, out: seen.append(out[0].numpy()))
    with torch.inference_mode():
        gpt2()(torch.tensor([ids(PROMPT)]))
    hook.remove()
    return seen[0]


@pytest.mark.parametrize("what", ["ffn.hidden", "ffn.out", "attn.out"])
def test_an_opened_tensor_is_that_of_another_implementation(what):
    test = shapes(prompt=PROMPT, layer=2, node=what)
    drawn, _ = received(panels_blob(test))[what]
    expected = hidden(2, what)
    np.testing.assert_allclose(drawn, expected[:, : drawn.shape[1]], atol=2e-4, rtol=1e-4)


def test_a_later_part_of_a_wide_tensor():
    test = shapes(prompt=PROMPT, layer=1, node="ffn.hidden", first_of_F=500)
    drawn, _ = received(panels_blob(test))["ffn.hidden"]
    np.testing.assert_allclose(drawn, hidden(1, "ffn.hidden")[:, 500:628], atol=2e-4, rtol=1e-4)
    assert any("128 of 1,024 columns" in caption.value for caption in test.caption)


def test_the_highest_logits_of_the_query():
    test = shapes(prompt=PROMPT, node="logits", query=4)
    blob = panels_blob(test)
    drawn, _ = received(blob)["logits"]
    with torch.inference_mode():
        logits = gpt2()(torch.tensor([ids(PROMPT)])).logits[0].numpy()
    order = np.argsort(-logits[4], kind="stable")[:128]
    np.testing.assert_allclose(drawn[4], logits[4][order], atol=2e-4, rtol=1e-4)
    header = unpack(blob)[0]
    [item] = header["items"]
    names = [int(label.split()[0]) for label in header["labels"][item["columns"]["labels"]]]
    np.testing.assert_allclose(logits[4][names], drawn[4], atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
@pytest.mark.parametrize("prompt", ["a", PROMPT, LONG], ids=["one token", "a sentence", "200 words"])
def test_every_tensor_opens(prompt, mask):
    test = shapes(prompt=prompt, layer=3, head=6, mask=mask)
    nodes = {node.local: node for node in all_nodes(vm.load("tiny-gpt").config, len(ids(prompt)), mask=mask)}
    assert set(test.selectbox(key="node").options) == set(nodes)  # of every block the same names
    for name, node in nodes.items():
        test.selectbox(key="node").set_value(name).run()
        assert not test.exception, (name, test.exception)
        assert test.code[0].value == node.line
        assert any(name in heading.value.replace("\\", "") for heading in test.subheader)


@pytest.mark.parametrize(
    "address",
    [
        {"node": "attn.nothing"},
        {"node": ""},
        {"shapes": "no model"},
        {"node": "logits", "columns": "lowest"},
        {"node": "ffn.hidden", "first_of_F": "99999"},
        ANY | {"preset": "GPT-5"},
        ANY | {"gpt-2-small_heads": "0", "gpt-2-small_length": "1000", "precision": "float8"},
    ],
    ids=repr,
)
def test_nonsense_in_the_address_is_passed_over(address):
    test = shapes(prompt=PROMPT, **address)
    assert test.title[0].value == "Shapes"
    assert test.get("bidi_component") or test.metric


def shown_number(test, label: str) -> int:
    [metric] = [metric for metric in test.metric if metric.label.startswith(label)]
    return int(metric.value.replace(",", ""))


@pytest.mark.parametrize("name", PRESETS)
def test_presets_show_the_published_number_or_say_what_is_missing(name):
    published = {"GPT-2 small": "124,439,808", "GPT-2 XL": "1,557,611,200", "BERT-base": "109,482,240"}
    published |= {"Llama-7B": "6,738,415,616"}
    test = shapes(**ANY, preset=name)
    [sentence] = [markdown.value for markdown in test.markdown if "published number" in markdown.value]
    assert published[name] in sentence
    counts = [int(number.replace(",", "")) for number in re.findall(r"\d{1,3}(?:,\d{3})+", sentence)]
    assert sum(counts[:-1]) == counts[-1] or counts == [shown_number(test, "Parameters")]
    assert counts[0] == shown_number(test, "Parameters")


def test_any_sizes_are_those_of_the_transformers_model():
    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config(n_layer=7, n_head=20, n_embd=1280))
    changes = {"width": 1280, "heads": 20, "layers": 7, "length": 512, "batch": 4}
    test = shapes(**ANY, preset="GPT-2 small", **{f"gpt-2-small_{name}": value for name, value in changes.items()})
    assert shown_number(test, "Parameters") == model.num_parameters()
    assert shown_number(test, "Score matrix") == 4 * 7 * 20 * 512**2
    assert any("C 768 → 1,280" in markdown.value for markdown in test.markdown)


@pytest.mark.parametrize(
    ("preset", "heads", "words"), [("GPT-2 small", 7, "H = 6 or 8"), ("Llama-7B", 31, "H = 16 or 32")]
)
def test_heads_that_do_not_divide_the_width_get_a_sentence(preset, heads, words):
    key = preset.lower().replace(" ", "-") + "_heads"
    test = shapes(**ANY, preset=preset, **{key: heads})
    [info] = test.info
    assert words in info.value
    assert not test.metric


def test_the_way_back_to_the_sizes_of_the_preset():
    test = shapes(**ANY, preset="GPT-2 small", **{"gpt-2-small_layers": 3})
    assert shown_number(test, "Parameters") < 124_439_808
    [button] = [button for button in test.button if button.label.startswith("Back")]
    button.click().run()
    assert not test.exception
    assert shown_number(test, "Parameters") == 124_439_808
    assert test.slider(key="gpt-2-small_layers").value == 12


def test_a_longer_prompt_than_the_learned_positions_is_said_to_cost_more():
    test = shapes(**ANY, preset="GPT-2 small", **{"gpt-2-small_length": 4096})
    assert shown_number(test, "Parameters") == 124_439_808 + (4096 - 1024) * 768
    assert any("1,024 learned positions" in markdown.value for markdown in test.markdown)
