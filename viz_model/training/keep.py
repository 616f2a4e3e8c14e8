"""Keep what a live training made, as a checkpoint like any other."""

import csv
import json
import re
import shutil
from pathlib import Path

import torch
from filelock import Timeout
from safetensors import SafetensorError

from viz_model import checkpoints
from viz_model.errors import TrainingError
from viz_model.memory_limits import why_not_written
from viz_model.model.tokenizer import Tokenizer
from viz_model.training.figures.report import table
from viz_model.training.live import LiveTraining
from viz_model.training.loop import CURVE_FILE
from viz_model.transformer import make_transformer
from viz_model.unfinished import UNFINISHED, alone_in

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
WAIT_SECONDS = 10  # for another one that is being kept
MOST_KEPT = 20  # models of their own that all readers of a server can keep


def keep(training: LiveTraining, name: str) -> Path:
    """Write the model as it was after the last step, with its figures and its loss curve; gives the folder.

    Raises TrainingError for a name that is taken or is none, and where nothing can be written.
    """
    if training.last is None:
        raise TrainingError("There is nothing to keep yet: wait until the training has ended, or stop it.")
    if not NAME.fullmatch(name):
        raise TrainingError("A name may have up to 40 small letters (a to z), digits and hyphens. Choose another name.")
    try:
        with alone_in(checkpoints.FOLDER, WAIT_SECONDS):
            return _keep_alone(training, checkpoints.FOLDER / name)
    except Timeout as error:
        raise TrainingError("Another model is being kept. Wait a moment and try again.") from error
    except (OSError, SafetensorError) as error:
        raise TrainingError(
            f"The model cannot be written to {checkpoints.FOLDER / name}. {why_not_written(error)}"
        ) from error


def _keep_alone(training: LiveTraining, folder: Path) -> Path:
    name = folder.name
    if name in checkpoints.BUNDLED or folder.exists():
        raise TrainingError(f"There is a model {name} already. Choose another name.")
    if sum(entry.state == "own" for entry in checkpoints.catalogue()) >= MOST_KEPT:
        raise TrainingError(
            f"{MOST_KEPT} models are kept already, and there is no place for more. Remove a folder below checkpoints."
        )
    unfinished = folder.with_name(f".{name}{UNFINISHED}")  # hidden: it is no model before it is whole
    try:
        _write(training, unfinished)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)  # what is whole is not there any more
    return folder


def _write(training: LiveTraining, folder: Path) -> None:
    transformer = make_transformer(training.plan.recipe.config)
    transformer.load_state_dict({name: torch.from_numpy(array) for name, array in training.last.weights.items()})
    checkpoints.save(folder, transformer, Tokenizer.of_bytes())
    shot = training.snapshots[-1]
    heads = {
        "previous_random": table(torch.from_numpy(shot.previous)),
        "induction": table(torch.from_numpy(shot.induction)),
    }
    (folder / checkpoints.HEADS_FILE).write_text(json.dumps(heads, indent=1) + "\n")
    objective = training.plan.recipe.stages[0].objective
    with (folder / CURVE_FILE).open("w", newline="") as file:
        rows = [(shot.step, objective, shot.loss) for shot in training.snapshots if shot.loss is not None]
        csv.writer(file).writerows([("step", "objective", "loss"), *rows])
