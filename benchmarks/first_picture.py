"""From an address to the painted matrix of Heads, in a Chromium that was never here, and in one that was.

    python benchmarks/first_picture.py [--rounds 8] [--model tiny-gpt] [--tokens 64] [--other FOLDER]

The goal is the forward pass, as `model.trace` makes it in this process, and a second. The server has been visited.
Cold is a browser without a cache, warm is its second look. --other: the same of another copy of the project, such as an
earlier commit, in turns, with ratios of the medians.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import Browser, sync_playwright

from benchmarks.head_change import TOKENS, forward_seconds, prompt_of
from tests.support import browser as harness
from tests.support.browser import CHROMIUM_FLAGS, REPOSITORY, Server, find_chromium

# Gives the milliseconds since the page was asked for, once the matrix is there and a frame was painted.
PAINTED = """
() => new Promise(resolve => {
  const look = () => [...document.querySelectorAll('[data-testid="stBidiComponentIsolated"]')]
    .some(component => component.shadowRoot?.querySelector("[data-panel='weights'] canvas"))
    ? requestAnimationFrame(() => resolve(performance.now()))
    : requestAnimationFrame(look);
  look();
})
"""


def server_of(folder: Path, log: Path) -> Server:
    """A server of the app in that copy of the project."""
    harness.REPOSITORY = folder
    return Server("app.py", log)


def looks(browser: Browser, url: str) -> dict[str, float]:
    """Milliseconds of a first look with an empty cache, and of a second one."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    seconds = {}
    for look in ("cold", "warm"):
        page = context.new_page()
        page.goto(url, wait_until="commit")
        seconds[look] = page.evaluate(PAINTED)
        page.wait_for_load_state("networkidle")
        page.close()
    context.close()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--other", type=Path, help="another copy of the project, to compare with")
    parser.add_argument("--model", default="tiny-gpt")
    parser.add_argument("--tokens", type=int, default=TOKENS)
    chosen = parser.parse_args()
    prompt = prompt_of(chosen.tokens, chosen.model)
    goal = forward_seconds(chosen.model, prompt) * 1e3 + 1000
    address = urlencode({"model": chosen.model, "prompt": prompt, "layer": 0, "head": 0})
    copies = {"this": REPOSITORY} | ({"other": chosen.other.resolve()} if chosen.other else {})
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        servers = {name: server_of(copy, Path(folder) / name) for name, copy in copies.items()}
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_FLAGS)
        try:
            rounds = [
                {name: looks(browser, f"{server.url}/?{address}") for name, server in servers.items()}
                for _ in range(chosen.rounds + 1)
            ][1:]  # the first one warms the servers up
        finally:
            browser.close()
            for server in servers.values():
                server.stop()
    of = f"{chosen.model}, {chosen.tokens} tokens, goal {goal:.0f} (forward pass and 1,000)"
    print(f"milliseconds, medians of {chosen.rounds}, load {os.getloadavg()[0]:.1f}; {of}")
    medians = {}
    for name in copies:
        for look in ("cold", "warm"):
            values = [one[name][look] for one in rounds]
            medians[name, look] = statistics.median(values)
            print(f"{name:6} {look}   {medians[name, look]:6.0f}   ({min(values):.0f} to {max(values):.0f})")
    if chosen.other:
        for look in ("cold", "warm"):
            print(f"this / other, {look}: {medians['this', look] / medians['other', look]:.2f}")


if __name__ == "__main__":
    main()
