"""The app as `AppTest` runs it: every page as a link opens it, without a browser."""

from pathlib import Path

from streamlit.testing.v1 import AppTest

MAIN = str(Path(__file__).resolve().parents[1] / "viz_ui" / "main.py")


def opened(page: str = "heads", **address) -> AppTest:
    """The page that a link with this address opens; its first run is over and had no exception."""
    test = AppTest.from_file(MAIN, default_timeout=120)
    for name, value in address.items():
        test.query_params[name] = str(value)
    test.switch_page(f"../pages/{page}.py").run()
    assert not test.exception, test.exception
    return test
