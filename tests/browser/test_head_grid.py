"""The grid of heads and the dialog of one matrix, in a real browser."""

import io
import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from playwright.sync_api import expect

from tests.support.browser import eventually, looks, open_page, picture_of, settle
from tests.support.head_grid_app import attention, labels
from viz_ui.look.colours import sequential_lut

PLACE = """button => {
  const box = button.getBoundingClientRect(), grid = button.closest('.heads').getBoundingClientRect();
  return [box.top - grid.top, box.left - grid.left, box.width].map(at => Math.round(at * devicePixelRatio));
}"""
WATCH_CHOICES = """heads => {
  window.choices = [];
  new MutationObserver(changes => changes.forEach(({ target }) => {
    if (target.ariaPressed === 'true') window.choices.push(+target.value);
  })).observe(heads, { subtree: true, attributeFilter: ['aria-pressed'] });
}"""
IN_VIEW = """button => {
  const box = button.getBoundingClientRect(), view = button.closest('.scroller').getBoundingClientRect();
  const names = button.closest('.heads').querySelector('.corner').getBoundingClientRect();
  return box.top >= names.bottom && box.bottom <= view.bottom
    && box.left >= names.right && box.right <= view.right;
}"""


@pytest.fixture(scope="session")
def grid_url(serve_components):
    return serve_components("head_grid_app.py")


def head_button(page, layer, head):
    return page.get_by_role("button", name=re.compile(rf"^Layer {layer}, head {head}(,|$)"))


def pixels(page, layer, head, shape):
    """The middle of each cell in the picture of one head, (rows, columns, RGBA)."""
    top, left, side = head_button(page, layer, head).evaluate(PLACE)
    rows, columns = (((np.arange(cells) + 0.5) * side / cells).astype(int) for cells in shape)
    return picture_of(page.locator(".head-grid .pictures"))[top + rows[:, None], left + columns]


def check_picture(page, layer, head, weights, allowed=None):
    """Permitted cells have the colour table's row for their weight; the others are grey, which no row of it is."""
    seen = pixels(page, layer, head, weights.shape)
    allowed = np.ones(weights.shape, bool) if allowed is None else allowed
    np.testing.assert_array_equal(seen[allowed][:, :3], sequential_lut()[np.rint(weights * 255).astype(int)][allowed])
    assert (np.ptp(seen[~allowed][:, :3].astype(int), axis=1) < 24).all(), "not grey"
    assert (seen[..., 3] == 255).all()


def test_a_thumbnail_has_the_colours_of_its_weights_its_note_and_hatching_that_is_never_the_colour_of_zero(
    page, grid_url
):
    open_page(page, grid_url)
    weights, allowed = attention(4, 8, 12, "causal")
    for layer, head in ((0, 0), (2, 5), (3, 7)):
        check_picture(page, layer, head, weights[layer, head], allowed)
    name = f"Layer 3, head 5, strongest {weights[3, 5].max():.2f}"
    expect(page.get_by_role("button", name=name, exact=True)).to_have_count(1)
    shot = Image.open(io.BytesIO(head_button(page, 1, 1).screenshot())).convert("RGB")
    seen = np.asarray(shot, int)
    corner = seen[4:20, -20:-4].reshape(-1, 3)  # the upper right of a causal matrix
    assert len(np.unique(corner, axis=0)) > 1, "no strokes"
    assert (np.ptp(corner, axis=1) < 24).all(), "not grey"
    assert np.abs(corner - sequential_lut()[0]).sum(1).min() > 200


def test_every_head_may_have_a_mask_of_its_own(page, grid_url):
    open_page(page, f"{grid_url}/?layers=2&heads=3&tokens=11&mask=each")
    weights, allowed = attention(2, 3, 11, "each")
    for layer, head in ((0, 0), (0, 2), (1, 1)):
        check_picture(page, layer, head, weights[layer, head], allowed[layer, head])


