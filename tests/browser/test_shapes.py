"""The page Shapes in a real browser: letters that light up, clicks, keyboard, links; numbers by `transformers`."""

import re
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from tests.reference.name_maps import LLAMA_7B
from tests.support.browser import FOCUSED, address, eventually, looks, nothing_sticks_out, open_page, settle
from tests.support.numbers import read_number
from tests.support.transformers_tiny_gpt import CONTEXT, HEADS, LAYERS, WIDTH, gpt2, queries_keys_values
from viz_model.model.tokenizer import Tokenizer

PROMPT = "The queen gave the girl a ring, and she thanked her."
LONG = ("The king and the queen had a daughter who was as beautiful as the day. " * 13)[:900]
FOLDER = Path(__file__).resolve().parents[2] / "checkpoints" / "tiny-gpt"


def link(base, **choices):
    return f"{base}/shapes?{urlencode({'model': 'tiny-gpt', 'prompt': PROMPT} | choices)}"


def box(page, name):
    return page.locator(f".box[data-name='{name}']")


def shape_of(page, name):
    """The letters and numbers in a box."""
    axes = box(page, name).locator(".axis")
    letters = axes.locator("b").all_inner_texts()
    return letters, [int(number.replace(",", "")) for number in axes.locator(".number").all_inner_texts()]


def fact(page, name):
    """A number of the card beside the diagram."""
    row = page.locator(".fact", has_text=re.compile(f"^{re.escape(name)} ")).first
    return row.locator(".amount").inner_text()


