"""The page Positions as a reader uses it: words moved, tokens turned, kept in the address, against `transformers`."""

import re
from urllib.parse import urlencode

import pytest
import torch
from playwright.sync_api import expect
from transformers.models.llama import modeling_llama

from tests.support.browser import address, eventually, nothing_sticks_out, on_first_screen, open_page, settle
from tests.support.numbers import read_number
from tests.support.rotary_model import NAME, save_turning
from viz_model.positions.rotary import new_angles, rotary_pairs

PROMPT = "The queen gave the girl a ring, and she thanked her."
LONG = ("The king and the queen had a daughter who was as beautiful as the day. " * 13)[:900]
LAYER, HEAD, QUERY, KEY, WIDTH = 1, 3, 9, 4, 6
SECTIONS = ("Shuffle the words", "Tables", "Rotation", "Where they enter", "Longer texts")
PARTS = "[data-panel], .rotary > *, .rotary .pictures > *, .token-order .chip, .stPlotlyChart, .stDataFrame"


@pytest.fixture(scope="session")
def turning_trace(tmp_path_factory):
    return save_turning(tmp_path_factory.mktemp("turning")).trace(PROMPT)


def link(base, **choices):
    chosen = {"model": "tiny-gpt", "prompt": PROMPT, "layer": LAYER, "head": HEAD, "query": QUERY, "key": KEY}
    return f"{base}/positions?{urlencode(chosen | choices)}"


def chips(page):
    return [int(text.split()[0]) for text in page.locator(".token-order .chip").all_inner_texts()]


@pytest.mark.viewport(1280, 720)
def test_words_are_moved_by_hand_and_by_keys_and_attention_moves_along(page, app_url):
    open_page(page, link(app_url, order="-".join(map(str, range(13)))))
    on_first_screen(page, *(f"[data-panel='{panel}'] canvas.cells" for panel in ("typed", "shuffled", "difference")))
    boxes = [page.locator(f".token-order .chip[value='{token}']").bounding_box() for token in (1, 4)]
    page.mouse.move(boxes[0]["x"] + 5, boxes[0]["y"] + 5)
    page.mouse.down()
    page.mouse.move(boxes[1]["x"] + boxes[1]["width"] - 3, boxes[1]["y"] + 5, steps=12)
    page.mouse.up()
    eventually(lambda: chips(page)[:5], [0, 2, 3, 4, 1])
    expect(page.get_by_text("Your order")).to_be_visible()
    settle(page)
    page.locator(".token-order .chip[value='1']").focus()
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+ArrowLeft")
    order = [0, 2, 3, 5, 4, 1, *range(6, 13)]
    eventually(lambda: chips(page), order)
    labels = page.locator("[data-panel='shuffled'] .labels.rows")
    expect(labels).to_contain_text("5 ·a4 ·girl1 ·queen")
    settle(page)
    eventually(lambda: address(page)["order"], "-".join(map(str, order)))
    expect(page.get_by_text(re.compile(r"no positions \d\.\d×10⁻[⁶⁷⁸]"))).to_be_visible()
    open_page(page, page.url)  # the link restores it
    eventually(lambda: chips(page), order)
    page.get_by_role("radio", name="learned").click()
    expect(page.get_by_text("tiny-gpt’s own")).to_be_visible()
    settle(page)
    cells = page.locator("[data-panel='shuffled'] canvas.cells")
    size = float(cells.get_attribute("data-cell-width"))
    cells.click(position={"x": 1.5 * size, "y": 3.5 * size})  # token 2 as the key of token 5
    expect(page.get_by_role("spinbutton", name=re.compile("^Query"))).to_have_value("5")
    expect(page.get_by_role("spinbutton", name=re.compile("^Key"))).to_have_value("2")
    settle(page)
    page.get_by_role("button", name="Shuffle again").click()
    expect(page.get_by_text("Seed 2")).to_be_visible()
    settle(page)
    eventually(lambda: address(page)["shuffle"], "2")
    eventually(lambda: "order" in address(page), False)


