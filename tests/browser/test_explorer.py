"""The explorer as a reader uses it, in a real browser, its numbers against another implementation."""

import csv
import io
import re

import numpy as np
import pytest
from playwright.sync_api import expect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.support.browser import address, choose_page, eventually, looks, nothing_sticks_out, open_page, settle
from tests.support.explorer import LONG, PROMPT, chosen, ids, link
from tests.support.transformers_tiny_gpt import attentions

LAYER, HEAD, QUERY, KEY = 2, 5, 9, 4


def type_prompt(page, prompt):
    page.get_by_role("textbox", name="Prompt").fill(prompt)
    page.keyboard.press("Control+Enter")


def click_cell(page, panel, row, column):
    cells = page.locator(f"[data-panel='{panel}'] canvas.cells")
    width, height = cells.evaluate("c => [c.dataset.cellWidth, c.dataset.cellHeight].map(Number)")
    cells.click(position={"x": (column + 0.5) * width, "y": (row + 0.5) * height})


def shown_weight(page):
    """The weight at the end of the arithmetic, as KaTeX wrote it for screen readers."""
    row = page.locator("tr", has_text="divided by the row's sum")
    source = row.locator("annotation").first.text_content()
    mantissa, power = re.search(r"= ([\d.]+)(?: \\times 10\^\{(-?\d+)\})?$", source.strip()).groups()
    return float(mantissa) * 10.0 ** int(power or 0)


def test_from_an_example_to_the_number_of_a_cell(page, app_url):
    open_page(page, app_url)
    page.get_by_role("button", name="Examples").click()
    page.get_by_role("menuitem", name="Who is she?").or_(page.get_by_text("Who is she?")).first.click()
    expect(page.get_by_role("textbox", name="Prompt")).to_have_value(PROMPT)
    expect(page.get_by_text(f"{len(ids(PROMPT))} of 256 tokens")).to_be_visible()
    settle(page)
    page.get_by_role("button", name=re.compile(f"^Layer {LAYER}, head {HEAD}")).click()
    expect(page.get_by_text(f"Layer {LAYER}, head {HEAD}: weights")).to_be_visible()
    settle(page)
    click_cell(page, "weights", QUERY, KEY)
    expect(page.get_by_role("heading", name=f"Query {QUERY} and key {KEY}")).to_be_visible()
    settle(page)
    weight = attentions(ids(PROMPT))[LAYER, HEAD, QUERY, KEY]
    eventually(lambda: shown_weight(page), pytest.approx(weight, rel=1e-3))


@pytest.mark.slow  # that any server restores a view, tests/pages/test_address.py sees
def test_a_link_opened_on_a_fresh_server_restores_the_view(page, fresh_app_url):
    choices = {"prompt": PROMPT, "layer": 3, "head": 1, "query": 7, "key": 2, "mask": "bidirectional"}
    for path in ("inside_a_head", ""):
        open_page(page, link(fresh_app_url, path, **choices))
        expect(page.get_by_role("heading", name="Query 7 and key 2")).to_be_visible()
        eventually(lambda: chosen(page), {"Layer": "3", "Head": "1", "Query": "7", "Key": "2"})
        expect(page.get_by_role("textbox", name="Prompt")).to_have_value(PROMPT)
        expect(page.get_by_role("radio", name="bidirectional")).to_be_checked()


def test_every_choice_stands_in_the_address_and_back_is_undo(page, app_url):
    open_page(page, app_url)
    first = chosen(page)
    page.get_by_role("button", name=re.compile("^Layer 3, head 7")).click()
    expect(page.get_by_text("Layer 3, head 7: weights")).to_be_visible()
    settle(page)
    expected = {"model": "tiny-gpt", "head": "3.7"}
    eventually(lambda: {name: address(page)[name] for name in expected}, expected)
    page.go_back()
    expect(page.get_by_text(f"Layer {first['Layer']}, head {first['Head']}: weights")).to_be_visible()
    settle(page)
    eventually(lambda: chosen(page), first)