@pytest.mark.viewport(1280, 720)
def test_every_box_is_on_the_first_screen_with_shape_and_parameters_of_another_implementation(page, app_url):
    open_page(page, link(app_url, layer=1, head=2))
    length = len(Tokenizer.load(FOLDER).encode(PROMPT))
    width, hidden, vocabulary = WIDTH, 4 * WIDTH, gpt2().config.vocab_size
    stream, square = (["B", "T", "C"], [1, length, width]), (["B", "H", "T", "S"], [1, HEADS, length, length])
    expected = {"ids": (["B", "T"], [1, length]), "logits": (["B", "T", "V"], [1, length, vocabulary])}
    expected |= dict.fromkeys(("embed", "resid_pre", "norm1", "attn.joined", "ffn.out", "resid_post"), stream)
    expected |= dict.fromkeys(("attn.raw", "attn.scores", "attn.weights"), square)
    expected["attn.q"] = (["B", "H", "T", "D"], [1, HEADS, length, width // HEADS])
    expected["attn.k"] = (["B", "G", "S", "D"], [1, HEADS, length, width // HEADS])
    expected["ffn.hidden"] = (["B", "T", "F"], [1, length, hidden])
    for name, shape in expected.items():
        assert shape_of(page, name) == shape, name
    block = sum(p.numel() for p in gpt2().transformer.h[1].parameters())
    expect(page.locator(".heading")).to_contain_text(f"Block 1 of {LAYERS} · {block:,} parameters")
    counts = page.locator(".box").evaluate_all(
        """boxes => boxes.map(b => [b.closest('.inside') !== null,
             +b.title.match(/([\\d,]+) parameters/)[1].replaceAll(',', '')])"""
    )
    assert sum(count for inside, count in counts if inside) == block
    assert sum(count for inside, count in counts if not inside) + LAYERS * block == gpt2().num_parameters()
    assert CONTEXT * width in [count for _, count in counts]
    bottoms = page.locator(".box").evaluate_all("boxes => boxes.map(b => b.getBoundingClientRect().bottom)")
    assert max(bottoms) <= 720
    assert page.locator(".card").bounding_box()["y"] < 600


def test_a_click_opens_the_tensor_with_its_line_and_numbers(page, app_url):
    open_page(page, link(app_url, layer=2, head=5))
    box(page, "attn.v").click()
    expect(page.get_by_role("heading", name="V values · blocks.2.attn.v")).to_be_visible()
    settle(page)
    eventually(lambda: address(page)["node"], "attn.v")
    ids = Tokenizer.load(FOLDER).encode(PROMPT)
    values = np.stack([queries_keys_values(ids, 2, head)[2] for head in range(HEADS)])
    numbers = {"mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}
    for name, number in (numbers | {"length √Σx²": np.linalg.norm(values)}).items():
        eventually(lambda name=name: read_number(fact(page, name)), pytest.approx(number, rel=2e-3, abs=2e-5))
    expect(page.locator(".card .line")).to_contain_text("v = model.blocks[2].attn.value(norm1)")
    expect(page.get_by_test_id("stCode")).to_contain_text("v = model.blocks[2].attn.value(norm1)")
    expect(page.locator("[data-panel='attn.v'] canvas.cells")).to_be_visible()
    expect(page.get_by_text("key/value head 5 of 8 (G)")).to_be_visible()


def test_a_click_on_a_block_zooms_in_and_is_the_layer_of_every_page(page, app_url):
    open_page(page, link(app_url, layer=0, head=2, node="ffn.out"))
    page.get_by_role("button", name="Block 3", exact=True).click()
    expect(page.locator(".heading")).to_contain_text(f"Block 3 of {LAYERS}")
    settle(page)
    expect(page.get_by_role("spinbutton", name=re.compile("^Layer"))).to_have_value("3")
    expect(page.get_by_role("heading", name="FFN out · blocks.3.ffn.out")).to_be_visible()
    eventually(lambda: address(page)["head"].split(".")[0], "3")


def test_pointing_at_a_letter_lights_every_axis_of_it_and_no_other(page, app_url):
    open_page(page, link(app_url, layer=1, node="attn.q"))
    lit = page.locator(".axis.lit")
    assert lit.count() == 0
    for letter, least in {"T": 19, "D": 4, "F": 1, "V": 1, "H": 5, "G": 2}.items():
        everywhere = page.locator(".axis b").all_inner_texts().count(letter)
        for place in (".letter", ".box .axis"):  # in the legend, and in a box
            page.locator(f"{place}[data-letters='{letter}']").first.hover()
            expect(lit).to_have_count(everywhere)
            eventually(lambda letter=letter: set(lit.locator("b").all_inner_texts()), {letter})
        assert everywhere >= least
    page.mouse.move(5, 5)
    expect(lit).to_have_count(0)


def test_the_keyboard_lights_letters_walks_and_opens(page, app_url):
    open_page(page, link(app_url, layer=1, node="attn.q"))
    page.locator(".letter[data-letters='B']").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".letter.lit")).to_contain_text("T")
    eventually(lambda: set(page.locator(".axis.lit b").all_inner_texts()), {"T"})
    page.keyboard.press("Tab")  # into the row of the model
    page.keyboard.press("Tab")  # the blocks
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator(".heading")).to_contain_text(f"Block 2 of {LAYERS}")
    settle(page)
    box(page, "attn.q").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="blocks.2.attn.scores")).to_be_visible()
    settle(page)
    eventually(lambda: page.evaluate(FOCUSED), "attn.scores")  # a new run takes nobody's place away


def test_a_link_restores_a_tensor_and_a_model_of_any_size(page, app_url):
    open_page(page, link(app_url, layer=3, head=1, node="ffn.hidden", first_of_F=640, query=4))
    expect(page.get_by_role("heading", name="blocks.3.ffn.hidden")).to_be_visible()
    expect(page.locator(".heading")).to_contain_text("Block 3")
    expect(box(page, "ffn.hidden")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("spinbutton", name=re.compile("^First column"))).to_have_value("640")
    sizes = {"batch": 8, "length": 4096, "width": 2048, "heads": 16, "layers": 24}
    choices = {"shapes": "a model of any size", "preset": "Llama-7B", "precision": "float16"}
    open_page(page, link(app_url, **choices, **{f"llama-7b_{name}": value for name, value in sizes.items()}))
    config = LlamaConfig(
        vocab_size=32000,
        max_position_embeddings=2048,
        hidden_size=2048,
        intermediate_size=5504,
        num_hidden_layers=24,
        num_attention_heads=16,
    )
    with torch.device("meta"):
        parameters = LlamaForCausalLM(config).num_parameters()
    expect(metric(page, "Parameters")).to_contain_text(f"{parameters:,}")
    expect(metric(page, "Score matrix")).to_contain_text(f"{8 * 24 * 16 * 4096**2:,}")
    expect(page.get_by_role("radio", name="float16")).to_be_checked()
    eventually(lambda: address(page)["llama-7b_length"], "4096")


