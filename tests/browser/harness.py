"""What every browser test leans on: a Streamlit server of its own, a settled page, and a watch for faults.

A test normally writes

    from tests.browser.harness import open_page, settle

    def test_something(page, app_url):
        open_page(page, f"{app_url}/inside_a_head?layer=2")
        page.get_by_role("button", name="Layer 3, head 5").click()
        expect(page.get_by_text("Layer 3, head 5")).to_be_visible()   # first the result,
        settle(page)                                                  # then rest
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START_SECONDS = 90  # a cold start on two busy cores
SETTLE_SECONDS = 60
SETTLE_QUIET_MS = 150  # how long a page must stay at rest: a click needs a moment before its run begins

# Runs in the page. Gives "" while the page works, "settled" after a quiet moment, or an exception's text.
_PAGE_STATE = """
(quietMs) => {
  const box = document.querySelector('[data-testid="stException"]');
  if (box) return 'exception: ' + box.innerText;
  const app = document.querySelector('[data-testid="stApp"]');
  const atRest = app
    && app.dataset.testConnectionState === 'CONNECTED'
    && app.dataset.testScriptState === 'notRunning'
    && !document.querySelector('[data-stale="true"], [data-testid="stSkeleton"]');
  if (!atRest) { window.harnessQuietSince = undefined; return ''; }
  window.harnessQuietSince ??= performance.now();
  return performance.now() - window.harnessQuietSince >= quietMs ? 'settled' : '';
}
"""


def find_chromium():
    """The path of a Chromium on this machine, or None."""
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def browser_required():
    """Whether a browser test that cannot run counts as failed: the environment has VIZ_REQUIRE_BROWSER."""
    return os.environ.get("VIZ_REQUIRE_BROWSER", "") not in ("", "0")


def settle(page, timeout_seconds=SETTLE_SECONDS):
    """Wait until the page is connected, its script has run, nothing on it is stale and no element
    is still a grey placeholder whose code the browser loads.

    Raises AssertionError with the text of the exception box when the app shows one, or with the state the
    page was left in when it does not come to rest in time.
    """
    page.evaluate("() => { window.harnessQuietSince = undefined; }")
    deadline = time.monotonic() + timeout_seconds
    while (state := page.evaluate(_PAGE_STATE, SETTLE_QUIET_MS)) != "settled":
        if state:
            raise AssertionError(f"the app shows an {state}")
        if time.monotonic() > deadline:
            raise AssertionError(f"{page.url} did not settle in {timeout_seconds} s: {_rest_state(page)}")
        page.wait_for_timeout(50)


def _rest_state(page):
    return page.evaluate(
        """() => {
          const app = document.querySelector('[data-testid="stApp"]');
          return app
            ? `connection ${app.dataset.testConnectionState}, script ${app.dataset.testScriptState}, `
              + `${document.querySelectorAll('[data-stale="true"]').length} stale elements, `
              + `${document.querySelectorAll('[data-testid="stSkeleton"]').length} placeholders`
            : 'no Streamlit app on the page';
        }"""
    )


def nothing_sticks_out(page, parts, look, least=1):
    """The page does not scroll sideways, and no element of the selector `parts` (so many at least) goes past it."""
    wide = page.evaluate(
        """() => { const main = document.querySelector('[data-testid="stMain"]');
             return [main.scrollWidth, main.clientWidth]; }"""
    )
    assert wide[0] <= wide[1], f"{look}: the page scrolls sideways"
    right = page.locator(parts).evaluate_all("parts => parts.map(part => part.getBoundingClientRect().right)")
    assert len(right) >= least
    assert max(right, default=0) <= page.viewport_size["width"]


def open_page(page, url):
    """Go to `url` and wait until it has settled; gives the page back."""
    page.goto(url, wait_until="domcontentloaded")
    settle(page)
    return page


SECTIONS = {"Heads": "Explore", "Inside a head": "Explore", "Masks": "Explore", "Training": "Understand"}


def choose_page(page, title):
    """Go to another page by the menu of its group, as a reader does; its script has not run when this is back."""
    page.get_by_test_id("stTopNavSection").get_by_text(SECTIONS[title], exact=True).click()
    page.get_by_role("menuitem", name=title).click()


# A link to a page other than the first makes Streamlit's script try where the server's root is.
_PROBE = re.compile(r"/\w+/_stcore/(health|host-config)$")


class PageWatch:
    """Collects what a person would not see but must not happen: errors in the console, uncaught errors,
    and requests to our own server (or to any other: the app needs none) that failed."""

    def __init__(self, page):
        self.problems = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(f"uncaught error: {error}"))
        page.on("requestfailed", self._on_request_failed)
        page.on("response", self._on_response)

    def _on_console(self, message):
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            where = message.location
            self.problems.append(f"console error: {message.text} ({where['url']}:{where['lineNumber']})")

    def _on_request_failed(self, request):
        if request.failure != "net::ERR_ABORTED":  # the page was left while it was loading
            self.problems.append(f"request failed: {request.method} {request.url}: {request.failure}")

    def _on_response(self, response):
        if response.status >= 400 and not _PROBE.search(response.url):
            method = response.request.method
            self.problems.append(f"request failed: {response.status} {method} {response.url}")

    def check(self):
        """Raise AssertionError that lists every problem seen so far."""
        if self.problems:
            raise AssertionError("the browser reported:\n  " + "\n  ".join(self.problems))


class Server:
    """One `streamlit run` in a process group of its own, started in the repository root."""

    def __init__(self, script_path, log_path, **env):
        self.script_path = Path(script_path)
        self.log_path = Path(log_path)
        self.url = f"http://127.0.0.1:{_free_port()}"
        command = [sys.executable, "-m", "streamlit", "run", str(script_path)]
        options = {
            "server.port": self.url.rpartition(":")[2],
            "server.address": "127.0.0.1",
            "server.headless": "true",
            "server.fileWatcherType": "none",  # what is saved during the tests must not change them
            "browser.gatherUsageStats": "false",
        }
        for name, value in options.items():
            command += [f"--{name}", value]
        environment = {"PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"}
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=os.environ | environment | env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait_until_healthy()
        except BaseException:
            self.stop()
            raise

    def _wait_until_healthy(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"streamlit run {self.script_path} ended at once:\n{self.log()}")
            try:
                with urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=5) as reply:
                    if reply.status == 200:
                        return
            except (urllib.error.URLError, OSError):
                pass
            time.sleep(0.1)
        raise AssertionError(f"streamlit run {self.script_path} gave no answer:\n{self.log()}")

    def log(self, characters=6000):
        """The end of what the server wrote to stdout and stderr."""
        return self.log_path.read_text(errors="replace")[-characters:]

    def stop(self):
        """End the whole process group, politely first."""
        for stop_signal in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, stop_signal)
                self.process.wait(timeout=5)
            except ProcessLookupError:
                return
            except subprocess.TimeoutExpired:
                continue


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
