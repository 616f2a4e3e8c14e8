"""The page Masks as a reader uses it: masks chosen and drawn, linked, kept in the address, checked against torch."""

import csv
import io
import re
from urllib.parse import urlencode

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch.nn import functional as F

import viz_model as vm
from tests.support.browser import (
    address,
    choose_page,
    eventually,
    looks,
    nothing_sticks_out,
    on_first_screen,
    open_page,
    settle,
)
from tests.support.transformers_tiny_gpt import queries_keys_values
from viz_model.masking.drawn_mask import encode_mask

PROMPT = "The queen gave the girl a ring, and she thanked her."
LAYER, HEAD = 2, 5
IDS = vm.load("tiny-gpt").tokenizer.encode(PROMPT)
T = len(IDS)
TRIANGLE = np.tri(T, dtype=bool)
LONG = ("The king and the queen had a daughter who was as beautiful as the day. " * 13)[:900]


def link(base, **choices):
    chosen = {"model": "tiny-gpt", "prompt": PROMPT, "layer": LAYER, "head": HEAD, "query": 9, "key": 4} | choices
    return f"{base}/masks?{urlencode(chosen)}"


def editor(page, side="B"):
    return page.locator(f".st-key-mask_editor_{side}")


def place(page, row, column, side="B"):
    """The middle of a cell of the editor, from its upper left corner."""
    size = editor(page, side).locator(".cells").bounding_box()["width"] / T
    return {"x": (column + 0.5) * size, "y": (row + 0.5) * size}


def expect_open(page, cells, side="B"):
    """So many open cells, in the editor and, when the pass has run, in words."""
    expect(editor(page, side).locator("canvas")).to_have_attribute("data-open", str(cells.sum()))
    expect(page.get_by_text(f"{cells.sum()} of {T * T} cells are open").first).to_be_visible()
    settle(page)


def saved(page, panel):
    """The matrix of a panel as its CSV file has it; NaN where a cell is empty, because it is masked."""
    page.locator(f"[data-panel='{panel}']").get_by_role("button").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    settle(page)
    with page.expect_download() as download:
        dialog.get_by_role("button", name="CSV table").click()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    table = list(csv.reader(io.StringIO(download.value.path().read_text("utf-8-sig"))))
    return np.array([[float(number or "nan") for number in row[1:]] for row in table[1:]])


def unmasked(values, allowed):
    return np.where(allowed, values, np.nan)


def sdpa_weights(allowed):
    q, k, _ = (torch.tensor(part) for part in queries_keys_values(IDS, LAYER, HEAD, allowed))
    mixed = F.scaled_dot_product_attention(q, k, torch.eye(T, dtype=torch.float64), attn_mask=torch.tensor(allowed))
    return np.where(allowed.any(1, keepdims=True), mixed.numpy(), 0)


def test_a_chosen_window_gives_the_weights_of_torch(page, app_url):
    open_page(page, link(app_url))
    page.get_by_role("combobox", name=re.compile("^Mask B")).click()
    page.get_by_role("option", name="sliding window").click()
    expect(page.get_by_text("sliding window of 3 ·")).to_be_visible()
    settle(page)
    width = page.get_by_role("spinbutton", name="Width")
    width.fill("2")
    width.press("Enter")
    expect(page.get_by_text("sliding window of 2 ·")).to_be_visible()
    settle(page)
    window = TRIANGLE & ~np.tri(T, k=-2, dtype=bool)
    np.testing.assert_allclose(
        saved(page, "difference"), unmasked(sdpa_weights(window) - sdpa_weights(TRIANGLE), TRIANGLE), atol=1e-5
    )
    eventually(lambda: address(page)["mask_b"], "sliding window")
    eventually(lambda: address(page)["width_b"], "2")


