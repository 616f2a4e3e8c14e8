"""The page Prediction as a reader uses it: a cell by click and by keyboard, a token that is typed, and Back."""

from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

import viz_model as vm
from tests.support.browser import address, eventually, nothing_sticks_out, on_first_screen, open_page, settle

PROMPT = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"


def link(base, **choices):
    return f"{base}/prediction?{urlencode({'model': 'tiny-gpt', 'prompt': PROMPT} | choices)}"


def chosen(page):
    return page.locator("[data-row][tabindex='0']")


def answer(page):
    return page.get_by_test_id("stMarkdown").filter(has_text="the likeliest token after")


@pytest.mark.own_tab
@pytest.mark.viewport(1280, 720)
def test_a_cell_by_click_and_by_keyboard_and_back(page, app_url):
    open_page(page, link(app_url, head="2.3", cell="20.0"))
    expect(chosen(page)).to_have_text("·old")
    expect(answer(page)).to_contain_text("After layer 2")
    on_first_screen(page, ".word-matrix", "[data-testid=stDataFrame]")
    before = page.evaluate("history.length")
    page.get_by_role("button", name="layer 1, token 18").click()
    expect(answer(page)).to_contain_text("After layer 1, the likeliest token after 18")
    settle(page)
    eventually(lambda: (address(page)["head"], address(page)["cell"]), ("1.3", "18.0"))
    eventually(lambda: page.evaluate("history.length"), before + 1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tooltip").first).to_contain_text("token 19")
    page.keyboard.press("Enter")
    expect(answer(page)).to_contain_text("After layer 2, the likeliest token after 19")
    settle(page)
    assert page.evaluate("() => { let a = document.activeElement; while (a.shadowRoot) a = a.shadowRoot.activeElement;"
                         " return [a.dataset.row, a.dataset.column]; }") == ["2", "19"]  # fmt: skip
    page.go_back()
    expect(answer(page)).to_contain_text("After layer 1, the likeliest token after 18")
    settle(page)
    page.go_back()
    expect(answer(page)).to_contain_text("After layer 2, the likeliest token after 20")


def test_a_token_that_is_typed(page, app_url):
    model = vm.load("tiny-gpt")
    [king] = model.ids(" king")
    terms = model.trace(PROMPT).logit_terms(king, 20, "mean")
    open_page(page, link(app_url, cell="20.0"))
    page.get_by_role("combobox", name="Token", exact=True).fill("·king")
    page.keyboard.press("Enter")
    expect(page.get_by_text("The logit of “·king” is")).to_contain_text(f"{terms.logit:.3f}".replace("-", "")[:4])
    settle(page)
    eventually(lambda: address(page)["token"], "·king")
    page.go_back()
    expect(page.get_by_text("The logit of “·old” is")).to_be_visible()


@pytest.mark.viewport(900, 900)
@pytest.mark.theme("dark")
def test_a_long_prompt_in_a_narrow_window(page, app_url):
    """The chosen column is in view, its row's name stays beside it, and nothing sticks out."""
    open_page(page, link(app_url, prompt=" ".join(["The old king had a ring."] * 28), cell="150.2", head="1.0"))
    box, view = chosen(page).bounding_box(), page.locator(".scroller").first.bounding_box()
    label = page.get_by_role("rowheader", name="layer 1").bounding_box()
    assert label["x"] + label["width"] <= box["x"]
    assert box["x"] + box["width"] <= view["x"] + view["width"]
    nothing_sticks_out(page, ".word-matrix, .panels, [data-testid=stDataFrame]", "narrow", least=4)
