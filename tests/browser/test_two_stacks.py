"""The bundled encoder-decoder as a reader uses it, its cross-attention against `transformers`' Marian."""

import re
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

import pytest
import torch
from playwright.sync_api import expect
from safetensors.torch import load_file

from tests.support.browser import nothing_sticks_out, on_first_screen, open_page, settle
from tests.support.two_stack_models import ids, marian_of

SOURCE, TRANSLATION = "Friday, 3 May 2024", "2024-05-03"
START = 256
LAYER, HEAD = 1, 1
FOLDER = Path(__file__).resolve().parents[2] / "checkpoints" / "tiny-seq2seq"


def link(base, page, **choices):
    chosen = {"model": "tiny-seq2seq", "prompt": SOURCE, "layer": LAYER, "head": HEAD, "query": 1, "key": 14} | choices
    return f"{base}/{page}?{urlencode(chosen)}"


@cache
def cross_attention():
    """The weights (T,S) of the head when the decoder reads the start token and the whole translation."""
    weights = {name: tensor.float() for name, tensor in load_file(FOLDER / "model.safetensors").items()}
    read = torch.tensor([[START, *ids(TRANSLATION)]])
    with torch.inference_mode():
        found = marian_of(weights)(torch.tensor([ids(SOURCE)]), decoder_input_ids=read, output_attentions=True)
    assert found.logits[0, -1].argmax() == START  # after the last digit it ends
    return found.cross_attentions[LAYER][0, HEAD].numpy()


def test_a_generation_reads_the_fixed_keys_of_the_source(page, app_url):
    open_page(page, link(app_url, "generate", greedy="true", new=11))
    weights = cross_attention()
    expect(page.locator(".generation .place")).to_have_text("step 10 of 10")
    canvas = page.locator(".generation .of-K canvas")
    for step in (10, 9, 0):
        page.get_by_role("slider", name=re.compile("[Ss]tep")).fill(str(step))
        expect(page.locator(".generation .place")).to_have_text(f"step {step} of 10")
        key = weights[step].argmax()
        said = page.locator(".generation .strips .legend")
        expect(said).to_contain_text(f"{weights[step].max():.3f}"[:4])
        letter = f"‘{SOURCE[key]}’" if SOURCE[key].isdigit() else SOURCE[key].replace(" ", "·")
        expect(said).to_contain_text(f"“{key} {letter}”")
        expect(canvas).to_have_attribute("data-columns", str(len(SOURCE)))  # from the first step to the last
    settle(page)


def test_a_cell_between_two_texts_is_closed_by_hand(page, app_url):
    open_page(page, link(app_url, "masks", mask_b="drawn by hand"))
    cells = page.locator(".mask-editor .cells")
    weights, (row, column) = cross_attention(), (1, cross_attention()[1].argmax())
    size = cells.bounding_box()["height"] / len(weights)
    cells.click(position={"x": (column + 0.5) * size, "y": (row + 0.5) * size})
    expect(page.get_by_text(f"{weights.size - 1} of {weights.size} cells are open").first).to_be_visible()
    settle(page)
    cells.focus()
    page.keyboard.press("Control+End")  # the last query and the last key
    expect(page.locator(".mask-editor .said")).to_contain_text("query 10 ‘3’, key 17 ‘4’")
    page.keyboard.press("Space")
    expect(page.get_by_text(f"{weights.size - 2} of {weights.size} cells are open").first).to_be_visible()
    settle(page)
    expect(page).to_have_url(re.compile(r"cells_b=11x18\."))
    page.reload()
    settle(page)
    expect(page.get_by_text(f"{weights.size - 2} of {weights.size} cells are open").first).to_be_visible()


@pytest.mark.theme("dark")
@pytest.mark.viewport(1280, 720)
def test_the_decoder_s_block_and_its_memory(page, app_url):
    open_page(page, link(app_url, "shapes", part="cross"))
    for name in ("Q queries", "after self-attention"):
        expect(page.get_by_role("button", name=re.compile(f"^{name}")).first).to_be_visible()
    memory = page.get_by_role("button", name=re.compile("^encoder output"))
    memory.click()
    expect(page.get_by_role("heading", name=re.compile("memory"))).to_be_visible()
    settle(page)
    rows = page.locator("[data-panel='memory']")
    expect(rows).to_contain_text("(18, 96)")
    page.set_viewport_size({"width": 900, "height": 900})
    settle(page)
    nothing_sticks_out(page, ".box, .card, [data-panel]", "dark narrow")


@pytest.mark.viewport(1400, 900)
def test_the_card_stands_beside_the_attention_of_its_tensor(page, app_url):
    open_page(page, link(app_url, "shapes", part="cross"))
    middle = page.locator(".shapes .box", has_text="encoder output").bounding_box()["y"]
    assert page.locator(".card").bounding_box()["y"] > middle
    page.get_by_role("button", name=re.compile("^attention out")).click()
    expect(page.locator(".card .title")).to_contain_text("attention out")
    settle(page)
    assert page.locator(".card").bounding_box()["y"] < middle


@pytest.mark.viewport(1280, 720)
def test_another_attention_is_chosen_and_kept_in_the_address(page, app_url):
    open_page(page, link(app_url, ""))
    on_first_screen(page, "[data-panel='weights'] canvas.cells")
    page.get_by_role("radio", name="encoder", exact=True).click()
    expect(page.get_by_text("Encoder, layer 1, head 1: weights")).to_be_visible()
    settle(page)
    expect(page).to_have_url(re.compile("part=encoder"))
    page.get_by_role("textbox", name="What the decoder reads").fill("2024-0")
    page.keyboard.press("Enter")
    page.get_by_role("radio", name="decoder", exact=True).click()
    expect(page.get_by_text("Decoder, layer 1, head 1: weights")).to_be_visible()
    settle(page)
    expect(page).to_have_url(re.compile("target=2024-0"))
    expect(page.locator("[data-panel='weights'] .caption").first).to_contain_text("(7, 7)")
    expect(page.locator("[data-panel='weights'] canvas.cells")).to_have_count(1)
