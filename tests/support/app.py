"""The app as `AppTest` runs it: every page as a link opens it, without a browser."""

from functools import cache
from pathlib import Path

from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import AppTest
from streamlit.util import calc_hash

ROOT = Path(__file__).resolve().parents[2]
# AppTest looks for components in every installed package before a first run: two thirds of its work. Once will do.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)
MAIN = str(ROOT / "viz_ui" / "frame" / "main.py")


def opened(page: str = "heads", **address) -> AppTest:
    """The page that a link with this address opens; its first run is over and had no exception."""
    test = AppTest.from_file(MAIN, default_timeout=120)
    for name, value in address.items():
        test.query_params[name] = str(value)
    switch_page(test, page).run()
    assert not test.exception, test.exception
    return test


def switch_page(test: AppTest, page: str) -> AppTest:
    """The next run of `test` shows the page in the folder pages/`page`.

    `AppTest.switch_page` takes a page for its file name until the app ran once; all of ours are called page.py, and a
    link opens its page in the first run.
    """
    assert (ROOT / "pages" / page / "page.py").is_file(), page
    test._page_hash = calc_hash(page)  # what Streamlit knows a page by: its address
    return test
