"""The page Patching under hand and keys: a cell is one choice, its answer stands beside it, and Back takes it back."""

from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from pages.patching.examples import EXAMPLES
from tests.support.browser import address, choose_page, eventually, on_first_screen, open_page, settle

BLUE = EXAMPLES["tiny-gpt"][0]
LINK = {"model": "tiny-gpt", "prompt": BLUE.clean, "other": BLUE.corrupted, "head": "1.0", "cell": "12.2"}


def click_cell(page, panel, row, column, shape):
    cells = page.locator(f"[data-panel='{panel}'] canvas.cells").bounding_box()
    x, y = ((n + 0.5) / of for n, of in ((column, shape[1]), (row, shape[0])))
    page.mouse.click(cells["x"] + x * cells["width"], cells["y"] + y * cells["height"])


@pytest.mark.viewport(1280, 720)
def test_a_cell_is_one_choice_by_hand_and_by_keys_and_back_takes_it_back(page, app_url):
    open_page(page, f"{app_url}/patching?{urlencode(LINK | {'map': 'stream'})}")
    answer = page.get_by_text("put from the clean run into the corrupted run")
    expect(answer).to_contain_text("stream before layer 1 at token 12 ·blue")
    on_first_screen(page, "[data-panel='patched']", ".katex-display")
    click_cell(page, "patched", 0, 5, (4, 13))
    expect(answer).to_contain_text("stream before layer 0 at token 5 ·brave | ·blue")
    eventually(lambda: [address(page)[name] for name in ("head", "cell")], ["0.0", "5.2"])
    settle(page)
    page.locator("[data-panel='patched'] .stage").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(answer).to_contain_text("stream before layer 1 at token 6 ·wolf")
    eventually(lambda: [address(page)[name] for name in ("head", "cell")], ["1.0", "6.2"])
    settle(page)
    page.go_back()
    expect(answer).to_contain_text("stream before layer 0 at token 5")
    eventually(lambda: [address(page)[name] for name in ("head", "cell")], ["0.0", "5.2"])
    settle(page)
    page.go_back()
    expect(answer).to_contain_text("stream before layer 1 at token 12")


def test_a_token_of_the_two_prompts_is_chosen_by_keys(page, app_url):
    open_page(page, f"{app_url}/patching?{urlencode(LINK)}")
    tokens = page.get_by_role("group", name="The two prompts")
    tokens.get_by_role("button", name="12 ·blue 12 ·blue, the same").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    eventually(lambda: address(page)["cell"], "11.2")
    expect(tokens.get_by_role("button", name="11 ·The 11 ·The, the same")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_text("Layer 1, head 0: what token 11 reads")).to_be_visible()


@pytest.mark.own_tab
def test_who_comes_by_the_menu_begins_with_a_pair_and_back_leads_to_where_they_were(page, app_url):
    """The page puts its pair in the place of an example, as part of the step that leads to it."""
    open_page(page, f"{app_url}/prediction?model=tiny-gpt")
    expect(page.get_by_role("heading", name="Prediction", exact=True)).to_be_visible()
    settle(page)
    before = address(page)["prompt"]
    choose_page(page, "Patching")
    expect(page.get_by_text("brings back 0.996")).to_be_visible()
    eventually(lambda: address(page).get("prompt"), BLUE.clean)
    settle(page)
    page.go_back()
    expect(page.get_by_role("heading", name="Prediction", exact=True)).to_be_visible()
    eventually(lambda: address(page).get("prompt"), before)