def score_of(trace, query_position, key_position):
    """The scaled score by Llama's own rotation, the tokens at any two positions."""
    both = torch.stack(
        [trace[f"blocks.{LAYER}.attn.q_pre"][HEAD, QUERY], trace[f"blocks.{LAYER}.attn.k_pre"][1, KEY]]
    ).double()
    theta = 10000.0 ** (-torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    angles = torch.outer(torch.tensor([query_position, key_position], dtype=torch.float64), theta).repeat(1, 2)[None]
    turned, _ = modeling_llama.apply_rotary_pos_emb(both[None, None], both[None, None], angles.cos(), angles.sin())
    return (turned[0, 0, 0] @ turned[0, 0, 1]).item() / WIDTH**0.5


@pytest.mark.viewport(1280, 720)
def test_moving_both_tokens_keeps_the_score_and_moving_them_apart_does_not(page, app_url, turning_trace):
    open_page(page, link(app_url, model=NAME, positions="Rotation", pair=0))
    on_first_screen(page, ".rotary .large svg", ".rotary .clocks", ".rotary .curve svg")
    value, clocks = page.locator(".rotary .readout .value"), page.locator(".rotary .clock .number")
    own = score_of(turning_trace, QUERY, KEY)
    eventually(lambda: read_number(value.inner_text().removeprefix("S = ")), pytest.approx(own, rel=1e-3))
    assert own == pytest.approx(turning_trace.scores(LAYER, HEAD)[QUERY, KEY].item(), abs=1e-5)
    before, arms = clocks.all_inner_texts(), page.locator(".rotary .clocks").inner_html()
    both = page.get_by_role("slider", name="Move both tokens by")
    both.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(page.get_by_text(f"at {QUERY + 3}, ")).to_be_visible()
    eventually(clocks.all_inner_texts, before)
    eventually(page.locator(".rotary .clocks").inner_html, lambda now: now != arms)  # though every arm has turned
    expect(value).to_have_text(f"S = {value.inner_text().removeprefix('S = ')}")
    page.get_by_role("slider", name="Distance i − j").focus()
    page.keyboard.press("End")
    far = 512  # twice the trained length
    apart = score_of(turning_trace, KEY + far, KEY)
    eventually(lambda: read_number(value.inner_text().removeprefix("S = ")), pytest.approx(apart, rel=1e-3))
    assert apart != pytest.approx(own, abs=0.01)
    pairs = rotary_pairs(turning_trace, LAYER, HEAD, QUERY, KEY)
    new = new_angles(pairs.frequencies, far, 255, both_ways=False).tolist()
    dashed = "all => all.map(c => c.classList.contains('new-angle'))"
    eventually(lambda: page.locator(".rotary .clock").evaluate_all(dashed), new)
    assert any(new)
    assert not all(new)
    page.get_by_role("button", name=re.compile("^Pair 0")).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("Pair 1: numbers 1 (→) and 4 (↑)")).to_be_visible()
    settle(page)
    expected = {"shift": "3", "apart": str(far - (QUERY - KEY)), "pair": "1"}
    eventually(lambda: {name: address(page)[name] for name in expected}, expected)
    open_page(page, page.url)
    eventually(lambda: read_number(value.inner_text().removeprefix("S = ")), pytest.approx(apart, rel=1e-3))
    expect(page.get_by_role("button", name=re.compile("^Pair 1"))).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Pause").click()
    eventually(lambda: read_number(value.inner_text().removeprefix("S = ")), pytest.approx(apart, rel=1e-3))
    settle(page)


@pytest.mark.slow
@pytest.mark.parametrize(
    "look",
    [
        pytest.param("light narrow", marks=pytest.mark.viewport(900, 900)),
        pytest.param("dark wide", marks=pytest.mark.theme("dark")),
    ],
)
def test_nothing_sticks_out_of_any_section(page, app_url, look):
    open_page(page, link(app_url, prompt=LONG if "narrow" in look else PROMPT, query=50, key=2))
    nothing_sticks_out(page, PARTS, look)
    for section in SECTIONS[1:]:
        page.get_by_role("radio", name=section).click()
        expect(
            page.locator("[data-panel='rows'], .rotary svg, .stDataFrame, .st-key-past_weights").first
        ).to_be_visible()
        settle(page)
        nothing_sticks_out(page, PARTS, f"{look}, {section}")


@pytest.mark.viewport(1280, 720)
def test_longer_texts_are_read_on_the_first_screen_stopped_and_taken_up_again(page, app_url):
    open_page(page, link(app_url, model="tiny-llama", positions="Longer texts", past_times="512"))
    on_first_screen(page, ".st-key-past_loss", ".st-key-past_weights")
    past = re.compile(r"as trained: \d\.\d\d → \d\.\d\d")
    before = page.get_by_text(past).inner_text()
    page.get_by_role("radio", name="divided positions").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile("divided positions, s = 4: "))).to_be_visible()
    expect(page.get_by_text(past)).to_contain_text(before.rstrip("."))  # the same texts
    settle(page)
    eventually(lambda: [address(page)[name] for name in ("angles", "past_times")], [*("divided positions", "512")])
    page.get_by_role("radio", name="2,048").click()
    page.get_by_role("radio", name="16", exact=True).first.click()
    page.locator(".st-key-past_stop button").click()  # Streamlit has one of its own
    expect(page.get_by_text("Not finished: tiny-llama reads 16 texts of 2,048 tokens.")).to_be_visible()
    page.get_by_role("radio", name="512").click()
    page.get_by_role("radio", name="4", exact=True).first.click()  # not 1,024
    expect(page.get_by_text(past)).to_be_visible()
    settle(page)
