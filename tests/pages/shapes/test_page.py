"""The page Shapes in every state that a reader can bring it to, its numbers against `transformers`."""

import base64
import json
import re

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

import viz_model as vm
from tests.support.app import at, ids, opened, panels_blob
from tests.support.blobs import opened_large, received
from tests.support.transformers_tiny_gpt import gpt2
from viz_model.shapes.contract import all_nodes
from viz_model.shapes.presets import PRESETS
from viz_ui.components.shared.packing import unpack

PROMPT = "The queen gave the girl a ring, and she thanked her."
ANY = {"shapes": "a model of any size"}
LONG = "king " * 200


def shapes(**address) -> AppTest:
    return opened("shapes", **at(**({"prompt": PROMPT} | address)))


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
    nodes = {node.local: node for node in all_nodes(vm.load("tiny-gpt").config, len(ids(prompt)), masks={"self": mask})}
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
    assert test.main.get("bidi_component") or test.metric


def shown_number(test, label: str) -> int:
    [metric] = [metric for metric in test.metric if metric.label.startswith(label)]
    return int(metric.value.replace(",", ""))


@pytest.mark.parametrize("name", PRESETS)
def test_presets_show_the_published_number_or_say_what_is_missing(name):
    published = {"GPT-2 small": "124,439,808", "GPT-2 XL": "1,557,611,200", "BERT-base": "109,482,240"}
    published |= {"Llama-7B": "6,738,415,616"}
    test = shapes(**ANY, preset=name)
    [sentence] = [markdown.value for markdown in test.markdown if "the released" in markdown.value]
    assert published[name] in sentence
    counts = [int(number.replace(",", "")) for number in re.findall(r"\d{1,3}(?:,\d{3})+", sentence)]
    assert sum(counts[:-1]) == counts[-1] or counts == [shown_number(test, "Parameters")]
    assert counts[0] == shown_number(test, "Parameters")


def published_sentence(test) -> str:
    [sentence] = [markdown.value for markdown in test.markdown if "the released" in markdown.value]
    return sentence


@pytest.mark.parametrize("length", [256, 512, 1024])
def test_at_any_length_bert_is_the_published_number_by_a_sum_that_is_right(length):
    with torch.device("meta"):
        model = BertModel(BertConfig(max_position_embeddings=max(512, length)))
        published = BertModel(BertConfig()).num_parameters()
    pooler = sum(parameter.numel() for parameter in model.pooler.parameters())
    kinds = model.embeddings.token_type_embeddings.weight.numel()
    test = shapes(**ANY, preset="BERT-base", **{"bert-base_length": length})
    assert shown_number(test, "Parameters") == model.num_parameters() - pooler - kinds
    terms = re.findall(r"([+−]?) ?\*{0,2}(\d{1,3}(?:,\d{3})+)", published_sentence(test))
    terms = [(sign, int(number.replace(",", ""))) for sign, number in terms]
    rows = max(0, length - 512) * 768
    expected = [("", shown_number(test, "Parameters")), ("+", kinds), ("+", pooler)]
    assert terms[:3] == expected
    assert ("−", rows) in terms or not rows
    assert expected[0][1] + kinds + pooler - rows == published
    assert f"= **{published:,}**" in published_sentence(test)


@pytest.mark.parametrize(
    ("changes", "words", "not_words"),
    [
        (
            {"length": 4096, "layers": 3},
            ["L 12 → 3", "T 1,024 → 4,096", "3,072 more position rows"],
            ["F grows", "C 768"],
        ),
        ({"length": 512, "layers": 3}, ["L 12 → 3."], ["F grows", "T 1,024", "position rows"]),
        ({"width": 1536}, ["C 768 → 1,536", "F 3,072 → 6,144", "F grows with C."], ["T 1,024", "L 12"]),
    ],
)
def test_every_change_that_moves_the_count_is_named_and_no_other(changes, words, not_words):
    test = shapes(**ANY, **{f"gpt-2-small_{name}": value for name, value in changes.items()})
    [sentence] = [markdown.value for markdown in test.markdown if markdown.value.startswith("Changed from")]
    for part in words:
        assert part in sentence
    for part in not_words:
        assert part not in sentence
    sizes = {"n_layer": changes.get("layers", 12), "n_embd": changes.get("width", 768)}
    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config(n_positions=max(1024, changes.get("length", 0)), **sizes))
    assert shown_number(test, "Parameters") == model.num_parameters()


