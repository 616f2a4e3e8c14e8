"""Why a score is what it is, as a reader comes to it: from a fresh app to the head that feeds the induction head."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import address, eventually, open_page, settle

MOST_CLICKS = 6


@pytest.mark.viewport(1280, 720)
def test_from_the_first_page_to_the_head_that_feeds_the_induction_head(page, app_url):
    clicks = 0

    def click(element):
        nonlocal clicks
        clicks += 1
        element.click()
        settle(page)

    open_page(page, app_url)
    before = address(page)["cell"]
    click(page.get_by_role("button", name=re.compile("^Layer 1, head 0.*earlier copy")))
    eventually(lambda: address(page)["head"], "1.0")
    telling = address(page)["cell"]
    assert telling != before, "no cell was chosen: it follows the head"
    click(page.get_by_role("radio", name="why this score"))
    expect(page.get_by_text("Of all heads, layer 0, head 0 adds most on the key's side")).to_be_visible()
    click(page.get_by_role("button", name="Open layer 0, head 0 where it reads this").first)
    eventually(lambda: address(page)["head"], "0.0")
    assert address(page)["cell"].split(".")[0] == telling.split(".")[1], "at the key that it wrote"
    assert clicks <= MOST_CLICKS
    page.go_back()
    settle(page)
    eventually(lambda: (address(page)["head"], address(page)["cell"]), ("1.0", telling))


def test_another_key_of_the_row_is_clicked_to_compare_with(page, app_url):
    open_page(page, f"{app_url}/inside_a_head?head=1.0&cell=6.3&cell_shows=why+this+score&than=another+key")
    row = page.locator(".st-key-why_row")
    expect(row.get_by_text("The other key is 0")).to_be_visible()
    cells = row.locator("canvas").first
    box = cells.bounding_box()
    cells.click(position={"x": box["width"] * 4.5 / 13, "y": box["height"] / 2})  # key 4 of 13
    expect(row.get_by_text("The other key is 4")).to_be_visible()
    expect(page.get_by_text(re.compile("^The score is .* the score of key 4"))).to_be_visible()
    eventually(lambda: address(page)["than_key"], "4")
