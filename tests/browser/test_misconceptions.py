"""Misconceptions in a real browser: guess with the keyboard, change the experiment, and a link that opens it again."""

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.browser.harness import nothing_sticks_out, open_page, settle

CHOSEN = {
    "model": "tiny-gpt",
    "prompt": "Once upon a time there was a king.",
    "layer": 1,
    "head": 0,
    "query": 8,
    "key": 2,
}


def link(base, **choices):
    return f"{base}/misconceptions?{urlencode(CHOSEN | choices)}"


@pytest.mark.viewport(1280, 720)
def test_guess_experiment_and_link(page, app_url):
    open_page(page, link(app_url, claim="The whole"))
    expect(page.get_by_text("Guess first")).to_be_visible()
    guess = page.locator(".st-key-guess_the_whole")
    guess.get_by_role("radio", name="false").focus()
    page.keyboard.press("Space")
    chart = page.locator(".st-key-losses_without")
    expect(chart).to_contain_text("no attention")
    settle(page)
    box = chart.bounding_box()
    assert box["y"] + box["height"] <= 720, "the main picture is on the first screen"
    expect(page).to_have_url(re.compile("guess_the_whole=false"))
    for part in ("positions", "norms"):
        page.locator(".st-key-off").get_by_text(part, exact=True).click()
        settle(page)
    expect(chart).to_contain_text("no positions, no norms")
    page.reload()
    settle(page)
    expect(chart).to_contain_text("no positions, no norms")


@pytest.mark.theme("dark")
@pytest.mark.viewport(900, 900)
def test_matrices_fit_a_narrow_dark_window_and_open_large(page, app_url):
    open_page(page, link(app_url, claim="Equations", guess_equations="true"))
    expect(page.locator("[data-panel]")).to_have_count(4)
    nothing_sticks_out(page, "[data-panel]", "narrow, dark", least=4)
    page.locator("[data-panel='tiny-bert_causal']").get_by_role("button").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("tiny-bert, causal: foreign to it")
    settle(page)
