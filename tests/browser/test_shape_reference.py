"""The shape reference on a projector, in a narrow dark window, and on paper."""

from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from tests.support.browser import nothing_sticks_out, open_page

CHOSEN = {"model": "tiny-gpt", "prompt": "Once upon a time", "layer": 1, "head": 0, "query": 3, "key": 2}


# Headings behind which a sheet of paper may end: the box that they close allows it, or is laid out so that it must.
MAY_STAND_ALONE = """headings => headings.filter((heading) => {
  for (let box = heading; box.dataset.testid !== "stMainBlockContainer"; box = box.parentElement) {
    if (box.nextElementSibling && box.dataset.testid !== undefined) {
      const { breakAfter } = getComputedStyle(box), around = getComputedStyle(box.parentElement).display;
      if (around === "block") return breakAfter !== "avoid";
    }
  }
  return false;
}).map((heading) => heading.innerText)"""


def link(base, **choices):
    return f"{base}/shape_reference?{urlencode(CHOSEN | choices)}"


@pytest.mark.viewport(1280, 720)
def test_the_tables_are_there_on_screen_and_on_paper(page, app_url):
    open_page(page, link(app_url))
    cell = page.get_by_role("cell", name="blocks.1.attn.weights")
    expect(cell).to_be_visible()
    assert page.get_by_role("cell", name="embed.tokens").bounding_box()["y"] < 720, "tables begin on the first screen"
    assert not page.locator(".katex-error").count(), "a formula that TeX does not understand"
    page.emulate_media(media="print")
    expect(page.get_by_test_id("stSidebar")).to_be_hidden()
    expect(cell).to_be_visible()
    alone = page.get_by_role("main").get_by_role("heading").evaluate_all(MAY_STAND_ALONE)
    assert alone == [], "headings that may be the last thing on a sheet of paper"


@pytest.mark.theme("dark")
@pytest.mark.viewport(900, 900)
def test_a_narrow_dark_window_has_all_of_the_columns(page, app_url):
    open_page(page, link(app_url, model="tiny-seq2seq", prompt="3 May 2024", target="2", part="cross"))
    expect(page.get_by_role("cell", name="decoder.blocks.1.cross.weights")).to_be_visible()
    nothing_sticks_out(page, "[data-testid='stTable']", "narrow, dark", least=5)


@pytest.mark.viewport(900, 900)
def test_the_longest_names_of_hook_sites_end_inside_of_their_table(page, app_url):
    open_page(page, link(app_url, model="tiny-seq2seq", prompt="the 3rd of May 2024", part="cross"))
    rights = page.locator("[data-testid='stTable']:has(td code)").evaluate_all(
        "all => all.map(one => [one, one.querySelector('table')].map(n => n.getBoundingClientRect().right))"
    )
    assert len(rights) == 4
    assert [inner for outer, inner in rights if inner > outer + 1] == []
