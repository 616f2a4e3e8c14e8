"""A child process of a job: a module or a script in a process of its own, which ends with its job and this program."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from viz_model.errors import VizError
from viz_model.jobs.job import Tell
from viz_model.paths import ROOT

ENDS_WITH_PARENT = Path(__file__).with_name("ends_with_parent.py")
LOOK_SECONDS = 0.2  # between two looks at how far it is
PATIENCE_SECONDS = 3  # between asking it to end and ending it


class ChildFailed(VizError):
    """A process that failed; the text is what it wrote to stderr."""


class Child:
    """A process that runs `words`: a module, or the path of a script, and its arguments. Begins when this is made.

    reads_stdin: the module reads its stdin by itself and ends with it; else it gets nothing to read, and is ended when
    this program ends, also where that is killed (see `ends_with_parent`).
    """

    def __init__(
        self,
        words: Sequence[str],
        *,
        folder: Path = ROOT,
        environment: Mapping[str, str] | None = None,
        reads_stdin: bool = False,
        stdout: IO[bytes] | int = subprocess.PIPE,
    ):
        python = [sys.executable, "-m"] if reads_stdin else [sys.executable, "-P", str(ENDS_WITH_PARENT)]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `end`)
        self.process = subprocess.Popen(
            [*python, *words],
            cwd=folder,
            env=os.environ | dict(environment or {}),
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=self._errors,
        )

    def kill(self) -> None:
        self.process.kill()

    def end(self) -> None:
        """See to it that it has ended, and give back what it held."""
        for end in (self.process.terminate, self.process.kill):
            if self.process.poll() is None:
                end()
                try:
                    self.process.wait(PATIENCE_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
        for pipe in filter(None, (self.process.stdin, self.process.stdout, self._errors)):
            with suppress(OSError):  # what was still to be written goes with it
                pipe.close()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, or so many seconds; whether it has."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def faults(self) -> str:
        """What it wrote to stderr, or with which status it ended; "" where it ended well."""
        if not self.process.wait():
            return ""
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        return said or f"The command ended with the status {self.process.returncode}."


def run(
    words: Sequence[str],
    tell: Tell,
    doing: str,
    *,
    folder: Path = ROOT,
    grows: Path | None = None,
    total: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Run a module or script in `folder`, tell the bytes below `grows` meanwhile, and give what it wrote to stdout.

    Raises what `tell` raises, and ChildFailed with what it wrote to stderr when it failed; it has ended in either case.
    """
    with tempfile.TemporaryFile() as out:
        child = Child(words, folder=folder, environment=environment, stdout=out)
        try:
            while not child.wait(LOOK_SECONDS):
                done = _bytes_below(grows) if grows else 0
                tell(done if total is None else min(done, total), total, doing)
            if faults := child.faults():
                raise ChildFailed(faults)
        finally:
            child.end()
        out.seek(0)
        return out.read().decode(errors="replace")


def _bytes_below(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # moved on by the child meanwhile
                total += os.lstat(os.path.join(place, name)).st_size
    return total
