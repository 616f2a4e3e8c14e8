"""A measurement of attention under way: its process, what it has told so far, and its end."""

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path

from viz_model.errors import VizError
from viz_model.flash.timing import LONGEST_SECONDS, Machine, Shapes, Timing

ROOT = Path(__file__).resolve().parents[2]
ALARM_SECONDS = LONGEST_SECONDS + 60  # a process that is older than this hangs


class Measuring:
    """One run of `viz_model.flash.timing`; it begins when this is made. Read by any thread.

    machine: where it runs, None until the process has said it. timings: the lengths that are measured so far.
    problem: why it ended early, "" where it did not.
    """

    def __init__(self, shapes: Shapes):
        self.shapes = shapes
        self.machine: Machine | None = None
        self.timings: list[Timing] = []
        self.problem = ""
        self._stopped = False
        command = [sys.executable, "-m", "viz_model.flash.timing", json.dumps(asdict(shapes))]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (the reading thread closes it)
        self._child = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ.copy(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._thread = threading.Thread(target=self._read, name="measuring", daemon=True)
        self._thread.start()
        self._alarm = threading.Timer(ALARM_SECONDS, self.stop)
        self._alarm.daemon = True
        self._alarm.start()
        atexit.register(self.stop)

    @property
    def is_under_way(self) -> bool:
        return self._thread.is_alive()

    @property
    def was_stopped(self) -> bool:
        """Whether somebody ended it; what it had told until then stays."""
        return self._stopped

    def stop(self) -> None:
        """End it, if it has not ended."""
        if self._child.poll() is None:
            self._stopped = True
            self._child.kill()

    def wait(self, seconds: float) -> None:
        """Wait until it has ended, or so many seconds."""
        self._thread.join(seconds)

    def _read(self) -> None:
        for line in self._child.stdout:
            if line.startswith(b"{"):  # the profiler may write lines of its own
                self._take(json.loads(line))
        status = self._child.wait()
        self._alarm.cancel()
        atexit.unregister(self.stop)
        if status and not self._stopped:
            self._errors.seek(0)
            last = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
            self.problem = f"The measurement ended early: {' '.join(last) or f'status {status}'}."
        self._child.stdout.close()
        self._errors.close()

    def _take(self, told: dict) -> None:
        if self.machine is None:
            self.machine = Machine(**told)
        else:
            self.timings.append(Timing.of(told))


class Bench:
    """Lets one measurement run at a time, for two would measure each other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: Measuring | None = None

    def begin(self, shapes: Shapes) -> Measuring:
        """Raises VizError while another one is under way."""
        with self._lock:
            if self._latest is not None and self._latest.is_under_way:
                raise VizError("Another measurement is running on this machine. Try again in half a minute.")
            self._latest = Measuring(shapes)
            return self._latest