def test_many_tokens_are_pooled_to_their_strongest_cells(page, grid_url):
    open_page(page, f"{grid_url}/?layers=1&heads=2&tokens=64&mask=none")
    weights, _ = attention(1, 2, 64, "none")
    pooled = weights[0, 1].reshape(32, 2, 32, 2).max((1, 3))
    check_picture(page, 0, 1, pooled)


def test_a_click_reaches_python_and_moves_the_frame(page, grid_url):
    open_page(page, grid_url)
    expect(head_button(page, 0, 0)).to_have_attribute("aria-pressed", "true")
    head_button(page, 2, 5).click()
    expect(page.get_by_text("chosen 2 5, picks 1", exact=True)).to_be_visible()
    settle(page)
    expect(head_button(page, 2, 5)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("button[aria-pressed=true]")).to_have_count(1)
    expect(page.locator(".head-grid button[tabindex='0']")).to_have_count(1)
    expect(page.locator(".caption")).to_contain_text("layer 2, head 5 · strongest")


def test_arrow_keys_move_and_choose_and_focus_survives(page, grid_url):
    open_page(page, f"{grid_url}/?layer=1&head=1")
    head_button(page, 1, 1).focus()
    steps = [
        ("ArrowRight", (1, 2)),
        ("ArrowDown", (2, 2)),
        ("End", (2, 7)),
        ("ArrowRight", (2, 7)),  # the edge holds
        ("ArrowUp", (1, 7)),
        ("Home", (1, 0)),
        ("ArrowLeft", (1, 0)),
        ("Control+End", (3, 7)),
    ]
    for press, (layer, head) in steps:
        page.keyboard.press(press)
        expect(page.get_by_text(re.compile(f"^chosen {layer} {head},"))).to_be_visible()
        settle(page)
        expect(head_button(page, layer, head)).to_be_focused()
        expect(head_button(page, layer, head)).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_text("chosen 3 7, picks 6", exact=True)).to_be_visible()


def test_answers_to_earlier_keys_never_turn_the_frame_back(page, grid_url):
    open_page(page, grid_url)
    head_button(page, 0, 0).focus()
    page.locator(".heads").evaluate(WATCH_CHOICES)
    for _ in range(6):
        page.keyboard.press("ArrowRight", delay=40)
    expect(head_button(page, 0, 6)).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_text(re.compile("^chosen 0 6,"))).to_be_visible()
    settle(page)
    expect(head_button(page, 0, 6)).to_be_focused()
    eventually(lambda: page.evaluate("window.choices"), [1, 2, 3, 4, 5, 6])


def test_there_and_back_faster_than_the_answers_ends_on_the_last_key(page, grid_url):
    """The answer to an earlier visit of the same head must not end the waiting for the last one."""
    open_page(page, grid_url)
    head_button(page, 2, 4).click()
    expect(page.get_by_text(re.compile("^chosen 2 4,"))).to_be_visible()
    for key in ["ArrowLeft", "ArrowRight"] * 15 + ["ArrowDown"]:
        page.keyboard.press(key, delay=20)
    expect(page.get_by_text(re.compile("^chosen 3 4,"))).to_be_visible()
    settle(page)
    expect(head_button(page, 3, 4)).to_be_focused()
    expect(head_button(page, 3, 4)).to_have_attribute("aria-pressed", "true")


def test_buttons_outlive_reruns_longer_prompts_and_choices_from_elsewhere(page, grid_url):
    open_page(page, f"{grid_url}/?layer=2&head=3")
    head_button(page, 3, 3).evaluate("button => { button.kept = true; }")
    page.get_by_text("One token more").click()
    weights, allowed = attention(4, 8, 13, "causal")
    eventually(lambda: check_picture(page, 3, 3, weights[3, 3], allowed), None)
    settle(page)
    page.get_by_role("button", name="First head").click()
    expect(head_button(page, 0, 0)).to_have_attribute("aria-pressed", "true")
    settle(page)
    assert head_button(page, 3, 3).evaluate("button => button.kept")
    expect(page.get_by_role("button", name="First head")).to_be_focused()


