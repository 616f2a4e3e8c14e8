"""The page Switch off as a reader uses it: a head and a whole layer by click, by keyboard, and Back."""

from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.support.browser import address, eventually, nothing_sticks_out, on_first_screen, open_page, settle

PROMPT = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"


def link(base, **choices):
    chosen = {"model": "tiny-gpt", "prompt": PROMPT, "head": "1.0", "cell": "20.9"} | choices
    return f"{base}/switch_off?{urlencode(chosen)}"


def click(page, panel, row, column, shape):
    """The middle of a cell of a matrix with so many rows and columns."""
    cells = page.locator(f"[data-panel='{panel}'] canvas.cells")
    box = cells.bounding_box()
    place = {"x": (column + 0.5) * box["width"] / shape[1], "y": (row + 0.5) * box["height"] / shape[0]}
    cells.click(position=place)


def answer(page):
    return page.get_by_test_id("stMarkdown").filter(has_text="the likeliest token after").first


@pytest.mark.own_tab
@pytest.mark.viewport(1280, 720)
def test_a_head_and_a_layer_by_click_and_by_keyboard_and_back(page, app_url):
    open_page(page, link(app_url))
    expect(answer(page)).to_contain_text("Without head 0 of layer 1")
    settle(page)
    on_first_screen(page, "[data-panel='effect']", "[data-panel='wholes']", ".st-key-control")
    before = page.evaluate("history.length")
    click(page, "wholes", 2, 1, (4, 2))
    expect(answer(page)).to_contain_text("Without layer 2")
    settle(page)
    eventually(lambda: (address(page)["head"], address(page)["off"]), ("2.0", "layer"))
    eventually(lambda: page.evaluate("history.length"), before + 1)  # one choice, one step of Back
    click(page, "effect", 2, 4, (4, 8))
    expect(answer(page)).to_contain_text("Without head 4 of layer 2")
    page.locator("[data-panel='effect'] .stage").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(answer(page)).not_to_contain_text("Without head 4 of layer 2")
    settle(page)
    page.go_back()
    expect(answer(page)).to_contain_text("Without head 4 of layer 2")
    settle(page)
    page.go_back()
    expect(answer(page)).to_contain_text("Without layer 2")


@pytest.mark.theme("dark")
@pytest.mark.viewport(900, 900)
def test_nothing_sticks_out_of_a_narrow_window(page, app_url):
    open_page(page, link(app_url, effect="two logits", instead="another prompt", off="feed-forward"))
    expect(answer(page)).to_contain_text("Without the feed-forward of layer 1")
    settle(page)
    nothing_sticks_out(page, "[data-panel], [data-testid='stPlotlyChart'], [data-testid='stDataFrame']", "narrow")
