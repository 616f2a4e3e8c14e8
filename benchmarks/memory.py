"""What the server holds before, while and after visitors look at long prompts with a real model.

    python benchmarks/memory.py [--model SmolLM2-135M-Instruct] [--tokens 512 1024 2000] [--wait 120] [--seed 0]

Sessions of Streamlit's protocol over WebSockets, and a server of their own. First some visitors look at tiny-gpt, and
one at a few tokens with the real model, whose library stays imported (110 to 130 MB). They leave, and what the server
holds so many seconds later is "before". Then each length has a visitor with that many tokens, all leave, and what it
holds as many seconds later may be a tenth more. Measured is the resident memory of the process, on Linux alone. The
model must have been fetched. Ends with status 1 above the budget.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.classroom import text_of
from tests.support.browser import Server
from tests.support.visitors import Look, Visitor

BUDGET = 1.10  # what is held after, as a multiple of what was held before
CLASS, FEW = 5, 16  # visitors with tiny-gpt, before the others; tokens of the one with the real model


def megabytes(server: Server) -> float:
    """The memory that the server holds now."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def visit(url: str, looks: list[Look], after: list[tuple[int, int]]) -> None:
    """Visitors come one after the other, look at these heads, and leave together."""
    visitors = [Visitor(look) for look in looks]
    for visitor in visitors:
        await visitor.come(url)
        for head in after:
            await visitor.choose_head(*head)
    await asyncio.gather(*(visitor.leave() for visitor in visitors))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="SmolLM2-135M-Instruct")
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 1024, 2000])
    parser.add_argument("--wait", type=float, default=120.0, help="seconds between leaving and looking")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    small = [Look(text_of(40 + number, "tiny-gpt", chosen.seed), number % 4, number) for number in range(CLASS)]
    short = Look(text_of(FEW, chosen.model, chosen.seed), 1, 1, chosen.model)
    long = [Look(text_of(tokens, chosen.model, chosen.seed), 1, 1, chosen.model) for tokens in chosen.tokens]
    with tempfile.TemporaryDirectory() as folder:
        server = Server("app.py", Path(folder) / "log")
        try:
            started = megabytes(server)
            asyncio.run(visit(server.url, [*small, short], [(2, 3)]))
            time.sleep(chosen.wait)
            before = megabytes(server)
            asyncio.run(visit(server.url, long, [(3, 2)]))
            held = megabytes(server)
            time.sleep(chosen.wait)
            after = megabytes(server)
        finally:
            server.stop()
    print(f"seed {chosen.seed}, load {os.getloadavg()[0]:.1f}, resident memory of the server in MB:")
    print(f"  {started:6.0f}  when it has started")
    print(f"  {before:6.0f}  {chosen.wait:.0f} s after {CLASS + 1} first visitors have left: before")
    print(f"  {held:6.0f}  as those with {', '.join(f'{n:,}' for n in chosen.tokens)} tokens of {chosen.model} leave")
    print(f"  {after:6.0f}  {chosen.wait:.0f} s later")
    print(f"after / before: {after / before:.2f} (at most {BUDGET:.2f})")
    return int(after > BUDGET * before)


if __name__ == "__main__":
    sys.exit(main())
