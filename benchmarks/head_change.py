"""From a click on another head to its painted matrix, against an empty rerun, in one real Chromium.

    python benchmarks/head_change.py [--rounds 15] [--model tiny-gpt] [--tokens 64 256 …]

Alternates between the two, prints medians and their ratio, and what the server sent over the WebSocket for the first
picture and for a head change, each beside its goal, for each number of tokens. Ends with status 1 above a goal. A model
that is not in the project must have been fetched.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playwright.sync_api import Page, sync_playwright

import viz_model as vm
from tests.support.browser import CHROMIUM_FLAGS, REPOSITORY, Server, find_chromium, open_page, settle

RATIO = 2.0
FIRST_PICTURE = 150_000  # bytes
SHORT, SHORT_CHANGE, LONG_CHANGE = 256, 100_000, 400_000  # tokens, and bytes up to so many and beyond
TOKENS = 64
LONGEST_FIRST_PICTURE = 600  # seconds, of thousands of tokens on a machine with other work
STORY = "Once upon a time there was a king who had three daughters, and the youngest was so fair that "
LETTERS = " ".join("abcdefghijklmnopqrstuvwxyz"[7 * i % 26] for i in range(4096))  # of two characters a token
FEW = 700  # tokens; the story of more is longer than the page's prompt may be

# Clicks, and resolves with the milliseconds until `watched` shows another text and a frame was painted.
CLICK_TO_PAINT = """
(button, watched) => new Promise(resolve => {
  const before = watched.textContent, start = performance.now();
  const look = () => watched.textContent === before
    ? requestAnimationFrame(look)
    : requestAnimationFrame(() => resolve(performance.now() - start));
  button.click();
  requestAnimationFrame(look);
})
"""


def prompt_of(n_tokens: int, model: str = "tiny-gpt") -> str:
    """A story cut to exactly so many tokens; of many, single letters."""
    tokenizer = vm.load(model).tokenizer
    return tokenizer.decode(tokenizer.encode(STORY * 40 if n_tokens <= FEW else LETTERS)[:n_tokens])


def forward_seconds(model: str, prompt: str) -> float:
    """Seconds of the fastest of three passes."""
    loaded, seconds = vm.load(model), []
    for _ in range(3):
        start = time.perf_counter()
        loaded.trace(prompt)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def head_change(page: Page, model: str, round_: int) -> float:
    """Choose another head of the grid, never the chosen one."""
    config = vm.load(model).config
    layer, head = divmod((round_ * 5 + 3) % (config.n_layers * config.n_heads), config.n_heads)
    button = page.get_by_role("button", name=f"Layer {layer}, head {head}").first
    title = page.locator("[data-panel='weights'] .title").element_handle()
    elapsed = button.evaluate(CLICK_TO_PAINT, title)
    settle(page)
    return elapsed


def empty_rerun(page: Page) -> float:
    text = page.get_by_test_id("stText").locator("*").last.element_handle()
    elapsed = page.get_by_role("button", name="again").evaluate(CLICK_TO_PAINT, text)
    settle(page)
    return elapsed


def count_received(page: Page) -> list[int]:
    """A list that will have the bytes of each message that the page gets over a WebSocket."""
    sizes: list[int] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda message: sizes.append(len(message))))
    return sizes


def measure(rounds: int, model: str, n_tokens: int) -> tuple[list[float], list[float], int, float]:
    """Milliseconds of head changes and of empty reruns, taken in turns; the first two of each are warm-up. Bytes of
    the first picture, and of a head change."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        servers = [
            Server(script, Path(folder) / f"{number}.log")
            for number, script in enumerate(("app.py", REPOSITORY / "benchmarks" / "empty_app.py"))
        ]
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=CHROMIUM_FLAGS)
        try:
            app, empty = (browser.new_page(viewport={"width": 1400, "height": 900}) for _ in servers)
            received = count_received(app)
            address = urlencode({"model": model, "prompt": prompt_of(n_tokens, model), "layer": 0, "head": 0})
            app.goto(f"{servers[0].url}/?{address}", wait_until="domcontentloaded")
            settle(app, LONGEST_FIRST_PICTURE)
            open_page(empty, servers[1].url)
            first = sum(received)
            received.clear()
            heads, empties = [], []
            for round_ in range(rounds + 2):
                app.bring_to_front()
                heads.append(head_change(app, model, round_))
                empty.bring_to_front()
                empties.append(empty_rerun(empty))
            return heads[2:], empties[2:], first, sum(received) / len(heads)
        finally:
            browser.close()
            for server in servers:
                server.stop()


def report(rounds: int, model: str, n_tokens: int) -> bool:
    """Measure and print; whether every goal was reached."""
    heads, empties, first, change = measure(rounds, model, n_tokens)
    head, empty = statistics.median(heads), statistics.median(empties)
    most = SHORT_CHANGE if n_tokens <= SHORT else LONG_CHANGE
    print(f"{model}, {n_tokens} tokens")
    print(f"  empty rerun                  {empty:6.0f} ms   ({min(empties):.0f} to {max(empties):.0f})")
    print(f"  head change to paint         {head:6.0f} ms   ({min(heads):.0f} to {max(heads):.0f})")
    print(f"  ratio                        {head / empty:6.2f}      goal {RATIO}")
    print(f"  sent for the first picture   {first / 1e3:6.0f} kB   goal {FIRST_PICTURE / 1e3:.0f}")
    print(f"  sent for a head change       {change / 1e3:6.0f} kB   goal {most / 1e3:.0f}", flush=True)
    return head / empty <= RATIO and first <= FIRST_PICTURE and change <= most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--model", default="tiny-gpt")
    parser.add_argument("--tokens", type=int, nargs="+", default=[TOKENS])
    chosen = parser.parse_args()
    reached = [report(chosen.rounds, chosen.model, n_tokens) for n_tokens in chosen.tokens]
    sys.exit(not all(reached))


if __name__ == "__main__":
    main()
