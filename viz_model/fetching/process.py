"""A child process that is watched: its bytes on disk are the progress, and it can be ended at any time."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from viz_model.errors import FetchError, FetchStopped

LOOK_SECONDS = 0.2  # between two looks at how far it is


class ChildFailed(FetchError):
    """A command that failed; the text is what it wrote to stderr."""


@dataclass(frozen=True)
class Progress:
    """How far a fetch is: what it does, bytes done and in all; `total` is None where that is not known."""

    doing: str
    done: int = 0
    total: int | None = None


@dataclass(frozen=True)
class Watch:
    """Who looks on: `report` is told of every step, `is_cancelled` is asked between them."""

    report: Callable[[Progress], None]
    is_cancelled: Callable[[], bool]

    def step(self, doing: str, done: int = 0, total: int | None = None) -> None:
        """Say how far it is; raises FetchStopped when it was cancelled meanwhile."""
        if self.is_cancelled():
            raise FetchStopped("The fetch was cancelled. Nothing of it was kept.")
        self.report(Progress(doing, done if total is None else min(done, total), total))


def run(
    command: Sequence[str],
    watch: Watch,
    doing: str,
    *,
    folder: Path,
    grows: Path | None = None,
    total: int | None = None,
    environment: dict[str, str] | None = None,
) -> str:
    """Run a command in `folder`, report the bytes below `grows` meanwhile, and give what it wrote to stdout.

    Raises FetchStopped when it was cancelled, and ChildFailed with what it wrote to stderr when it failed; it has
    ended in either case.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = subprocess.Popen(
            command, cwd=folder, env=os.environ | (environment or {}), stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        try:
            while _is_running(child):
                watch.step(doing, _bytes_below(grows) if grows else 0, total)
        finally:
            _end(child)
        if child.returncode:
            raise ChildFailed(_text(err).strip() or f"The command ended with the status {child.returncode}.")
        return _text(out)


def _is_running(child: subprocess.Popen) -> bool:
    try:
        child.wait(LOOK_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _end(child: subprocess.Popen) -> None:
    for end in (child.terminate, child.kill):
        if child.poll() is None:
            end()
            try:
                child.wait(3)
            except subprocess.TimeoutExpired:
                continue


def _text(file) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _bytes_below(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size
            except OSError:  # moved on by the child meanwhile
                continue
    return total
