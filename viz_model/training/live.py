"""A training that people watch: what it leaves behind every few steps, and the job whose process it runs in.

A process of its own takes one core and no more, holds up nobody's page, and can be ended at any moment. The number of
threads that torch takes is one for a whole process, so within the server it could not be bounded for a training alone.
"""

import pickle
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch

from viz_model.errors import TrainingError
from viz_model.jobs import Job
from viz_model.jobs.child import Child
from viz_model.shapes.costs import parameters_by_part
from viz_model.training.figures.repeats import measure_repeats, repeated_rows
from viz_model.training.loop import Training
from viz_model.training.recipes import Recipe
from viz_model.transformer import Transformer
from viz_model.transformer.hooks import capture

MEASURED_ROWS = 16  # of random repeats, at every snapshot
MOST_PARAMETERS, MOST_STEPS, MOST_SNAPSHOTS, MOST_SECONDS = 2_000_000, 5_000, 60, 900
PATIENCE_SECONDS = 5  # between asking a child to stop and ending it


@dataclass(frozen=True, eq=False)
class Plan:
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


def train(plan: Plan, tell: Callable[[Snapshot | Parameters], None], is_stopped: Callable[[], bool]) -> None:
    """Train here and now: tell the parameters, snapshots as they come, and the parameters again."""
    training = Training(plan.recipe, plan.stream, None)
    tell(Parameters(0, _parameters(training.model)))
    tell(snapshot(plan, training.model, 0, None))
    losses = []

    def report(progress) -> None:
        losses.append(progress.loss)
        stopped = is_stopped()
        if progress.step % plan.every == 0 or progress.step == progress.steps or stopped:
            tell(snapshot(plan, training.model, progress.step, float(np.mean(losses))))
            losses.clear()
        if stopped:
            raise _Stopped

    with suppress(_Stopped):
        training.run(report, every=1)
    tell(Parameters(training.step, _parameters(training.model)))


class _Stopped(Exception):
    pass


def snapshot(plan: Plan, transformer: Transformer, step: int, loss: float | None) -> Snapshot:
    """Look at the model as it is."""
    length, layers = plan.recipe.stages[0].length, range(transformer.config.n_layers)
    measured = measure_repeats(transformer, repeated_rows(plan.characters, MEASURED_ROWS, length // 2))
    with torch.inference_mode(), capture("*.weights") as found:
        transformer(torch.tensor([plan.watched]))
    weights = torch.stack([found[f"blocks.{layer}.attn.weights"][0] for layer in layers])
    return Snapshot(step, loss, measured.loss, measured.previous.numpy(), measured.induction.numpy(), weights.numpy())


def _parameters(transformer: Transformer) -> Weights:
    return {name: tensor.numpy().copy() for name, tensor in transformer.state_dict().items()}


class LiveTraining(Job[None]):
    """A plan that is followed in a process of its own; its parts are snapshots, and the parameters at both ends.

    A stop asks the process to end after the step that it is in, and ends it where it does not.
    """

    def __init__(self, plan: Plan, most_seconds: float = MOST_SECONDS):
        super().__init__(_follow, of=plan, words="starting")
        self.plan, self.most_seconds = plan, most_seconds

    @property
    def snapshots(self) -> list[Snapshot]:
        """Those that there are so far: one more every `plan.every` steps."""
        return [part for part in list(self.parts) if isinstance(part, Snapshot)]

    @property
    def first(self) -> Parameters | None:
        """The parameters before the first step, None until they are there."""
        return self._parameters()[0]

    @property
    def last(self) -> Parameters | None:
        """The parameters after the last step that was taken, None until they are there."""
        return self._parameters()[1]

    def _parameters(self) -> list[Parameters | None]:
        found = [part for part in list(self.parts) if isinstance(part, Parameters)]
        return [*found, None, None][:2]


def _follow(training: LiveTraining) -> None:
    environment = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    child = Child(["viz_model.training.live_process"], environment=environment, reads_stdin=True)
    limit = _later(training.most_seconds, lambda: _ask_to_end(child))
    training.at_stop(lambda: _ask_to_end(child))
    try:
        with suppress(OSError, ValueError):  # it was asked to end already
            pickle.dump(training.plan, child.process.stdin)
            child.process.stdin.flush()
        with suppress(EOFError, pickle.UnpicklingError):  # it has said all that it had to say, or was ended
            while True:
                _take(pickle.load(child.process.stdout), training)
        faults = child.faults()
        if training.last is None and not training.was_stopped:
            raise TrainingError(f"The training ended before its time: {faults[-300:] or 'it said nothing'}.")
    finally:
        limit.cancel()
        child.end()


def _take(told: Snapshot | Parameters | str, training: LiveTraining) -> None:
    if isinstance(told, str):
        raise TrainingError(told)
    training.parts.append(told)
    training.note(told.step, training.plan.recipe.steps)


def _ask_to_end(child: Child) -> None:
    with suppress(OSError, ValueError):  # it may have ended already
        child.process.stdin.close()  # it reads its end there
    _later(PATIENCE_SECONDS, child.kill)


def _later(seconds: float, call: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    return timer
