"""The fetches of a server: jobs that belong to nobody, so that they go on when who asked has left or loads anew."""

from pathlib import Path

from viz_model.errors import FetchError, VizError
from viz_model.fetching import fetch, refuse_unknown
from viz_model.jobs import Job, Turns


class Fetcher:
    """Fetches models, one after the other. Safe to be used by any thread."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._latest: Job[Path] | None = None

    @property
    def coming(self) -> tuple[Job[Path], ...]:
        """The fetch that is under way, and those that wait; a job is of the model's name."""
        return self._turns.jobs

    @property
    def latest(self) -> Job[Path] | None:
        """The fetch that was asked for last; None before the first."""
        return self._latest

    def start(self, name: str, shelf: Path) -> Job[Path]:
        """Fetch a model, or find it coming already; raises FetchError when the name is none."""
        refuse_unknown(name)
        for job in self.coming:
            if job.of == name:
                return job
        self._latest = Job(lambda job: _fetch(name, shelf, job), of=name, words="starting")
        return self._latest.start(self._turns)

    def cancel(self, name: str, wait_seconds: float = 10) -> None:
        """End the fetch of this model, if it is coming, and wait until it has ended."""
        for job in self.coming:
            if job.of == name:
                job.stop(wait_seconds)


def _fetch(name: str, shelf: Path, job: Job[Path]) -> Path:
    try:
        return fetch(name, shelf, job.tell)
    except VizError:
        raise
    except Exception as error:  # a fault of ours
        raise FetchError(f"{name} could not be fetched: {type(error).__name__}: {error}") from error
