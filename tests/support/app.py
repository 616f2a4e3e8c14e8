"""The app as `AppTest` runs it: every page as a link opens it, without a browser."""

import json
from functools import cache
from pathlib import Path

from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

import viz_model as vm
from tests.support.blobs import received
from viz_ui.components.shared.packing import unpack

ROOT = Path(__file__).resolve().parents[2]
# AppTest looks for components in every installed package before a first run: two thirds of its work. Once will do.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
MAIN = str(ROOT / "viz_ui" / "frame" / "main.py")

PROMPTS = {
    "one token": "a",
    "one space": " ",
    "spaces": "     ",
    "newlines": "\n\n\n",
    "emoji": "👩‍👩‍👧‍👦 👍🏽",
    "combining": "e\u0301 a\u0308 \u0301",
    "right to left": "مرحبا بالعالم שלום",
    "bidi controls": "\u202eabc\u2066def",
    "html": "<script>alert(1)</script><b>bold</b> &amp;",
    "markdown": "*a* **b** `c` $x^2$ :red[d] [e](f) # g | h |",
    "nul": "a\x00b",
    "control token": "<|endoftext|>",
    "200 words": "king " * 200,
}


CHOICE = "viz.head_choice"


def opened(page: str = "heads", *, is_embedded: bool = False, **address) -> AppTest:
    """The page that a link with this address opens, or shows within another page; its first run is over and had no
    exception."""
    test = AppTest.from_file(MAIN, default_timeout=120)
    test.context["is_embedded"] = is_embedded
    for name, value in address.items():
        test.query_params[name] = value if isinstance(value, list) else str(value)
    switch_page(test, page).run()
    assert not test.exception, test.exception
    return test


def address_of(test: AppTest) -> dict[str, str | list[str]]:
    """The address that the browser has after a run: what was chosen, and what was put right without a step of Back."""
    return dict(test.session_state.visit.shown)


def switch_page(test: AppTest, page: str) -> AppTest:
    """The next run of `test` shows the page in the folder pages/`page`.

    `AppTest.switch_page` takes a page for its file name until the app ran once; all of ours are called page.py, and a
    link opens its page in the first run.
    """
    assert (ROOT / "pages" / page / "page.py").is_file(), page
    test._page_hash = calc_hash(page)  # what Streamlit knows a page by: its address
    return test


def at(**choices) -> dict[str, str]:
    """A whole address: a link that somebody sent."""
    return {name: str(value) for name, value in ({"model": "tiny-gpt"} | choices).items()}


def blobs_of(test: AppTest) -> list[bytes]:
    """What the components of the page were given; some are given a few words only, and no bytes."""
    return [element.proto.bytes for element in test.main.get("bidi_component") if element.proto.bytes]


def panels_blob(test: AppTest) -> bytes:
    """What the component with the matrices was given."""
    [blob] = [blob for blob in blobs_of(test) if "items" in unpack(blob)[0]]
    return blob


def framed_head(test: AppTest) -> tuple[int, int]:
    """The layer and the head that the grid of heads was told to frame."""
    [choice] = [element.proto for element in test.main.get("bidi_component") if element.proto.component_name == CHOICE]
    told = json.loads(choice.json)
    return told["layer"], told["head"]


def ids(prompt: str) -> list[int]:
    """The tokens that tiny-gpt makes of it."""
    return vm.load("tiny-gpt").tokenizer.encode(prompt)


def drawn_matrices(test):
    """Every matrix of the page by name: values, and what is not masked."""
    matrices = {}
    for blob in blobs_of(test):
        if "items" in unpack(blob)[0]:
            matrices |= received(blob)
    return matrices
