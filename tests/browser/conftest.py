"""Fixtures of all browser tests: `chromium`, `browser`, `profile`, `serve`, `serve_components`, `app_url`,
`fresh_app_url`, `page`.

Markers a test may carry: `@pytest.mark.theme("dark")` (default "light"), `@pytest.mark.viewport(900, 900)`
(default 1400 x 900), `@pytest.mark.own_tab` (for a test that leaves something in its tab). Every test in this folder
gets the marker `browser`.
"""

import re
from pathlib import Path

import pytest

from tests.support.browser import (
    CHROMIUM_FLAGS,
    CHROMIUM_NAMES,
    REPOSITORY,
    PageWatch,
    Server,
    browser_required,
    find_chromium,
)

HERE = Path(__file__).parent
WAIT_MS = 90_000  # a passing test waits no longer than it must
SERVERS = pytest.StashKey[list]()
FAILED = pytest.StashKey[bool]()


def pytest_configure(config):
    config.stash[SERVERS] = []


def pytest_itemcollected(item):
    if HERE in item.path.parents:
        item.add_marker("browser")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Show the server's log with a failure; where a browser is required, a skip is a failure."""
    report = yield
    if HERE not in item.path.parents:
        return report
    if report.skipped and browser_required() and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped although a browser is required: {call.excinfo.value}"
    if report.failed:
        item.stash[FAILED] = True
        for server in item.config.stash.get(SERVERS, []):
            report.sections.append((f"log of streamlit run {server.script_path}", server.log()))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """The same for a test file that is skipped as a whole."""
    report = yield
    if report.skipped and browser_required():
        report.outcome = "failed"
        report.longrepr = f"skipped although a browser is required: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def chromium():
    """Playwright's way to start Chromium, and what it is started with."""
    path = find_chromium()
    if path is None:
        reason = f"no Chromium found (looked for {', '.join(CHROMIUM_NAMES)})"
        pytest.skip(reason)  # where a browser is required, the report above makes this a failure
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    api.expect.set_options(timeout=WAIT_MS)
    with api.sync_playwright() as playwright:
        yield playwright.chromium, {"executable_path": path, "args": CHROMIUM_FLAGS}


@pytest.fixture(scope="session")
def browser(chromium):
    """A Chromium whose visitors share nothing."""
    kind, started_with = chromium
    browser = kind.launch(**started_with)
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def profile(chromium, tmp_path_factory):
    """One browser profile for the whole session: what a test has loaded, the next finds in its cache.

    It lies on the disk, for there Chromium keeps the code that it has compiled: a page opens with half the work.
    """
    kind, started_with = chromium
    context = kind.launch_persistent_context(tmp_path_factory.mktemp("profile"), **started_with)
    context.set_default_timeout(WAIT_MS)
    yield context
    context.close()


@pytest.fixture(scope="session")
def start_server(request, tmp_path_factory):
    """`start_server(script_path, **env)` -> Server; all of them end with the session."""
    servers = request.config.stash.setdefault(SERVERS, [])

    def start(script_path, **env):
        server = Server(script_path, tmp_path_factory.mktemp("server") / "log.txt", **env)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()
    servers.clear()


@pytest.fixture(scope="session")
def serve(start_server):
    """`serve(script_path, **env)` -> base URL of a server, one for each script and environment."""
    running = {}

    def serve_once(script_path, **env):
        key = (str(script_path), tuple(sorted(env.items())))
        if key not in running:
            running[key] = start_server(script_path, **env)
        return running[key].url

    return serve_once


@pytest.fixture(scope="session")
def serve_components(serve):
    """`serve_components(name)` -> base URL of a script of tests/support that draws some component by itself."""
    return lambda name: serve("tests/support/components_app.py", VIZ_SCRIPT=str(REPOSITORY / "tests/support" / name))


@pytest.fixture(scope="session")
def app_url(serve, tmp_path_factory):
    """Base URL of the whole app, shared by all tests. Of fetched models it has a small rotary one alone."""
    from tests.support.rotary_model import save_turning  # brings torch along, which the harness's own tests need not

    folder = tmp_path_factory.mktemp("fetched")
    save_turning(folder)
    return serve("app.py", VIZ_FETCHED=str(folder))


@pytest.fixture
def fresh_app_url(request, start_server):
    """Base URL of the whole app on a server that nobody has visited yet."""
    server = start_server("app.py")
    yield server.url
    server.stop()
    request.config.stash[SERVERS].remove(server)


def _marker_arguments(request, name, default):
    marker = request.node.get_closest_marker(name)
    return marker.args if marker else default


@pytest.fixture(scope="session")
def shared_tab(profile):
    """A function that gives the one tab in which most tests open their pages.

    A tab that stays keeps its process, and with it all scripts as they run: a page opens with half the work.
    """
    tabs = []

    def tab():
        if not tabs or tabs[-1].is_closed():
            tabs.append(profile.new_page())
        return tabs[-1]

    return tab


def _leave(page):
    """Bring a shared tab back to where no test has been."""
    page.unroute_all(behavior="ignoreErrors")
    page.evaluate("() => location.protocol.startsWith('http') && sessionStorage.clear()")
    page.goto("about:blank")
    page.emulate_media(media="screen", color_scheme="light")


@pytest.fixture
def page(request, profile, shared_tab, tmp_path_factory):
    """A page that nothing was opened in. The test fails when the console or the network had errors."""
    if "fresh_app_url" in request.fixturenames:
        request.getfixturevalue("fresh_app_url")  # made before the page, so that its server ends after it
    width, height = _marker_arguments(request, "viewport", (1400, 900))
    (theme,) = _marker_arguments(request, "theme", ("light",))
    own_tab = request.node.get_closest_marker("own_tab") is not None
    request.node.stash[FAILED] = False  # it may be its second try
    page = profile.new_page() if own_tab else shared_tab()
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=theme)
    watch = PageWatch(page)
    yield page
    failed = watch.problems or request.node.stash[FAILED]
    if failed:
        name = re.sub(r"\W+", "-", request.node.name)
        path = tmp_path_factory.mktemp("failed") / f"{name}.png"
        page.screenshot(path=path, full_page=True)
        print(f"screenshot of the failed test: {path}")
    if own_tab or failed:  # whatever a failed test left behind goes with its tab
        page.close()
    else:
        _leave(page)
        watch.end()
    watch.check()
