"""The harness proves itself: a fault that it is there to see must fail a test."""

import re
import urllib.error
import urllib.request

import pytest

from tests.support.browser import REPOSITORY, PageWatch, background, eventually, looks, open_page, settle

SCRIPT = """
import time
import streamlit as st

st.write(f"theme {st.context.theme.type}")
if st.button("Think"):
    time.sleep(0.5)
    st.write("thought")
if st.button("Break"):
    raise ValueError("the deliberate fault")
"""


@pytest.fixture(scope="session")
def small_url(serve, tmp_path_factory):
    script = tmp_path_factory.mktemp("small") / "small.py"
    script.write_text(SCRIPT)
    return serve(script)


def test_settle_waits_for_the_run_that_a_click_started(page, small_url):
    open_page(page, small_url)
    page.get_by_role("button", name="Think").click()
    settle(page)
    assert page.get_by_text("thought", exact=True).is_visible()


def test_settle_raises_with_the_text_of_an_exception_box(page, small_url):
    open_page(page, small_url)
    page.get_by_role("button", name="Break").click()
    with pytest.raises(AssertionError, match="the deliberate fault"):
        settle(page)


def test_settle_waits_for_elements_whose_code_is_loaded_late(page, serve, tmp_path):
    page.route("**/static/js/*Selectbox*.js", lambda route: (page.wait_for_timeout(1000), route.continue_()))
    script = tmp_path / "late.py"
    script.write_text("import streamlit as st\nst.selectbox('Mask', ['causal'])")
    open_page(page, serve(script))
    assert page.get_by_test_id("stSelectbox").is_visible()


def test_settle_says_what_is_missing(page):
    page.set_content("<p>no app here</p>")
    with pytest.raises(AssertionError, match="no Streamlit app"):
        settle(page, timeout_seconds=0.2)


def test_light_is_the_default(page, small_url):
    open_page(page, small_url)
    assert page.get_by_text("theme light").is_visible()
    assert min(background(page)) > 230


@pytest.mark.theme("dark")
@pytest.mark.viewport(900, 700)
def test_dark_is_dark_and_the_viewport_is_the_one_asked_for(page, small_url):
    open_page(page, small_url)
    assert page.get_by_text("theme dark").is_visible()
    assert max(background(page)) < 40
    assert page.evaluate("[innerWidth, innerHeight]") == [900, 700]


FAULTS = {
    "console.error('out of ink')": "console error: out of ink",
    "setTimeout(() => { throw new Error('out of paper') })": "uncaught error: out of paper",
    "fetch('/media/missing.png').catch(() => {})": "request failed: 404 GET",
    "fetch('http://127.0.0.1:9/').catch(() => {})": "request failed: GET http://127.0.0.1:9/",
}


def test_the_watch_reports(profile, small_url):
    page = open_page(profile.new_page(), small_url)
    for script, expected in FAULTS.items():
        watch = PageWatch(page)
        settle(page)
        watch.check()  # a page without faults is clean
        page.evaluate(f"() => {{ {script} }}")
        eventually(lambda watch=watch: page.evaluate("0") or len(watch.problems), lambda count: count > 0)
        watch.end()
        page.evaluate("() => fetch('/media/missing.png').catch(() => {})")  # no longer its own
        with pytest.raises(AssertionError, match=re.escape(expected)):
            watch.check()
        assert len(watch.problems) == 1, watch.problems
    page.close()


def test_eventually_gives_what_comes_and_says_what_never_does():
    values = iter([[], [1], [1, 2]])
    assert eventually(lambda: next(values)[1], 2) == 2  # the first two reads failed: nothing stood there yet
    with pytest.raises(AssertionError, match="still 5 after 0 s, not 6"):
        eventually(lambda: 5, 6, seconds=0)


def test_every_look_is_really_there(page, small_url):
    open_page(page, small_url)
    seen = {look: (background(page)[0] > 128, page.evaluate("innerWidth")) for look in looks(page)}
    assert seen == {"light, 1400 pixels": (True, 1400), "dark, 900 pixels": (False, 900)}


def test_one_server_for_each_script_and_environment(serve, small_url, tmp_path):
    script = tmp_path / "environment.py"
    script.write_text("import os, streamlit as st\nst.write(os.environ['GREETING'])")
    first = serve(script, GREETING="hello")
    assert serve(script, GREETING="hello") == first
    assert first != small_url


def test_a_script_that_does_not_exist_is_reported_with_the_log(serve):
    with pytest.raises(AssertionError, match=r"no_such_script\.py"):
        serve("no_such_script.py")


def test_a_stopped_server_is_gone(start_server, tmp_path):
    script = tmp_path / "short.py"
    script.write_text("import streamlit as st\nst.write('short')")
    server = start_server(script)
    server.stop()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(server.url, timeout=5)


INNER_TESTS = """
def test_console_error(page):
    page.set_content("<p>hello</p>")
    page.evaluate("console.error('out of ink')")

def test_clean(page):
    page.set_content("<p>hello</p>")
"""
SKIPPED_FILE = "import pytest\npytest.skip('no reason', allow_module_level=True)"


@pytest.fixture
def inner(pytester, monkeypatch):
    """Runs INNER_TESTS with the fixtures of this folder in a pytest of its own."""
    monkeypatch.delenv("VIZ_REQUIRE_BROWSER", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    pytester.makeini("[pytest]\nmarkers = browser: x")
    conftest = (REPOSITORY / "tests/browser/conftest.py").read_text()
    pytester.makeconftest(conftest)
    pytester.makepyfile(test_inner=INNER_TESTS)
    return lambda *choices: pytester.runpytest_subprocess("-p", "no:cacheprovider", *choices)


@pytest.mark.slow
@pytest.mark.usefixtures("browser")
def test_a_console_error_fails_the_test_that_caused_it(inner):
    result = inner()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*the browser reported:*", "*console error: out of ink*"])
    result.stdout.fnmatch_lines(["*screenshot of the failed test: *test_console_error.png*"])


@pytest.mark.parametrize(("required", "outcomes"), [("", {"skipped": 3}), ("1", {"errors": 3})])
def test_without_a_browser_tests_and_whole_files_are_skipped_unless_one_is_required(
    inner, pytester, monkeypatch, required, outcomes
):
    pytester.makepyfile(test_skipped=SKIPPED_FILE)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("VIZ_REQUIRE_BROWSER", required)
    inner("--continue-on-collection-errors").assert_outcomes(**outcomes)
