"""The page Generate as a reader uses it, in a real browser, its numbers against numpy and transformers."""

import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from tests.support.browser import (
    address,
    eventually,
    looks,
    note_texts,
    nothing_sticks_out,
    on_first_screen,
    open_page,
    picture_of,
    settle,
)
from tests.support.explorer import LONG, ids, link
from tests.support.plain_sampler import plain_draw, plain_sampler
from tests.support.transformers_tiny_gpt import attentions, gpt2, queries_keys_values
from viz_ui.look.colours import diverging_lut

PROMPT = "The queen gave the girl a ring."
FIRST = {"temperature": 0.8, "top_k": 40, "top_p": 0.95}  # what a first visitor sees


def generate(page, base, **choices):
    """The page with all tokens made; between two of them it may rest for longer than `settle` waits."""
    open_page(page, link(base, "generate", **({"prompt": PROMPT, "layer": 2, "head": 5} | choices)))
    expect(shown_step(page)).to_have_text(re.compile("^step"))
    settle(page)


def logits_of(tokens):
    with torch.inference_mode():
        return gpt2()(torch.tensor([tokens])).logits[0, -1].double().numpy()


def continued(prompt, count, taken=None, seed=0):
    """The tokens that a plain sampler draws from the logits of `transformers`, without a cache."""
    tokens = ids(prompt)
    for number in range(count):
        logits = logits_of(tokens)
        draw = np.random.default_rng((seed, number)).random()
        drawn = plain_draw(logits, plain_sampler(logits, **FIRST), draw)
        tokens.append((taken or {}).get(number, drawn))
    return tokens


def shown_step(page):
    return page.locator(".generation .place")


def ask_for(page, new_tokens):
    page.get_by_label("New tokens").fill(str(new_tokens))
    page.keyboard.press("Enter")


def rests_at(page, step):
    """The page shows this step, and so does the address."""
    expect(shown_step(page)).to_have_text(re.compile(rf"^step {step} of \d+$"))
    expect(page).to_have_url(re.compile(rf"[?&]step={step}(&|$)"))
    settle(page)


def branches(page):
    text = address(page).get("branches", "")
    return {int(step): int(token) for step, token in (part.split(":") for part in text.split(",") if part)}


def candidates(page):
    """What the table says: id -> its texts, column by column."""
    rows = page.locator(".candidate").evaluate_all(
        "rows => rows.map(r => [r.value, ...[...r.children].map(c => c.innerText)])"
    )
    return {int(token): texts for token, *texts in rows}


def test_the_table_is_that_of_a_plain_sampler_on_logits_of_another_library(page, app_url):
    generate(page, app_url, new=6, step=4, top_k=8, top_p=0.8)
    read = [*ids(PROMPT)]
    for number in range(5):
        logits = logits_of(read)
        drawn_from = plain_sampler(logits, 0.8, 8, 0.8)
        if number < 4:
            read.append(plain_draw(logits, drawn_from, np.random.default_rng((0, number)).random()))
    full = np.exp((logits - logits.max()) / 0.8)
    full /= full.sum()
    table = candidates(page)
    assert set(np.argsort(-logits)[:10]) <= set(table)
    for token, (_, logit, scaled, softmax, by_top_k, by_top_p, left) in table.items():
        assert float(logit.replace("−", "-")) == pytest.approx(logits[token], rel=1e-3)
        assert float(scaled.replace("−", "-")) == pytest.approx(logits[token] / 0.8, rel=6e-3, abs=1e-3)
        assert float(softmax) == pytest.approx(full[token], rel=6e-3)
        assert (by_top_k == by_top_p == "✓") == (drawn_from[token] > 0)
        assert (float(left) if left else 0) == pytest.approx(drawn_from[token], rel=6e-3)
    eight = np.sort(full)[::-1][:8]
    shares = [
        full[drawn_from > 0].sum() / eight.sum(),
        eight.sum(),
    ]  # what top-p keeps of what top-k left; what that is
    shown = page.get_by_text("share kept").locator("xpath=..").locator("span").all_inner_texts()
    np.testing.assert_allclose([float(shown[5]), float(shown[4])], shares, rtol=6e-3)
    assert shares[0] >= 0.8
    drawn = plain_draw(logits, drawn_from, np.random.default_rng((0, 4)).random())
    expect(page.locator(".candidate[aria-pressed=true]")).to_have_attribute("value", str(drawn))


