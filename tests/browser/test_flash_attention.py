"""The page FlashAttention as a reader uses it, in a real browser, its numbers against numpy."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.support.browser import eventually, looks, nothing_sticks_out, on_first_screen, open_page, settle
from tests.support.explorer import LONG, PROMPT, chosen, ids, link
from tests.support.numbers import read_number
from tests.support.transformers_tiny_gpt import queries_keys_values

LAYER, HEAD = 2, 5
SIDE = 5  # 13 tokens: tiles of 5, 5 and 3 a side, of which 6 are read under the causal mask


def flash(page, base, **choices):
    return open_page(
        page, link(base, "flash_attention", **({"prompt": PROMPT, "layer": LAYER, "head": HEAD} | choices))
    )


def place(page):
    return page.locator(".tiles .place")


def rests_at(page, tile, query=None):
    """The page shows this tile, and so does the address."""
    expect(place(page)).to_have_text(f"tile {tile + 1} of 6")
    expect(page).to_have_url(re.compile(rf"[?&]tile={tile}(&|$)"))
    if query is not None:
        expect(page).to_have_url(re.compile(rf"[?&]cell={query}\.\d+(&|$)"))
    settle(page)


def numbers(text):
    """The numbers of a sentence, as the page writes them."""
    return [read_number(one) for one in re.findall(r"−?∞|−?[\d.,]*\d(?:×10[⁻⁰-⁹¹²³]+)?", text)]


@pytest.mark.theme("dark")
def test_a_link_shows_a_tile_whose_arithmetic_is_that_of_numpy(page, app_url):
    """Query 9 in the tile of queries 5–9 and keys 5–9, the third one, after that of keys 0–4."""
    flash(page, app_url, tile=2, query=9, tile_rows=SIDE, tile_columns=SIDE, loops="queries outside")
    expect(place(page)).to_have_text("tile 3 of 6")
    query, key, _ = queries_keys_values(ids(PROMPT), LAYER, HEAD)
    scores = query[9] @ key.T / np.sqrt(32)
    before, after = scores[:5].max(), scores[:10].max()
    sum_before, factor = np.exp(scores[:5] - before).sum(), np.exp(before - after)
    part = np.exp(scores[5:10] - after).sum()
    said = page.locator(".tiles .worked").inner_text()
    expected = [before, scores[5:10].max(), after, factor, sum_before, part, factor * sum_before + part, factor]
    np.testing.assert_allclose(numbers(said.partition("m′ = ")[2])[: len(expected)], expected, rtol=2e-3)
    columns = {
        name: page.locator(f".tiles [data-block='{name}'] .numbers div").all_inner_texts()
        for name in ("maximum", "rescaling", "before.total", "total")
    }
    rows = query[5:10] @ key.T / np.sqrt(32)
    highest = np.where(np.tri(5, 10, 5, dtype=bool), rows[:, :10], -np.inf).max(1)
    np.testing.assert_allclose([numbers(text)[0] for text in columns["maximum"]], highest, rtol=2e-3)
    np.testing.assert_allclose(numbers(columns["rescaling"][4])[0], factor, rtol=2e-3)
    np.testing.assert_allclose(numbers(columns["before.total"][4])[0], sum_before, rtol=2e-3)
    [same] = [
        text for text in page.get_by_text("The same result").locator("xpath=..").all_inner_texts() if "A·V" in text
    ]
    assert numbers(same)[0] < 1e-5


def test_player_keyboard_map_and_rows_move_and_the_address_follows(page, app_url):
    flash(page, app_url, tile=4, query=12)
    expect(place(page)).to_have_text("tile 5 of 6")
    page.keyboard.press("ArrowLeft")  # on the page itself
    rests_at(page, 3)
    page.get_by_role("slider", name="Step").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")  # to the next query of the tile
    rests_at(page, 0, query=1)
    expect(page.locator(".tiles .worked")).to_contain_text("Query 1 ·queen")
    eventually(lambda: chosen(page)["Query"], "1")
    page.get_by_role("combobox", name="Speed").select_option("4×")
    page.get_by_role("button", name="Play", exact=True).click()
    rests_at(page, 5)  # playing ends with the last tile
    box = page.locator(".tiles .map canvas.cells").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 6.5 / 13, box["y"] + box["height"] * 11.5 / 13)
    rests_at(page, 4, query=11)
    page.mouse.move(box["x"] + box["width"] * 12.5 / 13, box["y"] + box["height"] * 0.5 / 13)
    expect(page.get_by_role("tooltip")).to_contain_text("skipped: every cell of this tile is masked")
    page.get_by_role("spinbutton", name=re.compile("^Columns")).fill("13")
    page.keyboard.press("Enter")
    expect(place(page)).to_have_text(re.compile("of 3$"))
    settle(page)


def test_what_is_measured_comes_as_curves_and_can_be_stopped(page, app_url):
    flash(page, app_url)
    page.get_by_role("button", name="Measure").click()
    expect(page.get_by_text(re.compile(r"^At T = \d+, the full-matrix method takes"))).to_be_visible()
    page.locator(".st-key-stop_measuring button").click()
    expect(page.get_by_role("button", name="Measure again")).to_be_visible()
    settle(page)
    expect(
        page.get_by_text(
            re.compile("Measured for one layer of causal attention, with H = 8 heads of D = 32, in float32 on ")
        )
    ).to_be_visible()
    expect(page.locator(".st-key-measured_bytes")).to_be_visible()


@pytest.mark.viewport(1280, 720)
def test_the_main_picture_is_on_the_first_screen_and_nothing_sticks_out(page, app_url):
    flash(page, app_url, query=9)
    parts = (".player", ".map canvas.cells", ".map .legend >> nth=1", "[data-block=mixed]", ".worked")
    on_first_screen(page, *(f".tiles {part}" for part in parts))
    nothing_sticks_out_of_the_page(page)


@pytest.mark.viewport(1280, 720)
def test_numbers_beside_thin_rows_stand_in_the_middle_of_the_band_and_nothing_sticks_out(page, app_url):
    flash(page, app_url, prompt=LONG, query=0)
    lines = page.locator(".tiles .line").evaluate_all(
        """lines => lines.map(line => [...line.querySelectorAll('.band, .token.chosen, .numbers div')].map(node => {
             const { top, bottom } = node.getBoundingClientRect();
             return (top + bottom) / 2; }))"""
    )
    assert [len(middles) for middles in lines] == [5, 4, 2]
    assert all(abs(one - middles[0]) <= 1 for middles in lines for one in middles)
    nothing_sticks_out_of_the_page(page)


def nothing_sticks_out_of_the_page(page):
    for look in looks(page):
        nothing_sticks_out(page, ".tiles section, .tiles .block, .tiles .strip", look, least=10)