def test_choices_hold_on_every_page(page, app_url):
    open_page(page, link(app_url, prompt=PROMPT, layer=1, head=6, query=5, key=3))
    choose_page(page, "Inside a head")
    expect(page.get_by_role("heading", name="Inside a head", exact=True)).to_be_visible()
    settle(page)
    expected = {"Layer": "1", "Head": "6", "Query": "5", "Key": "3"}
    eventually(lambda: chosen(page), expected)
    click_cell(page, "weights", 6, 2)
    expect(page.get_by_role("heading", name="Query 6 and key 2")).to_be_visible()
    settle(page)
    choose_page(page, "Heads")
    expect(page.get_by_role("heading", name="Heads", exact=True)).to_be_visible()
    settle(page)
    eventually(lambda: chosen(page), expected | {"Query": "6", "Key": "2"})


class HeldBack:
    """What the server says reaches the browser late: from `start` to `release`."""

    def __init__(self, page):
        self.page, self.holds, self.held, self.asked = page, False, [], 0
        page.route_web_socket(re.compile("_stcore/stream"), self._connect)

    def _connect(self, browser):
        server = browser.connect_to_server()

        def ask(message):
            self.asked += 1
            server.send(message)

        browser.on_message(ask)
        server.on_message(lambda message: self.held.append((browser, message)) if self.holds else browser.send(message))

    def start(self):
        self.holds = True

    def asks_more(self, than):
        """Whether the browser has asked the server for more runs than so many."""
        self.page.evaluate("0")  # messages are seen while the browser is spoken to
        return self.asked > than

    def whole_run_ended(self):
        self.page.evaluate("0")
        messages = [ForwardMsg.FromString(message) for _, message in self.held]
        return any(
            message.WhichOneof("type") == "script_finished"
            and message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY
            for message in messages
        )

    def release(self):
        self.holds = False
        for browser, message in self.held:
            browser.send(message)


@pytest.mark.own_tab  # its line to the server stays bent
@pytest.mark.parametrize("answered", [True, False], ids=["after the answer", "before the answer"])
def test_page_sidebar_and_address_agree_after_a_click_and_at_once_another_page(page, app_url, answered):
    """The browser asks for the page before it hears what the server made of the click: its widgets are of before."""
    line = HeldBack(page)
    open_page(page, link(app_url, prompt=PROMPT, layer=2, head=5, query=5, key=3))
    line.start()
    asked = line.asked
    page.get_by_role("button", name=re.compile("^Layer 3, head 1")).click()
    eventually(lambda: line.asks_more(asked), True)
    if answered:
        eventually(line.whole_run_ended, True)
    asked = line.asked
    choose_page(page, "Inside a head")
    eventually(lambda: line.asks_more(asked), True)
    line.release()
    said = page.get_by_text(re.compile("Below is every step of layer"))

    def seen():
        page_says = re.search(r"every step of layer (\d), head (\d)", said.inner_text()).groups()
        sidebar, in_address = chosen(page), address(page)
        return page_says, (sidebar["Layer"], sidebar["Head"]), tuple(in_address["head"].split("."))

    heard, unheard = (("3", "1"),) * 3, (("2", "5"),) * 3
    eventually(seen, lambda now: now == heard or (now == unheard and not answered))
    settle(page)
    assert seen() in ((heard,) if answered else (heard, unheard))
    layer = page.get_by_role("spinbutton", name=re.compile("^Layer"))
    layer.fill("2")  # by hand, and what it was before: the later choice
    layer.press("Enter")
    eventually(seen, lambda now: now in ((("2", "1"),) * 3, unheard))
    settle(page)
    assert len(set(seen())) == 1


