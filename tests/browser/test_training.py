"""The page Training as a reader uses it: targets, a short live training that is watched, scrubbed through and left."""

from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import expect

import viz_model as vm
from tests.browser.harness import choose_page, nothing_sticks_out, open_page, settle

PROMPT = "The queen gave the girl a ring, and she thanked her."
T = len(vm.load("tiny-gpt").tokenizer.encode(PROMPT))
LIVE = {"lesson": "Train one, live", "live_steps": 20, "live_width": 16, "live_watched": "abcdefabcdef"}
LONG_MS = 90_000  # a process that starts on a busy machine


def link(base, **choices):
    chosen = {"model": "tiny-gpt", "prompt": PROMPT, "query": 3, "key": 1} | choices
    return f"{base}/training?{urlencode(chosen)}"


def address(page):
    return {name: value for name, [value] in parse_qs(urlsplit(page.url).query).items()}


def in_view(page, selector, width=1280, height=720):
    box = page.locator(selector).first.bounding_box()
    assert box["y"] + box["height"] <= height, f"{selector} ends at {box['y'] + box['height']}"
    assert box["x"] + box["width"] <= width


@pytest.mark.viewport(1280, 720)
def test_a_position_is_chosen_by_click_and_keys_and_steps_are_compared(page, app_url):
    open_page(page, link(app_url))
    cells = page.locator(".targets .cell")
    expect(cells).to_have_count(T)
    expect(cells.nth(3)).to_have_attribute("aria-pressed", "true")
    in_view(page, ".targets .row")
    cells.nth(6).click()
    expect(page.get_by_text("At 6")).to_be_visible()
    settle(page)
    assert address(page)["query"] == "6"
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("At 7")).to_be_visible()
    settle(page)
    cells.nth(2).hover()
    expect(page.get_by_role("tooltip")).to_contain_text("nats")
    page.get_by_role("button", name="Do both").click()
    expect(page.get_by_text("Their losses differ by")).to_be_visible(timeout=LONG_MS)
    settle(page)
    nothing_sticks_out(page, ".targets", "light wide")


@pytest.mark.theme("dark")
@pytest.mark.viewport(1280, 720)
def test_a_training_is_watched_and_scrubbed(page, app_url):
    open_page(page, link(app_url, **LIVE))
    page.get_by_role("button", name="Train", exact=True).click()
    curves = page.locator(".training svg.curves")
    expect(curves).to_be_visible(timeout=LONG_MS)
    expect(page.get_by_text("20 of 20 steps")).to_be_visible(timeout=LONG_MS)
    expect(page.get_by_role("button", name="Train", exact=True)).to_be_visible()
    settle(page)
    place = page.locator(".training .place")
    expect(place).to_have_text("20 of 20")
    expect(page.get_by_text("Layer 1, head 0, step 20")).to_be_visible()
    in_view(page, ".training svg.curves")
    in_view(page, ".st-key-live_panels [data-panel='weights'] canvas.cells")

    box = curves.bounding_box()
    page.mouse.click(box["x"] + 46 + (box["width"] - 56) * 0.5, box["y"] + 60)  # between the axis and its end
    expect(page.get_by_text("step 10").first).to_be_visible()
    expect(place).to_have_text("10 of 20")
    settle(page)
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("Layer 1, head 0, step 9")).to_be_visible()
    settle(page)
    page.get_by_role("button", name="Layer 0, head 1").click()
    expect(page.get_by_text("Layer 0, head 1, step 9")).to_be_visible()
    settle(page)
    page.get_by_role("button", name="Play", exact=True).click()
    expect(place).not_to_have_text("9 of 20")
    page.get_by_role("button", name="Pause", exact=True).click()
    settle(page)

    choose_page(page, "Heads")
    expect(page.get_by_role("heading", name="Heads", exact=True)).to_be_visible()
    settle(page)
    choose_page(page, "Training")  # what was trained is still there
    expect(curves).to_be_visible()
    settle(page)
    page.set_viewport_size({"width": 900, "height": 900})
    settle(page)
    nothing_sticks_out(page, ".training, .head-grid .scroller, [data-panel]", "dark narrow", least=4)
    sent = address(page)
    assert {name: sent[name] for name in ("lesson", "live_steps", "live_width")} == {
        "lesson": "Train one, live",
        "live_steps": "20",
        "live_width": "16",
    }