def test_a_mask_drawn_with_the_pointer_is_run_and_stands_in_its_link(page, app_url):
    open_page(page, link(app_url, mask_b="drawn by hand"))
    cells, drawn = editor(page).locator(".cells"), TRIANGLE.copy()
    cells.click(position=place(page, 2, 7))
    drawn[2, 7] = True
    expect_open(page, drawn)
    start, end = place(page, 8, 1), place(page, 4, 1)
    box = cells.bounding_box()
    page.mouse.move(box["x"] + start["x"], box["y"] + start["y"])
    page.mouse.down()
    page.mouse.move(box["x"] + end["x"], box["y"] + end["y"])  # in one leap: no gap may stay
    page.mouse.up()
    drawn[4:9, 1] = False
    expect_open(page, drawn)
    editor(page).locator(".row-labels").click(position={"x": 20, "y": place(page, 0, 0)["y"]})
    drawn[0] = True
    expect_open(page, drawn)
    editor(page).locator(".column-labels").click(position={"x": place(page, 0, 5)["x"], "y": 20})
    drawn[:, 5] = True
    expect_open(page, drawn)
    eventually(lambda: address(page)["cells_b"], encode_mask(drawn))
    sent = page.url
    page.goto("about:blank")
    open_page(page, sent)
    expect_open(page, drawn)
    np.testing.assert_allclose(saved(page, "weights B"), unmasked(sdpa_weights(drawn), drawn), atol=1e-5)


def test_undo_redo_buttons_and_the_browser_s_back(page, app_url):
    open_page(page, link(app_url, mask_b="drawn by hand"))
    button = lambda name: editor(page).get_by_role("button", name=name)  # noqa: E731
    button("Start from none").click()
    expect_open(page, np.zeros((T, T), bool))
    expect(page.get_by_text(f"Queries 0–{T - 1} may read no token")).to_be_visible()
    button("Invert every cell").click()
    expect_open(page, np.ones((T, T), bool))
    button("Undo").click()
    expect_open(page, np.zeros((T, T), bool))
    button("Redo").click()
    expect_open(page, np.ones((T, T), bool))
    button("Start from causal").click()
    expect_open(page, TRIANGLE)
    page.go_back()
    expect_open(page, np.ones((T, T), bool))


def test_a_mask_is_drawn_from_the_keyboard(page, app_url):
    open_page(page, link(app_url, mask_b="drawn by hand", query=3, key=3))
    cells, drawn = editor(page).locator(".cells"), TRIANGLE.copy()
    cells.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    drawn[3, 4] = True
    expect_open(page, drawn)
    expect(editor(page).locator(".said")).to_contain_text("query 3 ·the, key 4 ·girl: open")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    drawn[3, 4:7] = True
    expect_open(page, drawn)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    expect(editor(page).locator(".said")).to_contain_text("query 3 ·the, all keys")
    page.keyboard.press("Enter")
    drawn[3] = True
    expect_open(page, drawn)
    page.keyboard.press("Control+z")
    drawn[3, 7:] = False
    expect_open(page, drawn)
    page.keyboard.press("Control+y")
    drawn[3] = True
    expect_open(page, drawn)
    eventually(lambda: address(page)["cells_b"], encode_mask(drawn))


def test_strokes_quicker_than_answers_are_all_kept(page, app_url):
    open_page(page, link(app_url, mask_b="drawn by hand", query=0, key=0))
    editor(page).locator(".cells").focus()
    page.keyboard.press("ArrowRight")
    for _ in range(6):
        page.keyboard.press("Space")
        page.keyboard.press("ArrowRight")
    drawn = TRIANGLE.copy()
    drawn[0, 1:7] = True
    expect_open(page, drawn)
    eventually(lambda: address(page)["cells_b"], encode_mask(drawn))


def test_both_masks_can_be_drawn_and_survive_another_page(page, app_url):
    drawn = TRIANGLE.copy()
    drawn[0, 3] = True
    open_page(page, link(app_url, mask_a="drawn by hand", cells_a=encode_mask(drawn), mask_b="drawn by hand"))
    expect_open(page, drawn, "A")
    expect_open(page, TRIANGLE, "B")
    choose_page(page, "Inside a head")
    expect(page.get_by_role("heading", name="Inside a head", exact=True)).to_be_visible()
    settle(page)
    choose_page(page, "Masks")
    expect(page.get_by_role("heading", name="Masks", exact=True)).to_be_visible()
    settle(page)
    expect_open(page, drawn, "A")
    eventually(lambda: address(page)["cells_a"], encode_mask(drawn))


