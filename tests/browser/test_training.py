"""The page Training as a reader uses it: targets, a short live training that is watched, scrubbed through and left."""

from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

import viz_model as vm
from tests.support.browser import (
    address,
    choose_page,
    eventually,
    nothing_sticks_out,
    on_first_screen,
    open_page,
    settle,
)

PROMPT = "The queen gave the girl a ring, and she thanked her."
T = len(vm.load("tiny-gpt").tokenizer.encode(PROMPT))
LIVE = {"lesson": "Train one, live", "live_steps": 20, "live_width": 16, "live_watched": "abcdefabcdef"}


def link(base, **choices):
    chosen = {"model": "tiny-gpt", "prompt": PROMPT, "query": 3, "key": 1} | choices
    return f"{base}/training?{urlencode(chosen)}"


@pytest.mark.viewport(1280, 720)
def test_a_position_is_chosen_by_click_and_keys_and_steps_are_compared(page, app_url):
    open_page(page, link(app_url))
    cells = page.locator(".targets .cell")
    expect(cells).to_have_count(T)
    expect(cells.nth(3)).to_have_attribute("aria-pressed", "true")
    on_first_screen(page, ".targets .row")
    cells.nth(6).click()
    expect(page.get_by_text("At 6")).to_be_visible()
    settle(page)
    eventually(lambda: address(page)["cell"].split(".")[0], "6")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("At 7")).to_be_visible()
    settle(page)
    cells.nth(2).hover()
    expect(page.get_by_role("tooltip")).to_contain_text("nats")
    page.get_by_role("button", name="Run both").click()
    expect(page.get_by_text("The losses of the pass and of the steps differ by")).to_be_visible()
    settle(page)
    nothing_sticks_out(page, ".targets", "light wide")


@pytest.mark.theme("dark")
@pytest.mark.viewport(1280, 720)
def test_a_training_is_watched_and_scrubbed(page, app_url):
    open_page(page, link(app_url, **LIVE))
    page.get_by_role("button", name="Train", exact=True).click()
    curves = page.locator(".training svg.curves")
    expect(curves).to_be_visible()
    expect(page.get_by_text("20 of 20 steps")).to_be_visible()
    expect(page.get_by_role("button", name="Train", exact=True)).to_be_visible()
    settle(page)
    place = page.locator(".training .place")
    expect(place).to_have_text("20 of 20")
    expect(page.get_by_text("Layer 1, head 0, step 20")).to_be_visible()
    on_first_screen(page, ".training svg.curves")
    on_first_screen(page, ".st-key-live_panels [data-panel='weights'] canvas.cells")

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


def train(page):
    page.get_by_role("button", name="Train", exact=True).click()


def stop(page):
    """The page's own: Streamlit's, of a run that takes long, has the same name."""
    return page.locator(".st-key-live_stop").get_by_role("button")


@pytest.mark.slow
@pytest.mark.viewport(1280, 720)
def test_two_visitors_share_one_computer(page, browser, start_server):
    """The second waits until the first has stopped; a closed tab ends its run; neither sees the other's."""
    server = start_server("app.py", STREAMLIT_SERVER_DISCONNECTED_SESSION_TTL="1")
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    other, waits = context.new_page(), "This training: waits for its turn, next in the queue …"
    long = LIVE | {"live_steps": 5000, "live_layers": 4, "live_heads": 8, "live_layer": 0, "live_head": 7}
    open_page(page, link(server.url, **long))
    open_page(other, link(server.url, **long | {"live_heads": 3}))
    train(page)
    expect(page.get_by_text("Layer 0, head 7, step")).to_be_visible()
    on_first_screen(page, ".training svg.curves")
    on_first_screen(page, ".head-grid .heads")
    on_first_screen(page, ".st-key-live_panels [data-panel='weights'] canvas.cells")
    train(other)
    expect(other.get_by_text("cannot be split into n_heads 3")).to_be_visible()
    other.get_by_role("spinbutton", name="Heads H").fill("2")
    other.keyboard.press("Enter")
    settle(other)
    train(other)
    expect(other.get_by_text(waits)).to_be_visible()
    expect(other.locator(".training svg.curves")).to_have_count(0)
    stop(other).click()  # who waits can give up, and come again
    expect(other.get_by_text("Ended after step 0 of 5,000")).to_be_visible()
    train(other)
    expect(other.get_by_text(waits)).to_be_visible()
    stop(page).click()
    expect(page.get_by_text("Ended after step")).to_be_visible()
    expect(other.locator(".training svg.curves")).to_be_visible()
    expect(other.get_by_text("of 5,000 steps").first).to_be_visible()
    expect(page.get_by_text("Ended after step")).to_be_visible()
    train(page)
    expect(page.get_by_text(waits)).to_be_visible()
    context.close()  # the server ends what nobody looks at, and it is the next one's turn
    expect(page.locator(".training svg.curves")).to_be_visible()
    stop(page).click()
    expect(page.get_by_text("Ended after step")).to_be_visible()
    settle(page)
    page.goto("about:blank")  # a page must not see its server go
    server.stop()


@pytest.mark.viewport(1280, 720)
def test_a_pasted_text_travels_in_the_link(page, app_url):
    text = "Die Königin hatte drei Töchter. 🦊\n" * 20
    open_page(page, link(app_url, **LIVE | {"live_task": "My own text", "live_watched_text": "drei Töchter"}))
    page.get_by_role("button", name="Text (0)").click()
    page.get_by_role("textbox", name="Text to learn from").fill(text)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("The link holds this text.")).to_be_visible()
    settle(page)
    sent = page.url
    assert len(sent) < 600
    page.goto("about:blank")
    open_page(page, sent)
    page.get_by_role("button", name=f"Text ({len(text)})").click()
    box = page.get_by_role("textbox", name="Text to learn from")
    expect(box).to_have_value(text)
    box.fill("a" * 2001)
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("The link does not hold this text: it has 2,001 characters")).to_be_visible()
    settle(page)
    assert "live_pasted" not in page.url
