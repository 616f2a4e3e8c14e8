"""The page Over a text under hand: an example is a link to its very cell, in both themes and in a narrow window."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.browser import open_page, settle
from tests.support.explorer import chosen, link
from viz_ui.frame.text_in_address import to_address

TEXT = "The red fox met a grey goose by the old mill, and the fox said that the mill was old. " * 14
LINK = {
    "read": "a text of yours",
    "pasted": to_address(TEXT),
    "head": "1.0",
    "pattern": "induction",
    "examples": "true",
}


@pytest.mark.theme("dark")
@pytest.mark.viewport(900, 900)
def test_an_example_opens_heads_at_its_text_head_and_cell(page, app_url):
    open_page(page, link(app_url, "over_a_text", **LINK))
    example = page.locator(".shaded-texts a.text").first
    words = example.locator(".head span").first.inner_text()
    query, key, weight = re.search(r"query (\d+) .* reads key (\d+) .* with the weight ([\d.]+)", words).groups()
    asks = example.locator(".token.asks")
    box, room = asks.bounding_box(), example.bounding_box()
    assert room["x"] <= box["x"], "a framed token lies within its text"
    assert box["x"] + box["width"] <= room["x"] + room["width"] <= 900
    asks.hover()
    expect(page.locator(".shaded-texts [role=tooltip]")).to_contain_text("the query's weight on it")
    with page.context.expect_page() as opening:
        example.click()
    heads = opening.value
    try:
        settle(heads)
        expect(heads.get_by_role("heading", name=f"Query {query} and key {key}")).to_be_visible()
        assert chosen(heads) == {"Layer": "1", "Head": "0", "Query": query, "Key": key}
        expect(heads.get_by_role("textbox", name="Prompt", exact=True)).to_have_value(re.compile("^The red fox"))
        expect(heads.locator(".stMain")).to_contain_text(weight.rstrip("0"))
    finally:
        heads.close()
    expect(page.get_by_role("heading", name="Over a text")).to_be_visible()


def test_a_text_file_is_read_by_the_browser_and_nothing_is_uploaded(page, app_url, tmp_path):
    text = TEXT * 400  # half a megabyte
    (tmp_path / "tale.txt").write_text(text)
    (tmp_path / "picture.txt").write_bytes(b"\x89PNG\xff\xfe" * 50)
    open_page(page, link(app_url, "over_a_text", read="a text of yours"))
    page.get_by_role("button", name=re.compile("characters")).click()
    chosen = page.locator(".text-file input")
    chosen.set_input_files(tmp_path / "tale.txt")
    expect(page.get_by_text(f"of the file “tale.txt” ({len(text):,} characters)")).to_be_visible(timeout=60_000)
    settle(page)
    chosen.set_input_files(tmp_path / "picture.txt")
    expect(page.get_by_text("The file “picture.txt” is not text in UTF-8")).to_be_visible()
    settle(page)
