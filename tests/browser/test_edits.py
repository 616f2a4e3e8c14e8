"""An edit by a click: the list, the banner, the picture, and Back, which takes it away again."""

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.support.browser import address, choose_page, eventually, open_page, settle

PROMPT = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"


def banner(page):
    return page.locator(".st-key-edits_banner")


def choose_item(page, menu, item):
    page.get_by_role("button", name=menu).click()
    page.get_by_role("menuitem", name=item).or_(page.get_by_text(item, exact=True)).first.click()


@pytest.mark.own_tab
@pytest.mark.own_tab  # its history is counted
def test_a_click_adds_an_edit_and_back_undoes_it(page, app_url):
    link = urlencode({"model": "tiny-gpt", "prompt": PROMPT, "head": "1.0", "cell": "20.9"})
    open_page(page, f"{app_url}/switch_off?{link}")
    eventually(lambda: address(page).get("head"), "1.0")
    settle(page)
    expect(banner(page)).to_have_count(0)
    entries = page.evaluate("history.length")
    choose_item(page, re.compile("^Edit head 0 of layer 1"), "Switch it off")
    expect(banner(page)).to_contain_text("Head 0 of layer 1 is switched off.")
    eventually(lambda: address(page).get("edits"), "off:1.0")
    settle(page)
    assert page.evaluate("history.length") == entries + 1
    choose_page(page, "Heads")
    expect(banner(page)).to_contain_text("Head 0 of layer 1 is switched off.")
    settle(page)
    choose_item(page, re.compile("^Edit this weight"), "Set the weight to 1")
    expect(banner(page)).to_contain_text("query 20 reads key 9 with the weight 1.")
    settle(page)
    page.get_by_role("button", name=re.compile("^List of edits")).click()
    rows = page.get_by_role("button", name="Remove", exact=True)
    expect(rows).to_have_count(2)
    rows.first.click()
    expect(banner(page)).not_to_contain_text("Head 0 of layer 1 is switched off.")
    eventually(lambda: address(page).get("edits"), "weight:1.0:20.9:1")
    settle(page)
    page.go_back()
    expect(banner(page)).to_contain_text("query 20 reads key 9 with the weight 1. And 1 more edit.")
    settle(page)
    page.go_back()
    eventually(lambda: address(page).get("edits"), "off:1.0")
    settle(page)
    page.go_back()  # to the other page
    page.go_back()
    expect(banner(page)).to_have_count(0)
    eventually(lambda: address(page).get("edits"), None)
    page.go_forward()
    expect(banner(page)).to_contain_text("Head 0 of layer 1 is switched off.")
