"""The page Quantization as a reader uses it: a weight chosen, a head chosen, schemes compared, in both themes."""

import re
from urllib.parse import urlencode

import bitsandbytes.functional as bitsandbytes
import pytest
import torch
from playwright.sync_api import expect

import viz_model as vm
from tests.support.browser import address, eventually, nothing_sticks_out, on_first_screen, open_page, settle
from tests.support.numbers import read_number

PROMPT = "The queen gave the girl a ring, and she thanked her."
LAYER = 1
PARTS = "[data-panel], .head-grid, [data-testid='stPlotlyChart'], [data-testid='stMarkdown'] table"


def link(base, **choices):
    chosen = {"model": "tiny-gpt", "prompt": PROMPT, "layer": LAYER, "head": 5, "query": 9, "key": 4} | choices
    return f"{base}/quantization?{urlencode(chosen)}"


def cells(page, panel="codes"):
    return page.locator(f"[data-panel='{panel}'] canvas.cells")


def click_cell(page, row, column):
    width, height = cells(page).evaluate("c => [c.dataset.cellWidth, c.dataset.cellHeight].map(Number)")
    cells(page).click(position={"x": (column + 0.5) * width, "y": (row + 0.5) * height})


def formulas(page):
    """The numbers of the framed weight by step, as KaTeX wrote them for screen readers."""
    rows = page.locator("tr", has=page.locator("annotation"))
    return {row.locator("td").first.inner_text(): row.locator("annotation").first.text_content() for row in rows.all()}


@pytest.mark.viewport(1280, 720)
def test_a_weight_is_chosen_and_its_link_restores_it(page, app_url):
    open_page(page, link(app_url, matrix="attn.key"))
    on_first_screen(page, "[data-panel='codes'] canvas.cells")
    click_cell(page, 5, 40)
    expect(page.locator("annotation", has_text="w_{5,40}").first).to_be_attached()
    settle(page)
    page.locator("[data-panel='codes'] [role='application'], [data-panel='codes'] [tabindex='0']").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("annotation", has_text="w_{6,41}").first).to_be_attached()
    settle(page)
    there = address(page)
    assert (there["matrix"], there["matrix_cell"]) == ("attn.key", "6.41")
    matrix = vm.load("tiny-gpt").transformer.get_parameter(f"blocks.{LAYER}.attn.key.weight").detach()
    packed, state = bitsandbytes.quantize_4bit(matrix, None, None, 64, True, "nf4")
    code = int(torch.stack((packed >> 4, packed & 15), -1).view(matrix.shape)[6, 41])
    eventually(lambda: formulas(page)["nearest level"].endswith(f"code }} {code}"), True)
    found = formulas(page)
    lost = (bitsandbytes.dequantize_4bit(packed, state) - matrix)[6, 41].item()
    assert read_number(found["error"].rpartition("= ")[2]) == pytest.approx(lost, rel=0.05, abs=1e-4)
    page.get_by_role("radio", name="int8", exact=True).click()
    expect(page.get_by_text("255 levels").first).to_be_visible()
    settle(page)
    eventually(lambda: formulas(page)["weight"], f"w_{{6,41}} = {matrix[6, 41].item():.4g}")
    page.goto("about:blank")
    open_page(page, link(app_url, **{name: there[name] for name in ("matrix", "matrix_cell")}))
    eventually(lambda: formulas(page)["nearest level"].endswith(f"code }} {code}"), True)


@pytest.mark.theme("dark")
@pytest.mark.viewport(900, 900)
def test_a_head_is_chosen_and_nothing_sticks_out_of_any_section(page, app_url):
    open_page(page, link(app_url, scheme="LLM.int8", threshold="2.5"))
    nothing_sticks_out(page, PARTS, "the weights, dark narrow", least=6)
    page.get_by_role("radio", name="What they do").click()
    expect(page.locator("[data-panel='difference']")).to_contain_text("largest")
    settle(page)
    page.get_by_role("button", name=re.compile("^Layer 3, head 2")).click()
    expect(page.locator("[data-panel='before']")).to_contain_text("layer 3, head 2")
    settle(page)
    eventually(lambda: address(page)["head"], "3.2")
    nothing_sticks_out(page, PARTS, "what they do, dark narrow", least=4)
    page.get_by_role("radio", name="Three things").click()
    expect(page.get_by_role("columnheader", name="FlashAttention")).to_be_visible()
    settle(page)
    nothing_sticks_out(page, PARTS, "three things, dark narrow")
    eventually(lambda: address(page)["quantization"], "Three things")


@pytest.mark.viewport(1280, 720)
def test_the_table_is_on_the_first_screen_of_a_projector(page, app_url):
    open_page(page, link(app_url, quantization="Three things"))
    on_first_screen(page, "table")
    nothing_sticks_out(page, PARTS, "three things, light")
    page.get_by_role("spinbutton", name="Tokens to write").fill("2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("cell", name="2 of 2").first).to_be_visible()
    settle(page)
    eventually(lambda: address(page)["written"], "2")
