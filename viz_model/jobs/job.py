"""A job: work in a thread of its own, with how far it is, what it has left so far, a stop, and its result."""

import atexit
import contextvars
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from viz_model.errors import JobStopped, VizError

Result = TypeVar("Result")
PATIENCE_SECONDS = 10  # that a program which ends waits for its jobs


@dataclass(frozen=True)
class Progress:
    """How far work is: `done` of `total`, in whatever it counts, None where nobody knows; and what it does just now."""

    done: float = 0
    total: float | None = None
    words: str = ""

    @property
    def share(self) -> float:
        """From 0 to 1; 0 where the total is not known."""
        return min(self.done / self.total, 1.0) if self.total else 0.0


class Tell(Protocol):
    """What long work calls again and again to say how far it is, see `Progress`; what this raises ends the work."""

    def __call__(self, done: float = 0, total: float | None = None, words: str = "") -> None: ...


def untold(done: float = 0, total: float | None = None, words: str = "") -> None:
    """For work whose progress nobody looks at."""


class Queue(Protocol):
    """Where jobs wait for their turn, see `Turns`."""

    def enter(self, job: "Job") -> None: ...

    def leave(self, job: "Job") -> None: ...

    def ahead_of(self, job: "Job") -> int: ...


class Job(Generic[Result]):
    """One piece of work. It begins with `start`, and goes on whoever looks. Safe to be used by any thread.

    work: called with the job, in the context that the job was made in. It says how far it is by `tell`, which ends it
    after a stop, and may leave `parts` on its way. of: what is worked on; two jobs of the same do the same work.
    """

    def __init__(self, work: Callable[["Job[Result]"], Result], *, of: Hashable = None, words: str = ""):
        self.of = of
        self.owner: Hashable = None  # the visitor whose job it is; None is the program itself
        self.progress = Progress(words=words)
        self.parts: list[Any] = []  # grows; what was there once stays
        self.error: Exception | None = None
        self._work, self._context = work, contextvars.copy_context()
        self._result: Result | None = None
        self._turns: Queue | None = None
        self._lock, self._stop, self._over = threading.Lock(), threading.Event(), threading.Event()
        self._at_stop: list[Callable[[], None]] = []
        self._began: float | None = None
        self._ended: float | None = None

    # --- for the work -------------------------------------------------------------------------------------------

    def note(self, done: float = 0, total: float | None = None, words: str = "") -> None:
        """Say how far the work is. Without words, what it does is still the same."""
        self.progress = Progress(done, total, words or self.progress.words)

    def tell(self, done: float = 0, total: float | None = None, words: str = "") -> None:
        """Say how far the work is; raises JobStopped where the job was stopped."""
        self.note(done, total, words)
        if self._stop.is_set():
            raise JobStopped("This work was stopped before its end.")

    def at_stop(self, call: Callable[[], None]) -> None:
        """What a stop shall do besides, for work that waits and cannot tell; at once where it has come already."""
        with self._lock:
            self._at_stop.append(call)
            is_stopped = self._stop.is_set()
        if is_stopped:
            call()

    # --- for who looks on ---------------------------------------------------------------------------------------

    @property
    def has_begun(self) -> bool:
        return self._began is not None

    @property
    def is_under_way(self) -> bool:
        """Whether it waits for its turn or works."""
        return not self._over.is_set()

    @property
    def was_stopped(self) -> bool:
        """Whether somebody ended it before its time; the parts that it left until then stay."""
        return self._stop.is_set()

    @property
    def ahead(self) -> int:
        """How many jobs will begin before this one: its place in the queue."""
        return 0 if self._turns is None else self._turns.ahead_of(self)

    @property
    def seconds(self) -> float:
        """How long it has worked, or worked."""
        if self._began is None:
            return 0.0
        return (self._ended or time.monotonic()) - self._began

    @property
    def problem(self) -> str:
        """Why it failed, as a sentence; "" where it did not, or was stopped."""
        if self.error is None or isinstance(self.error, JobStopped):
            return ""
        if isinstance(self.error, VizError):
            return str(self.error)
        return f"{type(self.error).__name__}: {self.error}"  # a fault of ours: nobody else can say it

    def start(self, turns: Queue | None = None) -> "Job[Result]":
        """Begin; with `turns`, as soon as it is this job's turn."""
        self._turns = turns
        if turns is None:
            self.begin()
        else:
            turns.enter(self)
        return self

    def begin(self) -> None:
        """Begin now: it is this job's turn."""
        with self._lock:
            if self._began is not None or self._over.is_set() or self._stop.is_set():
                return
            self._began = time.monotonic()
        _under_way.add(self)
        # A daemon: a program that ends must not wait for the work's own end, but stop it (`_stop_all`).
        threading.Thread(target=self._run, name="job", daemon=True).start()

    def stop(self, wait_seconds: float = 0.0) -> None:
        """Ask it to end, and wait so long for it; a job that has ended stays as it is."""
        with self._lock:
            if self._over.is_set():
                return
            self._stop.set()
            has_begun, calls = self.has_begun, tuple(self._at_stop)
        for call in calls:
            call()
        if not has_begun:
            self.error = JobStopped("This work was stopped before it began.")
            self._finish()
        self._over.wait(wait_seconds)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, or so many seconds; whether it has."""
        return self._over.wait(seconds)

    def result(self) -> Result:
        """What the work gave, waiting for its end; raises what it raised, JobStopped where it was stopped."""
        self._over.wait()
        if self.error is not None:
            raise self.error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._context.run(self._work, self)
        except Exception as error:
            self.error = error
        finally:
            self._finish()

    def _finish(self) -> None:
        if self._turns is not None:
            self._turns.leave(self)
        with self._lock:
            self._ended = time.monotonic()
            self._work = self._context = None  # they may hold much
            self._at_stop.clear()
            self._over.set()
        _under_way.discard(self)


_under_way: set[Job] = set()


def are_under_way() -> bool:
    """Whether any job of this program works."""
    return bool(_under_way)


@atexit.register
def _stop_all() -> None:
    """A program that ends ends its jobs, and what they wrote is cleared away."""
    jobs = tuple(_under_way)
    for job in jobs:
        job.stop()
    until = time.monotonic() + PATIENCE_SECONDS
    for job in jobs:
        job.wait(max(0.0, until - time.monotonic()))