def test_a_choice_that_python_does_not_take_is_undone(page, grid_url):
    open_page(page, f"{grid_url}/?deaf")
    head_button(page, 1, 1).click()
    expect(head_button(page, 1, 1)).to_have_attribute("aria-pressed", "true")
    expect(head_button(page, 0, 0)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("button[aria-pressed=true]")).to_have_count(1)


@pytest.mark.viewport(900, 900)
def test_thirty_layers_scroll_inside_and_keep_the_chosen_head_in_view(page, grid_url):
    open_page(page, f"{grid_url}/?layers=30&heads=9&key_heads=3&tokens=40&layer=22&head=8")
    chosen = head_button(page, 22, 8)
    assert chosen.evaluate(IN_VIEW)
    expect(chosen).to_have_accessible_name(
        re.compile("^Layer 22, head 8, shares key/value head 2 with heads 6, 7, strongest")
    )
    bracket, first, last = (
        node.bounding_box() for node in (page.get_by_text("K,V 2"), head_button(page, 22, 6), chosen)
    )
    assert bracket["x"] == pytest.approx(first["x"], abs=1)
    assert bracket["x"] + bracket["width"] == pytest.approx(last["x"] + last["width"], abs=1)
    assert bracket["y"] >= page.locator(".scroller").bounding_box()["y"], "the brackets scroll away"
    scroller = page.locator(".scroller")
    assert scroller.bounding_box()["height"] <= 561
    assert scroller.evaluate("box => box.scrollWidth <= box.clientWidth"), "scrolls sideways"
    chosen.focus()
    for key in ["Control+Home", "Control+End"]:
        page.keyboard.press(key)
        layer, head = (0, 0) if key == "Control+Home" else (29, 8)
        expect(page.get_by_text(re.compile(f"^chosen {layer} {head},"))).to_be_visible()
        eventually(lambda layer=layer, head=head: head_button(page, layer, head).evaluate(IN_VIEW), True)
        assert page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollTop") == 0


def test_the_frame_of_a_head_that_scrolls_away_is_behind_the_names(page, grid_url):
    """The names of heads look the same wherever the grid stands."""
    open_page(page, f"{grid_url}/?layers=30&heads=9&key_heads=3&tokens=12&layer=3&head=3")
    scroller, names = page.locator(".scroller"), page.locator(".corner").bounding_box()
    end = names["y"] + names["height"]
    box = scroller.bounding_box()
    strip = {"x": box["x"], "y": box["y"], "width": box["width"], "height": int(end - box["y"])}
    expected = page.screenshot(clip=strip)
    chosen = head_button(page, 3, 3).bounding_box()["y"]
    for place in (box["y"] - 4, box["y"] + 8, end - 4):
        scroller.evaluate("(box, by) => (box.scrollTop = by)", chosen - place)
        assert page.screenshot(clip=strip) == expected, f"the head stands {place - box['y']:.0f} pixels down"


