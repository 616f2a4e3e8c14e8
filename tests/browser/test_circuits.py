"""The page Circuits: a click on a head or a line chooses a head, in one step of Back."""

import re
from urllib.parse import urlencode

from playwright.sync_api import expect

from tests.support.browser import address, eventually, open_page, settle

POINTS = ".st-key-composition_lines .scatterlayer .trace"


def click_point(page, trace, number):
    """Plotly hears clicks by their place: what stands above the mark takes them."""
    mark = page.locator(POINTS).nth(trace).locator("path.point").nth(number)
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def shows(page, layer, head):
    expect(page.get_by_text(re.compile(f"^Layer {layer}, head {head} has the copying score"))).to_be_visible()
    settle(page)
    eventually(lambda: address(page)["head"], f"{layer}.{head}")


def test_a_head_of_the_lines_is_chosen_by_a_click_and_back_undoes_it(page, app_url):
    chosen = {"model": "tiny-gpt", "prompt": "Once upon a time", "head": "1.0", "lines": 5}
    open_page(page, f"{app_url}/circuits?{urlencode(chosen)}")
    shows(page, 1, 0)
    last = page.locator(POINTS).count() - 1
    click_point(page, last, 2 * 8 + 6)  # layer 2, head 6
    shows(page, 2, 6)
    click_point(page, last - 1, 2)  # the middle of the widest line, from layer 1, head 2 to the chosen head
    shows(page, 1, 2)
    page.go_back()
    shows(page, 2, 6)
    page.go_back()
    shows(page, 1, 0)