def curves(test, chart: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The lines of a chart by name: x, y."""

    def numbers(packed) -> np.ndarray:
        if isinstance(packed, list):
            return np.array(packed)
        return np.frombuffer(base64.b64decode(packed["bdata"]), np.dtype(packed["dtype"]))

    spec = json.loads(test.get("plotly_chart")[chart].proto.spec)
    return {line["name"]: (numbers(line["x"]), numbers(line["y"])) for line in spec["data"]}


def test_curves_are_of_the_model_at_each_length():
    bert = shapes(**ANY, preset="BERT-base")
    lengths, parameters = curves(bert, 1)["parameters"]
    more = np.maximum(0, lengths.astype(float) - 512) * 768  # a table has 512 rows, or as many as T
    np.testing.assert_array_equal(parameters, 4 * (shown_number(bert, "Parameters") + more))
    _, squares = curves(bert, 1)["three T² matrices ∝ T²"]
    np.testing.assert_array_equal(squares, 4 * 3 * 144 * lengths.astype(float) ** 2)
    flops = curves(bert, 0)
    np.testing.assert_array_equal(flops["everything else"][1], 2.0 * 12 * 12 * 768**2 * lengths)  # no unembedding
    [crossing] = [x for name, (x, _) in flops.items() if "T² exceeds the rest" in name]
    assert crossing == [6 * 768]
    llama = curves(shapes(**ANY, preset="Llama-7B"), 1)
    assert set(llama["parameters"][1]) == {4 * 6_738_415_616}  # rotary positions have none


def test_a_published_model_without_a_head_makes_no_logits_and_says_so():
    test = shapes(**ANY, preset="BERT-base")
    assert shown_number(test, "Activations") == 191_394_816 - 512 * 30522
    words = " ".join(caption.value for caption in test.caption)
    assert "without its head for masked words" in words
    assert "without logits" in words
    assert f"{2 * 768**2:,} FLOPs" in words
    assert "logits of every position" not in words
    assert "logits of every position" in " ".join(caption.value for caption in shapes(**ANY).caption)


@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
def test_the_mask_is_drawn_as_the_booleans_it_is(mask):
    test = shapes(node="attn.mask", mask=mask)
    length = len(ids(PROMPT))
    blob = panels_blob(test)
    drawn, masked = received(blob)["attn.mask"]
    assert masked is None
    np.testing.assert_array_equal(drawn, np.tri(length) if mask == "causal" else np.ones((length, length)))
    [item] = unpack(blob)[0]["items"]
    assert item["title"] == "allowed, booleans"
    assert "True is 1, False is 0; M is 0 where True, −∞ where False" in item["caption"]


def diagram(test) -> dict:
    """What the diagram was given."""
    headers = [unpack(element.proto.bytes)[0] for element in test.main.get("bidi_component") if element.proto.bytes]
    [header] = [header for header in headers if "around" in header]
    return header


def test_logits_are_said_to_be_made_by_the_tied_token_rows():
    found = diagram(shapes(node="logits"))
    boxes = {box["name"]: box for box in found["around"]}
    assert gpt2().lm_head.weight is gpt2().transformer.wte.weight
    assert (boxes["logits"]["tied"], boxes["logits"]["parameters"]) == ("tokens.weight", 0)
    assert not any(box["tied"] for name, box in boxes.items() if name != "logits")
    assert dict(found["card"]["facts"])["parameters θ"] == "tied to tokens.weight, counted there"


def test_the_card_says_which_tensor_has_two_names():
    facts = dict(diagram(shapes(node="resid_pre", layer=2))["card"]["facts"])
    assert facts["same tensor as"] == "blocks.1.resid_post"


HEAD = ["NPZ of the whole head"]
M = "allowed, booleans; M is 0 where True, −∞ where False"
HIGHEST = "logits, 128 of 4,353 columns (V), the highest of query 5"
LATER = {"columns": "in order", "first_of_V": 256}


@pytest.mark.parametrize(
    ("node", "address", "title", "file_name", "more"),
    [
        ("logits", {}, f": {HIGHEST}", "_logits_128-columns-the-highest-of-query-5", []),
        ("logits", LATER, ": logits, 128 of 4,353 columns (V), 256–383", "_logits_128-columns-256-383", []),
        ("embed", {}, ": embedding", "_embed", []),
        ("resid_pre", {}, ", layer 2: stream in", "_layer2_resid_pre", []),
        ("attn.mask", {}, f", layer 2: {M}", "_layer2_attn.mask", []),
        ("attn.weights", {}, ", layer 2, head 5: weights A", "_layer2_head5_attn.weights", HEAD),
        ("attn.v", {}, ", layer 2, key/value head 5: V values", "_layer2_key-value-head5_attn.v", HEAD),
    ],
    ids=["highest logits", "later logits", "embed", "resid_pre", "mask", "weights", "values"],
)
def test_an_opened_matrix_is_called_what_it_is(node, address, title, file_name, more):
    test = shapes(node=node, layer=2, head=5, query=5, **address)
    found = opened_large(test, node)
    assert found == (f"tiny-gpt{title}", f"tiny-gpt{file_name}", more)


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
    sentence = published_sentence(test)
    assert sentence.startswith("126,799,104 here − **2,359,296** for 3,072 more position rows, because T is 4,096")
    assert "= **124,439,808**, the number in the released weights" in sentence
