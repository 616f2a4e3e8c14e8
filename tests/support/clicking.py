"""A reader who clicks anything, in any order: heads, cells, numbers, prompts, pages, Back, Forward and Reload."""

import os
import random
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Error, Page, sync_playwright

from tests.support import hostile
from tests.support.browser import CHROMIUM_FLAGS, PageWatch, Server, find_chromium, settle

TICKS = os.sysconf("SC_CLK_TCK")
PAGES = ("", "inside_a_head", "shapes", "masks", "generate", "positions", "layouts", "flash_attention", "quantization",
         "misconceptions", "models", "training", "shape_reference")  # fmt: skip
# What is not to be tried by chance.
LASTING = re.compile(r"fetch|remove|keep|start|train|save|download|open|load", re.IGNORECASE)
WAIT_MS = 1500  # for what is to be clicked: it may be gone by now

ACTIONS = {"head": 6, "control": 6, "back": 6, "forward": 4, "menu": 3, "number": 3, "prompt": 2, "link": 2,
           "reload": 1}  # fmt: skip
KEYS = ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "Home", "End", "Enter", " ")


class WatchedServer(Server):
    """A server that is asked what it takes."""

    def worked(self) -> float:
        """Seconds of processor time."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def peak_bytes(self) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


@contextmanager
def browsing() -> Iterator[tuple[Page, WatchedServer, list[str]]]:
    """A tab, a server of its own, and the list to which the browser's errors are added."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = WatchedServer("app.py", Path(folder) / "log", VIZ_FETCHED=folder)
        try:
            browser = playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            page.set_default_timeout(WAIT_MS)
            yield page, server, PageWatch(page).problems
            browser.close()
        finally:
            server.stop()


class Reader:
    """Does one thing after the other, and seldom waits for what came of it."""

    def __init__(self, page: Page, url: str, chance: random.Random):
        self.page, self.url, self.chance = page, url, chance
        self.todo = ("link", "")
        self.lost = 0  # clicks on what was not there any more

    def choose(self) -> str:
        """What comes next, in words."""
        if self.page.url == "about:blank":
            self.todo = ("link", "")
        else:
            [kind] = self.chance.choices([*ACTIONS], weights=ACTIONS.values())
            self.todo = (kind, self._what(kind))
        return f"{' '.join(self.todo)[:120]!a} at {self.page.url.removeprefix(self.url)[:200]}"

    def _what(self, kind: str) -> str:
        if kind == "prompt":
            return hostile.text(self.chance, 4000).encode(errors="ignore").decode()[:4000]
        if kind == "link":
            names = ["model", "prompt", "head", "cell", "mask", "layer", "query", "step", "node"]
            address = hostile.address(self.chance, names)
            chosen = "&".join(f"{name}={value}" for name, value in address.items())
            return f"{self.chance.choice(PAGES)}?{chosen}"[:1500]
        return str(self.chance.randint(1, 4)) if kind in ("back", "forward") else ""

    def act(self) -> None:
        """Do it; raises AssertionError where the app shows an exception, or does not come to rest."""
        kind, what = self.todo
        try:
            getattr(self, f"_{kind}")(what)
        except Error as error:
            if "crashed" in str(error):
                raise AssertionError("the tab crashed") from error
            self.lost += 1  # what was to be clicked is gone, or lies under a menu
        if kind in ("link", "reload", "prompt") or self.chance.random() < 0.5:
            self._settle()

    def _settle(self) -> None:
        """Wait until the page is at rest; Back may have led to another document, or to before the first one."""
        for last in (False,) * 11 + (True,):
            if self.page.url == "about:blank":
                return
            try:
                settle(self.page, timeout_seconds=10)
                return
            except Error:  # the document was just left
                self.page.wait_for_timeout(200)
            except AssertionError as error:
                if last or "did not settle" not in str(error):
                    raise

    def _link(self, what: str) -> None:
        self.page.goto(f"{self.url}/{what}", wait_until="domcontentloaded", timeout=60_000)

    def _reload(self, _: str) -> None:
        self.page.reload(wait_until="domcontentloaded", timeout=60_000)

    def _back(self, times: str) -> None:
        self.page.evaluate(f"history.go(-{times})")

    def _forward(self, times: str) -> None:
        self.page.evaluate(f"history.go({times})")

    def _menu(self, _: str) -> None:
        self._any(self.page.get_by_test_id("stTopNavSection")).click()
        self._any(self.page.get_by_role("menuitem")).click()

    def _head(self, _: str) -> None:
        self._any(self.page.get_by_role("button", name=re.compile(r"^Layer \d+, head \d+"))).click()

    def _number(self, _: str) -> None:
        box = self._any(self.page.get_by_role("spinbutton"))
        box.fill(self.chance.choice(("0", "-1", "99", "3", "", "1e9", "999999999999999999999")))
        box.press("Enter")

    def _prompt(self, text: str) -> None:
        box = self.page.get_by_role("textbox", name="Prompt")
        box.fill(text)
        box.press("Control+Enter")

    def _control(self, _: str) -> None:
        role = self.chance.choice(("button", "radio", "checkbox", "option", "tab", "slider", "combobox", "gridcell"))
        control = self._any(self.page.get_by_test_id("stMain").get_by_role(role))
        if LASTING.search(f"{control.get_attribute('aria-label') or ''} {control.inner_text()}"):
            return
        control.focus()
        control.press(self.chance.choice(KEYS))
        if role in ("button", "radio", "option") and self.chance.random() < 0.7:
            control.click()

    def _any(self, found):
        count = found.count()
        return found.nth(self.chance.randrange(count)) if count else found
