"""A server in this process that visitors come to and leave again; prints what is left of theirs, for test_upkeep.py.

In a process of its own, for Streamlit has one server in a process.
"""

import asyncio
import gc
import json
import threading
import time
from collections import Counter

import uvicorn
from streamlit import config

import viz_model as vm
from tests.support.browser import REPOSITORY
from tests.support.visitors import Look, Visitor
from viz_ui.components.panels import Matrix
from viz_ui.frame import upkeep
from viz_ui.frame.view import View

WAIT_SECONDS = 60


def held() -> Counter:
    """How many of the large things there are."""
    gc.unfreeze()  # those that the collector was told to pass over, too
    kinds = {vm.Trace: "traces", View: "views", vm.Model: "models", Matrix: "matrices"}
    return Counter(kinds[type(one)] for one in gc.get_objects() if type(one) in kinds)


async def visit(url: str) -> Counter:
    """Three visitors look at two heads and another prompt; gives what is held while they are there."""
    visitors = [Visitor(Look(f"Once upon a time there was a king who had {n}", 1, n)) for n in range(3)]
    for visitor in visitors:
        await visitor.come(url)
        await visitor.choose_head(2, 3)
        await visitor.type_prompt(f"{visitor.look.prompt} daughters")
    found = held()
    await asyncio.gather(*(visitor.leave() for visitor in visitors))
    return found


def main() -> None:
    upkeep.GRACE_SECONDS = 0.5
    config._main_script_path = str(REPOSITORY / "app.py")  # as `streamlit run` sets it
    from app import app

    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    there = asyncio.run(visit(f"http://127.0.0.1:{port}"))
    own = Counter(models=1)  # of this process: it reads the prompts for `Look.tokens`
    until = time.monotonic() + WAIT_SECONDS
    while (left := held() - own) and time.monotonic() < until:
        time.sleep(0.2)
    print(json.dumps({"there": there, "left": left}))


if __name__ == "__main__":
    main()