def test_the_strips_grow_by_one_real_column_a_step_whose_numbers_stand_beside(page, app_url):
    generate(page, app_url, new=5, step=2)
    length, tokens = len(ids(PROMPT)), continued(PROMPT, 5)
    _, keys, values = queries_keys_values(tokens[:-1], 2, 5)
    for name, expected in (("K", keys), ("V", values)):
        canvas = page.locator(f".of-{name} canvas")
        rows, columns = (int(canvas.get_attribute(f"data-{axis}")) for axis in ("rows", "columns"))
        seen = picture_of(canvas)[:, :, :3]
        height, width, _ = seen.shape
        assert (rows, columns) == expected.T.shape
        middle = seen[(np.arange(rows) * 2 + 1) * height // (2 * rows)][
            :, (np.arange(columns) * 2 + 1) * width // (2 * columns)
        ]
        steps = np.rint((expected.T / np.abs(expected).max() + 1) / 2 * 255).astype(int)
        assert np.abs(middle - diverging_lut()[steps].astype(int)).max() <= 4  # one step of the scale, by rounding
    cell = page.locator(".of-K canvas").evaluate("c => c.clientWidth / c.dataset.columns")
    clip = page.locator(".of-K")
    for step in (2, 3, 4):
        eventually(lambda: clip.evaluate("c => c.clientWidth"), pytest.approx((length + step) * cell, abs=1))
        page.keyboard.press("ArrowRight")
    expect(page.get_by_text(f"query attends to the {length + 4} keys of the cache")).to_be_visible()
    weights = attentions(tokens[:-1])[2, 5]
    heights = "bars => bars.map(b => 1 - parseFloat(b.style.top) / b.parentNode.parentNode.clientHeight)"
    eventually(
        lambda: page.locator(".of-A i").evaluate_all(heights),
        pytest.approx(weights[-1] / weights[-1].max(), abs=0.02),
    )
    expect(shown_step(page)).to_have_text("step 4 of 4")
    settle(page)
    rows = page.locator(".numbers tr").evaluate_all("rows => rows.map(r => [...r.children].map(c => c.innerText))")
    lines = {what: numbers for what, *numbers in rows}
    read = length + 4
    assert lines["tokens read"] == ["1", str(read)]
    a_token = 2 * 4 * 8 * 32 * 4
    assert lines["cache bytes"] == [f"{a_token * read:,} of {a_token * (length + 5):,}"]
    assert lines["by formula"] == [f"{a_token * read:,}"]
    [difference] = lines["logits differ by"]
    mantissa, _, power = difference.partition("×10")
    size = float(mantissa) * 10.0 ** int((power or "0").translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    assert 0 <= size <= 1e-4
    with_cache, without = (float(text.removesuffix(" ms")) for text in lines["time"])
    assert with_cache > 0
    assert without > 0
    expect(page.get_by_test_id("stPlotlyChart")).to_be_visible()


def test_another_candidate_is_a_branch_that_back_and_a_button_undo(page, app_url):
    generate(page, app_url, new=6, step=2)
    before = page.locator(".chip").all_inner_texts()
    other = page.locator(".candidate[aria-pressed=false]").nth(2)
    token = int(other.get_attribute("value"))
    other.click()
    expect(page.get_by_role("button", name="Undo this branch")).to_be_visible()
    eventually(lambda: branches(page), {2: token})
    rests_at(page, 2)
    after = page.locator(".chip").all_inner_texts()
    length = len(ids(PROMPT))
    assert after[: length + 2] == before[: length + 2]
    page.keyboard.press("ArrowRight")
    rests_at(page, 3)
    expected = continued(PROMPT, 6, {2: token})
    expect(page.locator(".candidate[aria-pressed=true]")).to_have_attribute("value", str(expected[length + 3]))
    page.go_back()
    expect(shown_step(page)).to_have_text("step 2 of 5")
    page.get_by_role("button", name="Undo this branch").click()
    expect(page.get_by_role("button", name="Undo this branch")).to_be_hidden()
    settle(page)
    eventually(lambda: branches(page), {})
    eventually(page.locator(".chip").all_inner_texts, before)
    page.go_back()
    expect(page.get_by_role("button", name="Undo this branch")).to_be_visible()
    settle(page)
    eventually(lambda: branches(page), {2: token})
    eventually(page.locator(".chip").all_inner_texts, after)


def test_the_keyboard_steps_and_plays(page, app_url):
    generate(page, app_url, new=4)
    expect(shown_step(page)).to_have_text("step 3 of 3")
    page.keyboard.press("ArrowLeft")  # on the page itself
    rests_at(page, 2)
    page.get_by_role("slider", name="Step").focus()
    page.keyboard.press("Home")
    rests_at(page, 0)
    expect(page.get_by_text("Step 0, prefill, reads all")).to_be_visible()
    page.keyboard.press("ArrowRight")
    rests_at(page, 1)
    page.get_by_role("combobox", name="Speed").select_option("4×")
    page.get_by_role("button", name="Step back").focus()
    page.keyboard.press("End")
    expect(shown_step(page)).to_have_text("step 3 of 3")
    page.get_by_role("slider", name="Step").focus()
    places = note_texts(shown_step(page))
    page.keyboard.press("Space")  # at the end: from the beginning
    eventually(places, [f"step {step} of 3" for step in (3, 0, 1, 2, 3)])
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    expect(page).not_to_have_url(re.compile("step="))  # the last step is where a bare link leads
    settle(page)


def test_playing_can_be_paused_a_token_leads_to_its_step_and_the_address_follows(page, app_url):
    generate(page, app_url, new=30, step=0)
    page.get_by_role("button", name="Play", exact=True).click()
    expect(shown_step(page)).not_to_have_text("step 0 of 29")
    page.get_by_role("button", name="Pause").click()
    place = shown_step(page).inner_text()
    assert place in [f"step {step} of 29" for step in range(1, 29)]  # on its way, a step a second
    rests_at(page, int(place.split()[1]))
    page.locator(".chip").nth(len(ids(PROMPT)) + 2).click()
    rests_at(page, 2)
    page.locator(".chip").nth(1).click()
    rests_at(page, 0)


def test_a_stopped_run_keeps_its_steps_and_can_go_on(page, app_url):
    generate(page, app_url, new=3)
    ask_for(page, 200)
    page.locator(".st-key-stop button").click()  # Streamlit has a Stop of its own
    expect(page.get_by_role("button", name="Continue to 200")).to_be_visible()
    settle(page)
    made = int(address(page).get("new", "12"))  # the number of a first visit is left out
    assert 0 < made < 200
    expect(shown_step(page)).to_have_text(f"step {made - 1} of {made - 1}")
    expect(page.locator(".chip")).to_have_count(len(ids(PROMPT)) + made)
    tokens = page.locator(".chip").all_inner_texts()
    page.get_by_role("button", name="Continue to 200").click()
    expect(page.locator(".chip")).not_to_have_count(len(tokens))
    page.locator(".st-key-stop button").click()  # Streamlit has a Stop of its own
    expect(page.get_by_role("button", name="Continue to 200")).to_be_visible()
    settle(page)
    eventually(lambda: page.locator(".chip").all_inner_texts()[: len(tokens)], tokens)


def test_a_click_while_tokens_come_loses_nothing(page, app_url):
    generate(page, app_url, new=3)
    ask_for(page, 40)
    expect(page.locator(".st-key-stop")).to_be_visible()
    page.locator(".chip").nth(3).click()
    expect(shown_step(page)).to_have_text("step 0 of 39")
    settle(page)
    rests_at(page, 0)


def test_a_link_restores_the_state_and_a_branch_takes_the_place_of_later_ones(page, app_url):
    expected = continued(PROMPT, 5, {1: 300})
    generate(page, app_url, new=5, step=3, branches="1:300,4:301", seed=0)
    expect(shown_step(page)).to_have_text("step 3 of 4")
    expect(page.locator(".candidate[aria-pressed=true]")).to_have_attribute("value", str(expected[-2]))
    expect(page.get_by_label("New tokens")).to_have_value("5")
    expect(page.locator(".chip.forced")).to_have_count(2)
    other = page.locator(".candidate[aria-pressed=false]").nth(2)
    token = int(other.get_attribute("value"))
    other.click()  # what was taken before it stays, what came after belonged to another text
    eventually(lambda: branches(page), {1: 300, 3: token})


@pytest.mark.viewport(1280, 720)
def test_all_that_matters_is_on_the_first_screen_and_nothing_sticks_out(page, app_url):
    generate(page, app_url)
    parts = (".player", ".chips", ".of-V", ".square .stage", ".candidates .verdict", ".numbers")
    on_first_screen(page, *(f".generation {part}" for part in parts))
    nothing_sticks_out_of_the_page(page)


def test_nothing_sticks_out_where_every_token_is_the_likeliest(page, app_url):
    generate(page, app_url, greedy="true")
    nothing_sticks_out_of_the_page(page)


def test_a_long_prompt_leaves_room_for_the_words_over_few_new_columns(page, app_url):
    generate(page, app_url, prompt=LONG, new=4)
    words = page.locator(".generation .origin.generated span")
    expect(words).to_have_text("generated, 3")
    end, window = words.evaluate(
        "words => [words, words.closest('.scroller')].map(node => node.getBoundingClientRect().right)"
    )
    assert end <= window
    nothing_sticks_out_of_the_page(page)


def nothing_sticks_out_of_the_page(page):
    for look in looks(page):
        nothing_sticks_out(page, ".generation section, .generation .sum, .candidate", look)