def metric(page, label):
    return page.get_by_test_id("stMetric").filter(has_text=label)


def published(name):
    """Parameters of a `transformers` model of this name, and what it has that our skeleton lacks."""
    with torch.device("meta"):
        if name == "BERT-base":
            model = BertModel(BertConfig())
            more = [*model.pooler.parameters(), model.embeddings.token_type_embeddings.weight]
            return model.num_parameters(), sum(parameter.numel() for parameter in more)
        if name == "Llama-7B":
            return LlamaForCausalLM(LlamaConfig(vocab_size=32000, **LLAMA_7B)).num_parameters(), 0
        sizes = {} if name == "GPT-2 small" else {"n_layer": 48, "n_head": 25, "n_embd": 1600}
        return GPT2LMHeadModel(GPT2Config(**sizes)).num_parameters(), 0


def test_presets_come_out_right_to_the_last_digit_and_a_slider_moves_by_keyboard(page, app_url):
    open_page(page, link(app_url, shapes="a model of any size"))
    for name in ("GPT-2 XL", "BERT-base", "Llama-7B", "GPT-2 small"):
        page.get_by_role("radio", name=name).click()
        whole, more = published(name)
        expect(metric(page, "Parameters")).to_contain_text(f"{whole - more:,}")
        settle(page)
        expect(page.get_by_text(re.compile("the released")).first).to_contain_text(f"{whole:,}")
    page.get_by_role("slider", name="L, layers").press("ArrowRight")
    with torch.device("meta"):
        more = GPT2LMHeadModel(GPT2Config(n_layer=13)).num_parameters()
    expect(metric(page, "Parameters")).to_contain_text(f"{more:,}")
    settle(page)
    eventually(lambda: address(page)["gpt-2-small_layers"], "13")
    page.get_by_role("button", name="Back to its own sizes").click()
    expect(metric(page, "Parameters")).to_contain_text("124,439,808")
    settle(page)
    eventually(lambda: "gpt-2-small_layers" in address(page), False)


@pytest.mark.parametrize(
    ("choices", "prompt"),
    [
        ({"node": "logits"}, LONG),
        ({"node": "attn.weights"}, LONG),
        ({"node": "ids"}, PROMPT),
        ({"shapes": "a model of any size"}, PROMPT),
    ],
    ids=["logits", "weights", "ids", "any size"],
)
def test_nothing_sticks_out_of_the_page(page, app_url, choices, prompt):
    open_page(page, link(app_url, prompt=prompt, layer=1, query=5, **choices))
    for look in looks(page):
        nothing_sticks_out(page, ".box, .card, [data-panel]", look, least=21 if "node" in choices else 0)


@pytest.mark.parametrize("model", ["rotary", "post", "many", "decoder", "post decoder"])
def test_boxes_of_any_model_stand_apart_and_show_all_of_themselves(page, serve_components, model):
    open_page(page, f"{serve_components('shape_diagram_app.py')}/?model={model}")
    for width in (1400, 620):
        page.set_viewport_size({"width": width, "height": 900})
        settle(page)
        found = page.locator(".box, .card, .blocks, .add").evaluate_all(
            """nodes => nodes.map(n => { const { left, right, top, bottom } = n.getBoundingClientRect();
                 const cut = n.className !== 'add' && n.scrollHeight > n.clientHeight + 1;
                 const name = n.dataset.name ?? n.className;
                 return { left, right, top, bottom, name, cut }; })"""
        )
        assert not [one["name"] for one in found if one["cut"]]
        for i, a in enumerate(found):
            for b in found[:i]:
                beside = a["left"] >= b["right"] or b["left"] >= a["right"]
                assert beside or a["top"] >= b["bottom"] or b["top"] >= a["bottom"], (a["name"], b["name"])
    page.get_by_role("button", name="Block 11", exact=True).click()
    expect(page.get_by_text("block 11, tensor attn.k")).to_be_visible()
    settle(page)
