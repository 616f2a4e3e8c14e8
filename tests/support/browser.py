"""What every browser test leans on: a Streamlit server of its own, a settled page, and a watch for faults.

A test normally writes

    from tests.support.browser import open_page, settle

    def test_something(page, app_url):
        open_page(page, f"{app_url}/inside_a_head?layer=2")
        page.get_by_role("button", name="Layer 3, head 5").click()
        expect(page.get_by_text("Layer 3, head 5")).to_be_visible()   # first the result,
        settle(page)                                                  # then rest
        eventually(lambda: address(page)["head"], "3.5")               # and what no `expect` can see

What is read once, right after an action, is read too early on a slow machine: `expect`, or `eventually`. What passes
by itself (a player, tokens that come) is over before it is looked at: `note_texts`.
"""

import base64
import io
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
from urllib.parse import parse_qs, urlsplit

import numpy as np
from PIL import Image

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
SETTLE_SECONDS = 120
EVENTUALLY_SECONDS = 90
SETTLE_QUIET_MS = 150  # how long a page must stay at rest: a click needs a moment before its run begins

# Runs in the page. Gives "" while the page works, "settled" after a quiet moment, or an exception's text.
_PAGE_STATE = """
(quietMs) => {
  const isDrawn = (component) => component.shadowRoot?.adoptedStyleSheets.length > 0; // its script has come
  const box = document.querySelector('[data-testid="stException"]');
  if (box) return 'exception: ' + box.innerText;
  const app = document.querySelector('[data-testid="stApp"]');
  const atRest = app
    && app.dataset.testConnectionState === 'CONNECTED'
    && app.dataset.testScriptState === 'notRunning'
    && !document.querySelector('[data-stale="true"], [data-testid="stSkeleton"]')
    && [...document.querySelectorAll('[data-testid="stBidiComponentIsolated"]')].every(isDrawn);
  if (!atRest) { window.harnessQuietSince = undefined; return ''; }
  window.harnessQuietSince ??= performance.now();
  return performance.now() - window.harnessQuietSince >= quietMs ? 'settled' : '';
}
"""


# Runs in the page: the data-name of the element that has the focus, inside whatever component.
FOCUSED = """() => {
  let active = document.activeElement;
  while (active.shadowRoot) active = active.shadowRoot.activeElement;
  return active.dataset.name;
}"""


def find_chromium():
    """The path of a Chromium on this machine, or None."""
    return next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def browser_required():
    """Whether a browser test that cannot run counts as failed: the environment has VIZ_REQUIRE_BROWSER."""
    return os.environ.get("VIZ_REQUIRE_BROWSER", "") not in ("", "0")


def settle(page, timeout_seconds=SETTLE_SECONDS):
    """Wait until the page is connected, its script has run, nothing on it is stale, no element is still a grey
    placeholder whose code the browser loads, and each of our components has its script.

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


def eventually(read, expected, seconds=EVENTUALLY_SECONDS):
    """Wait until `read()` gives `expected`: a value, or a function that says whether a value will do; gives the value.

    `read` asks the browser anew each time, and may fail while what it looks at is not there yet. A read that itself
    asserts gives None. Raises AssertionError with the last value when it is not as expected in time.
    """
    good = expected if callable(expected) else lambda value: value == expected
    deadline = time.monotonic() + seconds
    while True:
        try:
            if good(value := read()):
                return value
        except (AssertionError, LookupError, ValueError, TypeError, AttributeError) as error:
            value = error
        if time.monotonic() > deadline:
            raise AssertionError(f"still {value!r} after {seconds} s, not {expected!r}")
        time.sleep(0.05)


_NOTE_TEXTS = """node => {
  const seen = [node.textContent];
  node.seen = seen;
  new MutationObserver(() => seen.at(-1) !== node.textContent && seen.push(node.textContent))
    .observe(node, { childList: true, characterData: true, subtree: true });
}"""


def note_texts(locator):
    """Begin to note what the element says, also for a moment that no `expect` would see; gives how to read it."""
    locator.evaluate(_NOTE_TEXTS)
    return lambda: locator.evaluate("node => node.seen")


def picture_of(canvas):
    """What a canvas shows, (height, width, RGBA) uint8: as a PNG, for numbers one by one take the browser seconds."""
    data = canvas.evaluate("canvas => canvas.toDataURL().split(',')[1]")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA"))


def address(page):
    """The parameters of the address, as the browser has it now (`page.url` is what was last heard of it)."""
    query = urlsplit(page.evaluate("location.href")).query
    return {name: value for name, [value] in parse_qs(query, keep_blank_values=True).items()}


def looks(page, wide=1400):
    """The page light and `wide` pixels wide, then dark and 900; gives the words for each.

    Each theme and each width once, for no colour takes room, and without opening the page anew.
    """
    for theme, width, is_its_own in (("light", wide, lambda red: red > 200), ("dark", 900, lambda red: red < 60)):
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 900})
        eventually(lambda: background(page)[0], is_its_own)
        settle(page)
        yield f"{theme}, {width} pixels"


def background(page):
    """Red, green and blue (0 to 255) of the app's background as it is painted."""
    colour = page.get_by_test_id("stApp").evaluate("app => getComputedStyle(app).backgroundColor")
    return [int(number) for number in re.findall(r"\d+", colour)[:3]]


def nothing_sticks_out(page, parts, look, least=1):
    """The page does not scroll sideways, and no element of the selector `parts` (so many at least) goes past it."""

    def look_at_it():
        wide, window = page.get_by_test_id("stMain").evaluate("main => [main.scrollWidth, main.clientWidth]")
        assert wide <= window, f"{look}: the page scrolls sideways, {wide} > {window} pixels"
        right = page.locator(parts).evaluate_all("parts => parts.map(part => part.getBoundingClientRect().right)")
        assert len(right) >= least, f"{look}: {len(right)} parts, not {least}"
        assert max(right, default=0) <= page.viewport_size["width"], f"{look}: a part ends at {max(right)}"

    eventually(look_at_it, None, seconds=20)


def on_first_screen(page, *parts):
    """Of each selector in `parts`, the first element ends inside the window; nothing was scrolled."""
    width, height = page.viewport_size["width"], page.viewport_size["height"]

    def look_at_it(part):
        box = page.locator(part).first.bounding_box()
        assert box["y"] + box["height"] <= height, f"{part} ends {box['y'] + box['height']} pixels down"
        assert box["x"] + box["width"] <= width, f"{part} ends {box['x'] + box['width']} pixels to the right"

    for part in parts:
        eventually(lambda part=part: look_at_it(part), None, seconds=20)


def open_page(page, url):
    """Go to `url` and wait until it has settled; gives the page back."""
    page.goto(url, wait_until="domcontentloaded")
    settle(page)
    return page


SECTIONS = {
    "Heads": "Explore",
    "Inside a head": "Explore",
    "Masks": "Explore",
    "Patching": "Investigate",
    "Training": "Understand",
}


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
        self.page = page
        self.listeners = {
            "console": self._on_console,
            "pageerror": self._on_uncaught_error,
            "requestfailed": self._on_request_failed,
            "response": self._on_response,
        }
        for event, listener in self.listeners.items():
            page.on(event, listener)

    def end(self):
        """Look away: what the page does from now on is another test's."""
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)

    def _on_uncaught_error(self, error):
        self.problems.append(f"uncaught error: {error}")

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
            "server.headless": "true",
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
