"""Folders that are being written: hidden until they are whole, and cleared away where their writer was killed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK_FILE = ".lock"
FETCHING, UNFINISHED = ".fetching-", ".unfinished"  # how names of such folders begin, or end
PATTERNS = (f"{FETCHING}*", f".*{UNFINISHED}")


@contextmanager
def alone_in(folder: Path, wait_seconds: float = 0) -> Iterator[None]:
    """One writer at a time in a folder, of all processes; what a killed one left there is cleared away before.

    Raises filelock's Timeout where another one still writes after so many seconds, and OSError where nothing can be
    written. The lock is the system's: it ends with its process, also where that is killed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / LOCK_FILE, timeout=wait_seconds):
        for left_over in _left_in(folder):
            shutil.rmtree(left_over, ignore_errors=True)
        yield


def clear(folder: Path) -> None:
    """Clear away what killed writers left in a folder, unless somebody writes there just now."""
    if _left_in(folder):
        with suppress(Timeout, OSError), alone_in(folder):
            pass


def _left_in(folder: Path) -> list[Path]:
    return [path for pattern in PATTERNS for path in folder.glob(pattern)]
