"""Fetcher: one fetch at a time, in a thread of its own, for all visitors of a server."""

import atexit
import threading
from dataclasses import dataclass
from pathlib import Path

from viz_model.errors import FetchError, FetchStopped, VizError
from viz_model.fetching import fetch, refuse_unknown
from viz_model.fetching.process import Progress


@dataclass(frozen=True)
class Fetching:
    """A fetch: under way as long as `progress` is there; then it is done, or `problem` says why not."""

    name: str
    progress: Progress | None
    problem: str = ""

    @property
    def is_under_way(self) -> bool:
        return self.progress is not None


class Fetcher:
    """Starts a fetch, tells how far it is, cancels it. Safe to be used by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._thread: threading.Thread | None = None
        self._latest: Fetching | None = None
        atexit.register(self.cancel)

    @property
    def latest(self) -> Fetching | None:
        """The fetch that is under way, or the last one; None before the first."""
        return self._latest

    def start(self, name: str, shelf: Path) -> None:
        """Begin to fetch a model; raises FetchError when the name is none, or when a fetch is under way."""
        refuse_unknown(name)
        with self._lock:
            if self._latest and self._latest.is_under_way:
                raise FetchError(f"{self._latest.name} is being fetched. Wait until it is done, or cancel it.")
            self._cancelled = threading.Event()
            self._latest = Fetching(name, Progress("starting"))
            # Not a daemon: a server that is stopped waits until the fetch was cancelled and cleared away.
            self._thread = threading.Thread(target=self._run, args=(name, shelf, self._cancelled), name="fetch")
            self._thread.start()

    def cancel(self, wait_seconds: float = 10) -> None:
        """End the fetch that is under way, if there is one, and wait until it has ended."""
        self._cancelled.set()
        if self._thread is not None:
            self._thread.join(wait_seconds)

    def _run(self, name: str, shelf: Path, cancelled: threading.Event) -> None:
        problem = ""
        try:
            fetch(name, shelf, report=lambda progress: self._tell(name, progress), is_cancelled=cancelled.is_set)
        except FetchStopped:
            problem = f"The fetch of {name} was cancelled. Nothing of it was kept."
        except VizError as error:
            problem = str(error)
        except Exception as error:  # a fault of ours: a thread has nobody else to tell it to
            problem = f"{name} could not be fetched: {type(error).__name__}: {error}"
        self._latest = Fetching(name, None, problem)

    def _tell(self, name: str, progress: Progress) -> None:
        self._latest = Fetching(name, progress)
