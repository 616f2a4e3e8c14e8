"""A measurement of attention: a job whose process tells one length after the other."""

import json
import threading
from dataclasses import asdict

from viz_model.errors import VizError
from viz_model.flash.timing import LENGTHS, LONGEST_SECONDS, Machine, Shapes, Timing
from viz_model.jobs import Job
from viz_model.jobs.child import Child

ALARM_SECONDS = LONGEST_SECONDS + 60  # a process that is older than this hangs


class Measuring(Job[None]):
    """One run of `viz_model.flash.timing`; its parts are the machine and then one timing for each length."""

    def __init__(self, shapes: Shapes):
        super().__init__(_measure, of=shapes, words="starting")
        self.shapes = shapes

    @property
    def machine(self) -> Machine | None:
        """Where it runs; None until the process has said it."""
        return self.parts[0] if self.parts else None

    @property
    def timings(self) -> list[Timing]:
        """The lengths that are measured so far."""
        return self.parts[1:]


def _measure(job: Measuring) -> None:
    child = Child(["viz_model.flash.timing", json.dumps(asdict(job.shapes))])
    alarm = threading.Timer(ALARM_SECONDS, child.kill)
    alarm.daemon = True
    alarm.start()
    job.at_stop(child.kill)
    try:
        for line in child.process.stdout:
            if line.startswith(b"{"):  # the profiler may write lines of its own
                _take(json.loads(line), job)
        if (faults := child.faults()) and not job.was_stopped:
            raise VizError(f"The measurement ended early: {faults.splitlines()[-1]}.")
    finally:
        alarm.cancel()
        child.end()


def _take(told: dict, job: Measuring) -> None:
    if job.machine is None:
        job.parts.append(Machine(**told))
    else:
        job.parts.append(Timing.of(told))
        job.note(len(job.timings), len(LENGTHS), f"T = {job.timings[-1].length:,} is done")