def test_the_keyboard_chooses_head_and_cell_and_a_row_of_the_table_its_head(page, app_url):
    open_page(page, link(app_url, prompt=PROMPT, layer=1, head=1, query=5, key=3))
    page.get_by_role("button", name=re.compile("^Layer 1, head 1")).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_text("Layer 2, head 2: weights")).to_be_visible()
    settle(page)
    page.locator("[data-panel='weights'] .stage").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Query 4 and key 3")).to_be_visible()
    settle(page)
    box = page.get_by_test_id("stDataFrame").first.bounding_box()
    page.mouse.click(box["x"] + 15, box["y"] + 35 * 3.5)  # the mark of the third row: layer 0, head 2
    expect(page.get_by_text("Layer 0, head 2: weights")).to_be_visible()
    settle(page)


def test_the_whole_matrix_saved_is_that_of_another_implementation(page, app_url):
    open_page(page, link(app_url, "inside_a_head", prompt=PROMPT, layer=LAYER, head=HEAD, query=2, key=1))
    page.locator("[data-panel='weights']").get_by_role("button").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    settle(page)
    with page.expect_download() as download:
        dialog.get_by_role("button", name="CSV table").click()
    table = list(csv.reader(io.StringIO(download.value.path().read_text("utf-8-sig"))))
    assert download.value.suggested_filename == "tiny-gpt_layer2_head5_weights.csv"
    weights = attentions(ids(PROMPT))[LAYER, HEAD]
    saved = np.array([[float(number or "nan") for number in row[1:]] for row in table[1:]])
    np.testing.assert_allclose(saved, np.where(np.tri(len(weights), dtype=bool), weights, np.nan), atol=1e-5)
    with page.expect_download() as download:
        dialog.get_by_role("button", name="NPZ of the whole head").click()
    with np.load(download.value.path()) as head:
        scores = np.where(head["mask"], head["q"] @ head["k"].T / np.sqrt(32), -np.inf)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        np.testing.assert_allclose(head["weights"], weights, atol=1e-5)
        np.testing.assert_allclose(head["mixed"], weights @ head["v"], atol=1e-5)


def test_any_prompt_typed_gets_a_picture_or_a_sentence(page, app_url):
    open_page(page, link(app_url, prompt=PROMPT, layer=0, head=0, query=9, key=9))
    drawn, sentence = page.locator("[data-panel='weights']"), page.get_by_test_id("stAlert")
    for prompt in ("", " ", "word " * 300, "a\x00b", "👩‍👩‍👧‍👦 e\u0301 שלום", "<b>*x*</b> $y$ | :red[z]", "a"):
        type_prompt(page, prompt)
        n_tokens = len(ids(prompt))
        expect(page.get_by_text(re.compile(f"^{n_tokens} of 256 tokens"))).to_be_visible()
        settle(page)
        expect(drawn if 0 < n_tokens <= 256 else sentence).to_be_visible()
        expect(sentence if 0 < n_tokens <= 256 else drawn).to_have_count(0)


@pytest.mark.parametrize("path", ["", "inside_a_head"])
@pytest.mark.parametrize("prompt", ["Once upon a time there was a king.", LONG], ids=["short", "200 tokens"])
def test_nothing_sticks_out_of_the_page(page, app_url, path, prompt):
    open_page(page, link(app_url, path, prompt=prompt, layer=1, head=2, query=5, key=2))
    for look in looks(page):
        nothing_sticks_out(page, "[data-panel]", look)


def test_within_another_page_the_main_picture_stands_alone(page, app_url):
    """Also after a click, which writes the address."""
    open_page(page, link(app_url, "masks", prompt=PROMPT) + "&embed=true")
    picture = page.locator("[class*='st-key-picture_']")
    expect(picture.get_by_text("Weights under mask A")).to_be_visible()
    click_cell(page, "weights A", QUERY, KEY)
    eventually(lambda: address(page).get("cell"), f"{QUERY}.{KEY}")
    settle(page)
    eventually(lambda: address(page).get("embed"), "true")
    for hidden in ("stSidebar", "stHeader"):
        expect(page.get_by_test_id(hidden).filter(visible=True)).to_have_count(0)
    seen = page.evaluate("document.querySelector('[data-testid=stMainBlockContainer]').innerText")
    assert seen.strip() == picture.inner_text().strip()
    assert "Masks" not in seen