@pytest.mark.own_tab  # which stays zoomed
def test_thumbnails_are_sharp_after_zooming(page, grid_url):
    """Twice as many pixels, though the column of the grid is as wide as before."""
    open_page(page, f"{grid_url}/?layers=4&heads=8&tokens=12&layer=1&head=2")
    page.locator(".head-grid").evaluate("grid => (grid.style.width = '340px')")
    weights, allowed = attention(4, 8, 12, "causal")
    eventually(lambda: page.locator(".scroller").evaluate("box => box.clientWidth <= 340"), True)
    size = page.viewport_size
    zoom = {"width": size["width"] // 2, "height": size["height"] // 2, "deviceScaleFactor": 2, "mobile": False}
    page.context.new_cdp_session(page).send("Emulation.setDeviceMetricsOverride", zoom)
    sharp = "picture => picture.width === Math.round(picture.parentNode.offsetWidth * 2)"
    eventually(lambda: page.locator(".head-grid .pictures").evaluate(sharp), True)
    check_picture(page, 1, 2, weights[1, 2], allowed)


@pytest.mark.viewport(900, 900)
@pytest.mark.parametrize(("layers", "heads", "least"), [(12, 12, 32), (4, 8, 48), (1, 1, 72)])
def test_smaller_grids_fit_a_narrow_page_whole(page, grid_url, layers, heads, least):
    open_page(page, f"{grid_url}/?layers={layers}&heads={heads}")
    fits = "box => box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight"
    assert page.locator(".scroller").evaluate(fits)
    box = head_button(page, layers - 1, heads - 1).bounding_box()
    assert box["width"] == box["height"] >= least
    page.locator(".head-grid").evaluate("grid => (grid.style.width = '340px')")  # the column of the page Heads
    eventually(lambda: page.locator(".scroller").evaluate("box => box.scrollWidth <= box.clientWidth"), True)
    assert head_button(page, layers - 1, heads - 1).bounding_box()["width"] >= 18


def test_the_frame_stands_out_in_both_themes(page, grid_url):
    open_page(page, f"{grid_url}/?layer=1&head=1")
    for _ in looks(page):
        ring, width, ground = head_button(page, 1, 1).evaluate(
            """button => { const style = getComputedStyle(button);
            return [style.outlineColor, style.outlineWidth,
                    getComputedStyle(button.closest('.head-grid')).backgroundColor]; }"""
        )
        light, dark = sorted((luminance(ring), luminance(ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) > 7
        assert width == "3px"


def luminance(css):
    """Relative luminance (WCAG) of "rgb(r, g, b)"."""
    channels = np.array([int(number) for number in re.findall(r"\d+", css)[:3]]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def open_dialog(page, url):
    open_page(page, url)
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.locator("[role=dialog] .js-plotly-plot .heatmaplayer image").first).to_be_visible()
    settle(page)
    return page.get_by_role("dialog")


def saved(page, button):
    """(file name, bytes) of what a click on `button` in the dialog downloads."""
    with page.expect_download() as waiting:
        page.get_by_role("dialog").get_by_role("button", name=button, exact=True).click()
    return waiting.value.suggested_filename, waiting.value.path().read_bytes()


@pytest.mark.own_tab  # which has loaded nothing yet
def test_plotly_is_loaded_only_when_the_dialog_opens(page, grid_url):
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    open_page(page, grid_url)
    assert requests
    assert not any("lotly" in url for url in requests)
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.locator(".js-plotly-plot .heatmaplayer image").first).to_be_visible()
    eventually(lambda: any("lotly" in url for url in requests), True)


def test_the_dialog_tells_and_saves_the_exact_numbers_and_tokens_and_closes_for_good(page, grid_url):
    dialog = open_dialog(page, f"{grid_url}/?layer=1&head=2")
    weights, allowed = attention(4, 8, 12, "causal")
    area = dialog.locator(".nsewdrag").bounding_box()

    def hover(row, column):
        x, y = area["x"] + area["width"] * (column + 0.5) / 12, area["y"] + area["height"] * (row + 0.5) / 12
        page.mouse.move(x, y)
        expect(dialog.locator(".hoverlayer")).to_contain_text(f"query {labels(12)[row]}")
        expect(dialog.locator(".hoverlayer")).to_contain_text(f"key {labels(12)[column]}")
        return dialog.locator(".hoverlayer .hovertext tspan.line").all_text_contents()

    query, key, number = hover(9, 4)
    assert (query, key) == (f"query {labels(12)[9]}", f"key {labels(12)[4]}")
    assert np.float32(number) == weights[1, 2, 9, 4]
    assert hover(1, 7)[2] == "masked"
    assert dialog.locator(".xtick").all_text_contents() == labels(12)
    assert sorted(dialog.locator(".ytick").all_text_contents()) == sorted(labels(12))
    name, content = saved(page, "CSV table")
    assert name == "random_layer1_head2_weights.csv"
    table = pd.read_csv(io.BytesIO(content), index_col=0)
    assert list(table.index) == list(table.columns) == labels(12)
    np.testing.assert_array_equal(table.to_numpy(np.float32), np.where(allowed, weights[1, 2], np.nan))  # masked: empty
    name, content = saved(page, "NPZ of the whole head")
    assert name == "random_layer1_head2.npz"
    arrays = np.load(io.BytesIO(content))
    np.testing.assert_array_equal(arrays["weights"], weights[1, 2])
    assert arrays["tokens"].tolist() == labels(12)
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("chosen 1 2, picks 0", exact=True)).to_be_visible()
    page.get_by_role("button", name="Run again").click()
    settle(page)
    head_button(page, 3, 3).click()
    expect(page.get_by_text("chosen 3 3, picks 1", exact=True)).to_be_visible()
    settle(page)
    expect(dialog).to_have_count(0)


@pytest.mark.theme("dark")
def test_pictures_are_sharp_and_have_the_page_behind_them(page, grid_url):
    dialog = open_dialog(page, grid_url)
    on_screen = dialog.locator(".js-plotly-plot").bounding_box()
    background = page.get_by_test_id("stApp").evaluate("app => getComputedStyle(app).backgroundColor")
    name, content = saved(page, "PNG picture")
    assert name == "random_layer0_head0_weights.png"
    picture = Image.open(io.BytesIO(content))
    assert picture.width == pytest.approx(3 * on_screen["width"], abs=3)
    red, green, blue = map(int, re.findall(r"\d+", background)[:3])
    assert picture.convert("RGBA").getpixel((2, 2)) == (red, green, blue, 255)
    name, content = saved(page, "SVG picture")
    assert name == "random_layer0_head0_weights.svg"
    assert content.startswith(b"<svg")
    assert b"layer 0, head 0: weights" in content


def test_the_html_page_shows_the_plot_without_any_network(page, browser, grid_url, tmp_path):
    open_dialog(page, f"{grid_url}/?layer=1&head=2")
    name, content = saved(page, "HTML page")
    assert name == "random_layer1_head2_weights.html"
    (tmp_path / name).write_bytes(content)
    context = browser.new_context(offline=True)
    alone = context.new_page()
    faults, requests = [], []
    alone.on("pageerror", lambda error: faults.append(str(error)))
    alone.on("console", lambda message: message.type == "error" and faults.append(message.text))
    alone.on("request", lambda request: requests.append(request.url))
    alone.goto((tmp_path / name).as_uri())
    expect(alone.locator(".heatmaplayer image").first).to_be_visible()
    assert alone.title() == "layer 1, head 2: weights"
    assert alone.locator(".xtick").all_text_contents() == labels(12)
    weights, allowed = attention(4, 8, 12, "causal")
    values = alone.evaluate("() => document.querySelector('.js-plotly-plot')._fullData[0].z.map(r => [...r])")
    values = np.array(values, dtype=np.float32)  # NaN, where masked, arrives as null or NaN
    np.testing.assert_array_equal(values[allowed], weights[1, 2][allowed])
    assert np.isnan(values[~allowed]).all()
    # zoomed in until there are ticks between the cells: these must not be labelled
    alone.evaluate("Plotly.relayout(document.querySelector('.js-plotly-plot'), 'xaxis.range', [-0.5, 2.5])")
    expect(alone.locator(".xtick").last).not_to_have_text(labels(12)[-1])
    texts = [text for text in alone.locator(".xtick").all_text_contents() if text]
    assert texts == labels(12)[:3]
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests)
    assert not faults
    context.close()
