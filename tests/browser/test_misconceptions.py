"""Misconceptions in a real browser: guess with the keyboard, change the experiment, and a link that opens it again."""

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

import viz_model as vm
from tests.support.browser import nothing_sticks_out, open_page, settle

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
    expect(chart).to_contain_text(re.compile(r"no positions,\s*no norms"))
    page.reload()
    settle(page)
    expect(chart).to_contain_text(re.compile(r"no positions,\s*no norms"))


PICTURES = {  # of each claim: what answers it, and what is shown with the answer
    "Lengths": ("the final hidden states", ".st-key-padded_batch [data-panel='batch']"),
    "The whole": ("The loss of the whole model", ".st-key-losses_without .main-svg"),
    "Memory": ("The logits of this step differ", "[data-testid='stDataFrame']"),
    "Equations": ("One function reproduces", "[data-panel='tiny-gpt_causal']"),
    "Approximate": ("The result in tiles and the result from the full matrix", ".st-key-exact [data-panel='tiled']"),
    "Concept": ("[Tt]he mean weight of", ".st-key-pattern_scores .main-svg"),
    "Weights": ("the rank correlation of weight and effect", ".st-key-weighing .main-svg"),
    "Switching off": ("The costs of the two alone add up to", ".st-key-costs_of_pairs .main-svg"),
}
PARTS = "[data-panel], [data-testid='stPlotlyChart'], [data-testid='stDataFrame'], [data-testid='stMetric']"
LONG = " ".join(["The king had three daughters, and the youngest was the fairest of all."] * 11)


def every_claim(page, url, look):
    """Open, guess and read each of the eight; the answer and its picture are there, and nothing sticks out."""
    open_page(page, url)
    for claim, (words, picture) in PICTURES.items():
        page.get_by_role("radio", name=claim, exact=True).focus()  # a narrow window scrolls the row of claims to it
        page.keyboard.press("Space")
        expect(page.get_by_text("Guess first")).to_be_visible()
        page.locator(f".st-key-guess_{claim.lower().replace(' ', '_')}").get_by_role("radio", name="true").click()
        expect(page.get_by_text(re.compile(words)).first).to_be_visible()
        expect(page.locator(picture).first).to_be_visible()
        settle(page)
        assert page.locator(picture).first.bounding_box()["y"] < page.viewport_size["height"], f"{claim}: below"
        nothing_sticks_out(page, PARTS, f"{claim}, {look}")
        words = page.locator("[data-testid='stMetricLabel'] *")
        assert not any(words.evaluate_all("all => all.map(one => one.scrollWidth > one.clientWidth + 1)")), "cut words"


@pytest.mark.viewport(1280, 720)
def test_every_claim_on_a_projector(page, app_url):
    every_claim(page, link(app_url, claim="Concept"), "light, short prompt")


@pytest.mark.theme("dark")
@pytest.mark.viewport(900, 900)
def test_every_claim_in_a_narrow_dark_window_with_a_long_prompt(page, app_url):
    assert 190 < len(vm.load("tiny-gpt").encode(LONG)) < 230
    every_claim(page, link(app_url, claim="Concept", prompt=LONG), "dark, narrow, 200 tokens")
    page.get_by_role("radio", name="Equations", exact=True).click()
    panel = page.locator("[data-panel='tiny-bert_causal']")
    panel.get_by_role("button").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("tiny-bert, causal")
    settle(page)


@pytest.mark.viewport(900, 900)
def test_the_four_matrices_of_one_equation_stand_two_by_two_in_a_narrow_window(page, app_url):
    open_page(page, link(app_url, claim="Equations", guess_equations="false"))
    panels = page.locator("[data-panel^='tiny-']")
    expect(panels).to_have_count(4)
    boxes = panels.evaluate_all("all => all.map(one => one.getBoundingClientRect()).map(({ x, y }) => [x, y])")
    lefts, tops = zip(*boxes, strict=True)
    assert (lefts[0], lefts[1], tops[0], tops[2]) == (lefts[2], lefts[3], tops[1], tops[3])
    assert page.locator("[data-panel='tiny-bert_causal']").inner_text().find("not its own mask") > 0
