"""Waiting for what another thread or process does, and threads without an event loop."""

import time
from concurrent.futures import ThreadPoolExecutor

PATIENCE = 300  # seconds, that only a fault lasts so long: however busy a machine is, a test that passes ends before


def until(is_so, seconds=PATIENCE):
    """Wait until `is_so()` gives something true, and give that."""
    end = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < end, f"it took more than {seconds} s"
        time.sleep(0.02)
    return found


def apart(work, *arguments):
    """What `work(*arguments)` gives in a thread of its own: in this one, a browser test left its event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work, *arguments).result()
