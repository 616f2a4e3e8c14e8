"""Turns: heavy work of all visitors, so many at a time; and the visitors who ask for it."""

import threading
from typing import TypeVar

from viz_model.jobs.job import Job

AnyJob = TypeVar("AnyJob", bound=Job)

TRAINING, MEASURING, PASSES = "training", "measuring", "passes"
# How many jobs of a kind work at a time. One training is what a computer bears, and two measurements would measure each
# other. Of passes one may take long, and the next visitor's shall not wait for it.
PLACES = {TRAINING: 1, MEASURING: 1, PASSES: 2}


class Turns:
    """Lets `places` jobs work at a time; the others wait. Safe to be used by any thread.

    The visitors take turns, in rounds: the jobs of one visitor come in the order in which they were asked for, one in
    each round. So nobody waits for more than one job of each of the others, however many these asked for.
    """

    def __init__(self, places: int = 1):
        self._places, self._lock = places, threading.Lock()
        self._round = 0  # that the job is of which began last
        self._rounds: dict[Job, int] = {}  # of all that work or wait, in the order in which they were asked for
        self._working: list[Job] = []

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Those that work, and those that wait in the order in which they will begin."""
        with self._lock:
            return (*self._working, *self._queue())

    def enter(self, job: Job) -> None:
        """A job wants to begin: at once where a place is free."""
        with self._lock:
            theirs = [round_ for one, round_ in self._rounds.items() if one.owner == job.owner]
            self._rounds[job] = max(theirs) + 1 if theirs else self._round
        self._fill_places()

    def leave(self, job: Job) -> None:
        """A job has ended, or is not wanted any more: its place is free."""
        with self._lock:
            self._rounds.pop(job, None)
            if job in self._working:
                self._working.remove(job)
        self._fill_places()

    def ahead_of(self, job: Job) -> int:
        """How many waiting jobs will begin before this one; 0 where it has begun."""
        with self._lock:
            queue = self._queue()
        return queue.index(job) if job in queue else 0

    def _queue(self) -> list[Job]:
        return sorted((job for job in self._rounds if job not in self._working), key=self._rounds.get)  # stable

    def _fill_places(self) -> None:
        with self._lock:
            began = self._queue()[: self._places - len(self._working)]
            self._working += began
            for job in began:
                self._round = self._rounds[job]
        for job in began:
            job.begin()


class Visitor:
    """Somebody who asks for jobs. When they leave, all of theirs end, and what they held is free."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._has_left = False

    def start(self, job: AnyJob, turns: Turns | None = None) -> AnyJob:
        """Start a job of theirs."""
        self._jobs = [*(one for one in self._jobs if one.is_under_way), job]
        job.owner = self
        job.start(turns)
        if self._has_left:  # the last run of their page was still on its way
            job.stop()
        return job

    def leave(self) -> None:
        self._has_left = True
        for job in self._jobs:
            job.stop()