def test_pointing_at_a_cell_marks_it_in_every_picture(page, app_url):
    open_page(page, link(app_url))
    cells = page.locator("[data-panel='weights A'] canvas.cells")
    size = float(cells.get_attribute("data-cell-width"))
    cells.hover(position={"x": 2.5 * size, "y": 7.5 * size})
    for panel in ("weights A", "weights B", "difference", "mask A", "mask B"):
        frame = page.locator(f"[data-panel='{panel}'] .frame.hovered")
        expect(frame.and_(page.locator(".row"))).to_have_attribute("data-index", "7")
        expect(frame.and_(page.locator(".column"))).to_have_attribute("data-index", "2")
    cells.click(position={"x": 2.5 * size, "y": 7.5 * size})
    expect(page.get_by_text("that follows query 7")).to_be_visible()
    settle(page)
    eventually(lambda: address(page)["cell"], "7.2")


def test_the_reader_changes_a_token_and_sees_what_it_reaches(page, app_url):
    open_page(page, link(app_url, changed=6))
    field = page.get_by_role("textbox", name="New token")
    field.fill("·dragonfly wings")
    field.press("Enter")
    expect(page.get_by_text("Type a text that is one token")).to_be_visible()
    settle(page)
    field.fill("·king")
    field.press("Enter")
    expect(
        page.get_by_text("Nothing before position 6 changed: the largest difference there is exactly 0")
    ).to_be_visible()
    expect(page.get_by_text("All 6 positions before position 6 changed")).to_be_visible()
    settle(page)
    page.get_by_role("button", name="Likely tokens").click()
    page.get_by_role("menuitem").nth(1).click()
    expect(field).not_to_have_value("·king")
    settle(page)
    dots = page.locator("[data-panel='stream A']").get_by_text("exactly 0")
    expect(dots).to_be_visible()


def test_a_long_prompt_is_drawn_on_enlarged_cells(page, app_url):
    open_page(page, link(app_url, prompt=LONG, mask_b="drawn by hand", query=0, key=0))
    canvas = editor(page).locator("canvas")
    length = int(canvas.get_attribute("width"))
    width = editor(page).locator(".cells").bounding_box()["width"]
    assert width / length >= 9  # large enough to be hit
    editor(page).get_by_role("button", name="Larger cells").click()
    eventually(lambda: editor(page).locator(".cells").bounding_box()["width"], lambda now: now > width)
    before = int(canvas.get_attribute("data-open"))
    editor(page).locator(".cells").focus()
    page.keyboard.press("End")
    page.keyboard.press("Space")
    expect(canvas).to_have_attribute("data-open", str(before + 1))
    expect(page.get_by_text("mask B opens 1 cell.")).to_be_visible()
    settle(page)
    at_the_end = "s => s.scrollLeft + s.clientWidth >= s.scrollWidth - 20"  # the cell that was reached is in view
    eventually(lambda: editor(page).locator(".scroller").evaluate(at_the_end), True)


@pytest.mark.viewport(1280, 720)
@pytest.mark.parametrize("prompt", [PROMPT, LONG], ids=["short", "200 tokens"])
def test_weights_and_difference_are_on_the_first_screen_and_nothing_sticks_out(page, app_url, prompt):
    open_page(page, link(app_url, prompt=prompt))
    panels = ("weights A", "weights B", "difference")
    on_first_screen(page, *(f"[data-panel='{panel}'] canvas.cells" for panel in panels))
    for look in looks(page):
        nothing_sticks_out(page, "[data-panel]", look)


@pytest.mark.parametrize("prompt", [PROMPT, LONG], ids=["short", "200 tokens"])
def test_nothing_sticks_out_where_a_mask_is_drawn(page, app_url, prompt):
    open_page(page, link(app_url, prompt=prompt, mask_b="drawn by hand"))
    for look in looks(page):
        nothing_sticks_out(page, "[data-panel], .mask-editor .scroller, .mask-editor .tools", look, least=3)
