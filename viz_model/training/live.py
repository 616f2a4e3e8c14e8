"""A training that people watch: what it leaves behind every few steps, and the child process that it runs in.

A process of its own takes one core and no more, holds up nobody's page, and can be ended at any moment. The number of
threads that torch takes is one for a whole process, so within the server it could not be bounded for a training alone.
"""

import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from viz_model.errors import TrainingError
from viz_model.shapes.costs import parameters_by_part
from viz_model.training.figures.repeats import measure_repeats, repeated_rows
from viz_model.training.loop import Training
from viz_model.training.recipe import Recipe
from viz_model.transformer import Transformer
from viz_model.transformer.hooks import capture

MEASURED_ROWS = 16  # of random repeats, at every snapshot
MOST_PARAMETERS, MOST_STEPS, MOST_SNAPSHOTS, MOST_SECONDS = 2_000_000, 5_000, 60, 900
PATIENCE_SECONDS = 5  # between asking a child to stop and ending it


@dataclass(frozen=True, eq=False)
class Job:
    """What is trained, and what is looked at meanwhile.

    stream: ids to train on (N,), empty for random repeats. watched: the ids of the row whose attention is drawn.
    characters: ids of which the measured repeats are made. Refused with TrainingError where it is out of bounds.
    """

    recipe: Recipe
    stream: np.ndarray
    watched: tuple[int, ...]
    characters: np.ndarray

    def __post_init__(self):
        config, steps = self.recipe.config, self.recipe.steps
        if not 1 <= steps <= MOST_STEPS:
            raise TrainingError(f"A live training has 1 to {MOST_STEPS:,} steps, not {steps:,}.")
        if not 2 <= len(self.watched) <= config.context_length:
            raise TrainingError(
                f"The watched row has {len(self.watched)} tokens; it must have 2 to {config.context_length}."
            )
        parameters = sum(parameters_by_part(config).values())
        if parameters > MOST_PARAMETERS:
            raise TrainingError(
                f"This model has {parameters:,} parameters, but a live training allows at most "
                f"{MOST_PARAMETERS:,}. Choose fewer layers or a smaller width."
            )

    @property
    def every(self) -> int:
        """Steps between two snapshots."""
        return -(-self.recipe.steps // (MOST_SNAPSHOTS - 1))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The model at one step.

    loss: mean training loss since the last snapshot, in nats; None at step 0. again: loss of random tokens that come
    again. previous, induction: weights of the heads (L,H) on the token before and on the one after the earlier copy,
    on the same random rows. weights: (L,H,T,T) of the watched row, float32.
    """

    step: int
    loss: float | None
    again: float
    previous: np.ndarray
    induction: np.ndarray
    weights: np.ndarray


Weights = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Parameters:
    """All parameters by name, at the first step and at the last that was taken."""

    step: int
    weights: Weights


def train(job: Job, tell: Callable[[Snapshot | Parameters], None], is_stopped: Callable[[], bool]) -> None:
    """Train here and now: tell the parameters, snapshots as they come, and the parameters again."""
    training = Training(job.recipe, job.stream, None)
    tell(Parameters(0, _parameters(training.model)))
    tell(snapshot(job, training.model, 0, None))
    losses = []

    def report(progress) -> None:
        losses.append(progress.loss)
        stopped = is_stopped()
        if progress.step % job.every == 0 or progress.step == progress.steps or stopped:
            tell(snapshot(job, training.model, progress.step, float(np.mean(losses))))
            losses.clear()
        if stopped:
            raise _Stopped

    with suppress(_Stopped):
        training.run(report, every=1)
    tell(Parameters(training.step, _parameters(training.model)))


class _Stopped(Exception):
    pass


def snapshot(job: Job, transformer: Transformer, step: int, loss: float | None) -> Snapshot:
    """Look at the model as it is."""
    length, layers = job.recipe.stages[0].length, range(transformer.config.n_layers)
    measured = measure_repeats(transformer, repeated_rows(job.characters, MEASURED_ROWS, length // 2))
    with torch.inference_mode(), capture("*.weights") as found:
        transformer(torch.tensor([job.watched]))
    weights = torch.stack([found[f"blocks.{layer}.attn.weights"][0] for layer in layers])
    return Snapshot(step, loss, measured.loss, measured.previous.numpy(), measured.induction.numpy(), weights.numpy())


def _parameters(transformer: Transformer) -> Weights:
    return {name: tensor.numpy().copy() for name, tensor in transformer.state_dict().items()}


class LiveTraining:
    """A job in a child process: it goes on by itself, and any thread may look at what it left so far.

    snapshots: grows by one every `job.every` steps. first, last: the parameters before the first and after the last
    step, None until they are there. problem: why it ended before its time, as a sentence.
    """

    def __init__(self, job: Job, most_seconds: float = MOST_SECONDS):
        self.job = job
        self.snapshots: list[Snapshot] = []
        self.first: Parameters | None = None
        self.last: Parameters | None = None
        self.problem = ""
        self.was_stopped = False
        self._began, self._seconds = time.monotonic(), None
        self._most_seconds = most_seconds
        self._child = subprocess.Popen(
            [sys.executable, "-m", "viz_model.training.live_process"],
            cwd=Path(__file__).resolve().parents[2],
            env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._thread = threading.Thread(target=self._read, name="live training", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._seconds is None

    @property
    def seconds(self) -> float:
        """How long it has run, or ran."""
        return time.monotonic() - self._began if self._seconds is None else self._seconds

    def stop(self) -> None:
        """Ask it to end after the step that it is in; what it left stays. It is ended where it does not."""
        self.was_stopped = self.was_stopped or self.is_running
        self._ask_to_stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended; whether it has."""
        self._thread.join(seconds)
        return not self.is_running

    def _ask_to_stop(self) -> None:
        with suppress(OSError):  # it may have ended already
            self._child.stdin.close()  # the child reads its end there
        timer = threading.Timer(PATIENCE_SECONDS, self._child.kill)
        timer.daemon = True
        timer.start()

    def _read(self) -> None:
        limit = threading.Timer(self._most_seconds, self._ask_to_stop)
        limit.daemon = True
        limit.start()
        try:
            pickle.dump(self.job, self._child.stdin)
            self._child.stdin.flush()
            while True:
                self._take(pickle.load(self._child.stdout))
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            pass  # it has said all that it had to say, or was ended
        finally:
            limit.cancel()
            self._end()

    def _take(self, told: Snapshot | Parameters | str) -> None:
        if isinstance(told, str):
            self.problem = told
        elif isinstance(told, Snapshot):
            self.snapshots.append(told)
        elif self.first is None:
            self.first = told
        else:
            self.last = told

    def _end(self) -> None:
        faults = self._child.stderr.read().decode(errors="replace").strip()
        self._child.stdout.close()
        self._child.stderr.close()
        status = self._child.wait()
        if self.last is None and not self.problem and not self.was_stopped:
            self.problem = f"The training ended with the status {status}: {faults[-300:] or 'it said nothing'}."
        self._seconds = time.monotonic() - self._began


class Trainings:
    """The live trainings of a server, of which at most `most` run at a time. Safe to be used by any thread."""

    def __init__(self, most: int = 1):
        self._most, self._lock = most, threading.Lock()
        self._running: list[LiveTraining] = []

    def start(self, job: Job) -> LiveTraining:
        """Begin a training; raises TrainingError while too many others run."""
        with self._lock:
            self._running = [training for training in self._running if training.is_running]
            if len(self._running) >= self._most:
                raise TrainingError(
                    "Somebody else is training on this computer, and only one training can run at a time. Try "
                    "again in a minute or two."
                )
            self._running.append(LiveTraining(job))
            return self._running[-1]
