"""The page Layouts in a real browser: boxes, heads and words that are clicked, the keyboard, links, both themes."""

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.support import torch_tiny_seq2seq as translated
from tests.support.browser import FOCUSED, address, eventually, looks, nothing_sticks_out, open_page, settle

PROMPT = "The queen gave the girl a ring, and she thanked her."
LONG = ("The king and the queen had a daughter who was as beautiful as the day. " * 13)[:900]
SECTIONS = ("Side by side", "Norms through depth", "Cross-attention", "Fill in the blank")


def link(base, section=SECTIONS[0], **choices):
    return f"{base}/layouts?{urlencode({'model': 'tiny-gpt', 'prompt': PROMPT, 'layouts': section} | choices)}"


def box(page, name):
    return page.locator(f".box[data-name='{name}']")


@pytest.mark.viewport(1280, 720)
def test_boxes_stand_apart_on_the_first_screen_and_open_their_tensors(page, app_url):
    open_page(page, link(app_url))
    frames = page.locator(".box").evaluate_all(
        """boxes => boxes.map(box => { const { left, right, top, bottom } = box.getBoundingClientRect();
             const { scrollWidth, clientWidth, scrollHeight, clientHeight, dataset: { name } } = box;
             return { left, right, top, bottom, name,
                      cut: scrollWidth > clientWidth + 1 || scrollHeight > clientHeight + 1 }; })"""
    )
    assert len(frames) > 60
    assert max(frame["bottom"] for frame in frames) <= 720
    assert not [frame["name"] for frame in frames if frame["cut"]]
    for i, a in enumerate(frames):
        for b in frames[:i]:
            beside = a["left"] >= b["right"] or b["left"] >= a["right"]
            assert beside or a["top"] >= b["bottom"] or b["top"] >= a["bottom"], (a["name"], b["name"])
    name = "tiny-seq2seq decoder.blocks.1.cross.weights"
    box(page, name).click()
    expect(page.locator("[data-panel='weights']")).to_contain_text(name.replace(" ", " · "))
    settle(page)
    eventually(lambda: address(page)["box"], name)
    expect(box(page, name)).to_have_attribute("aria-pressed", "true")
    box(page, name).focus()
    page.keyboard.press("ArrowDown")  # the feed-forward half below
    page.keyboard.press("Enter")
    expect(page.locator("[data-panel='out']")).to_contain_text("decoder.blocks.1.ffn.out")
    settle(page)
    eventually(lambda: page.evaluate(FOCUSED), "tiny-seq2seq decoder.blocks.1.ffn.out")  # a run takes no place away


def test_a_link_restores_date_head_and_cell_and_clicks_go_on(app_url, page):
    text = "5/3/24 (US)"
    open_page(page, link(app_url, SECTIONS[2], source=text, cross_layer=1, cross_head=2, digit=6, letter=0))
    expect(page.get_by_role("heading", name="→ 2024-05-03")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Layer 1, head 2"))).to_have_attribute("aria-pressed", "true")
    cross = translated.translation(list(text.encode()), translated.greedy(list(text.encode())))[1][1, 2]
    assert cross[6].argmax() == 0  # the month reads the first number
    bars = page.locator("[data-panel='bars'] .row")
    expect(bars.first).to_contain_text(f"{cross[6, 0]:.4f}"[:5])
    page.get_by_role("button", name="Examples").nth(1).click()
    page.get_by_role("menuitem", name="5/3/24 (UK)").click()
    expect(page.get_by_role("heading", name="→ 2024-03-05")).to_be_visible()
    settle(page)
    eventually(lambda: address(page)["source"], "5/3/24 (UK)")
    page.get_by_role("button", name=re.compile("^Layer 1, head 2")).focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("button", name=re.compile("^Layer 1, head 1"))).to_have_attribute("aria-pressed", "true")
    settle(page)
    eventually(lambda: address(page)["cross_head"], "1.1")


def test_a_clicked_word_is_left_out_for_both_models(page, app_url):
    open_page(page, link(app_url, SECTIONS[3], blank=4))
    word = page.get_by_role("button", name=re.compile("^tiny-gpt: token 5, "))
    expect(word).to_have_class(re.compile("beyond"))
    word.click()
    expect(word).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("button", name=re.compile("^tiny-bert: token 5, "))).to_have_class(re.compile("blank"))
    settle(page)
    eventually(lambda: address(page)["blank"], "5")
    word.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name=re.compile("^tiny-gpt: token 4, "))).to_have_attribute(
        "aria-pressed", "true"
    )
    settle(page)
    eventually(lambda: address(page)["blank"], "4")


@pytest.mark.slow
@pytest.mark.parametrize("prompt", [PROMPT, LONG], ids=["short", "200 tokens"])
def test_nothing_sticks_out_of_any_section(page, app_url, prompt):
    open_page(page, link(app_url, prompt=prompt))
    parts = (".layout, .box", ".js-plotly-plot", "[data-panel]", ".row, .js-plotly-plot")
    for section, drawn in zip(SECTIONS, parts, strict=True):
        page.get_by_role("radio", name=section).click()
        eventually(lambda drawn=drawn: page.locator(drawn).count(), lambda count: count >= 3)
        settle(page)
        for look in looks(page):
            nothing_sticks_out(page, drawn, f"{section}, {look}", least=3)
