"""Checkpoints: what models there are, loading one, saving one."""

import os
from dataclasses import replace
from pathlib import Path

from viz_model import hub, unfinished
from viz_model.arguments import of_type, text
from viz_model.checkpoints.catalogue import (
    BUNDLED,
    Damaged,
    Entry,
    count_numbers,
    describe,
    list_models,
    readable,
    rounded_to,
    stored_as,
)
from viz_model.checkpoints.files import CONFIG_FILE, HEADS_FILE, WEIGHTS_FILE, read_config, read_model, save
from viz_model.errors import CheckpointError
from viz_model.fetching import HUB_ID, OFFERS, folder_name, read_source
from viz_model.hub.headers import stored_tensors
from viz_model.memory_limits import refuse_what_cannot_fit
from viz_model.model import Model
from viz_model.paths import ROOT
from viz_model.transformer.memory_order import order_for_decoding
from viz_model.transformer.placed import ComputePlace, placed

__all__ = [
    "BUNDLED",
    "CONFIG_FILE",
    "HEADS_FILE",
    "WEIGHTS_FILE",
    "Damaged",
    "Entry",
    "catalogue",
    "clear_unfinished",
    "damaged",
    "describe",
    "fetched_folder",
    "load",
    "read_config",
    "save",
    "short",
]

FOLDER = ROOT / "checkpoints"
DEVICE = "VIZ_DEVICE"  # the environment variable that says where models compute


def fetched_folder() -> Path:
    """Where fetched models are kept: the environment variable VIZ_FETCHED, or checkpoints/fetched."""
    return Path(os.environ.get("VIZ_FETCHED") or FOLDER / "fetched")


def catalogue() -> list[Entry]:
    """What can be loaded by name, and what can be fetched (`folder` is None).

    A damaged folder is left out here, see `damaged`.
    """
    return list_models(FOLDER, fetched_folder())[0]


def damaged() -> list[Damaged]:
    """The folders beside the models of the catalogue that should hold one and do not, with what is wrong."""
    return [replace(folder, problem=short(folder.problem)) for folder in list_models(FOLDER, fetched_folder())[1]]


def short(text: str) -> str:
    """A text in which the folders of models go by what they are called, not by where they are on this disk."""
    for folder, name in ((fetched_folder(), "checkpoints/fetched"), (FOLDER, "checkpoints")):
        for place in (folder.absolute(), folder.resolve()):
            text = text.replace(str(place), name)
    return text


def clear_unfinished() -> None:
    """Clear away what fetches and keeps left whose process was killed; what is still being written stays."""
    for folder in (FOLDER, fetched_folder()):
        unfinished.clear(folder)


def load(name_or_folder: str | Path, place: str | None = None) -> Model:
    """The model of that name in the catalogue, or of that folder; in eval mode.

    A plain name means the catalogue first, so that no folder where Python happens to run can shadow it; what
    has a separator in it, such as "../mine", is a path as anywhere else, or else the id of a model that was
    fetched from the Hugging Face Hub. A folder without a tokenizer loads too and is traced by ids.

    place: where it computes and in which precision, such as "cuda", "bfloat16" or "cuda bfloat16"; None is what the
    environment variable VIZ_DEVICE says, else float32 on the CPU. See `transformer.placed`.

    Raises VizError for a place that is not there, and CheckpointError when there is no such model, when a file of it is
    missing, damaged or foreign (the sentence names the file and the tensor), and when it needs more memory than there
    is.
    """
    computing = ComputePlace.of(os.environ.get(DEVICE, "") if place is None else text("The place", place))
    computing.refuse_missing()
    folder = _folder(str(of_type("A model", name_or_folder, str | Path, "a name or a path", CheckpointError)))
    with readable(folder):
        hub.refuse_adapter_alone(folder)
        _refuse_what_cannot_fit(folder)
        if hub.is_hub(folder):
            fetched = read_source(folder)
            model = hub.load(folder, fetched.name if fetched else folder.name)
        else:
            model = read_model(folder)
        order_for_decoding(model.transformer)
        model.transformer, model.place = placed(model.transformer, computing), computing
        model.stored_as = stored_as(folder)
        model.rounded_to = rounded_to(folder)
    return model


def _refuse_what_cannot_fit(folder: Path) -> None:
    try:
        numbers = count_numbers(folder)
    except CheckpointError:
        return  # what reads the file says better what is wrong with it
    refuse_what_cannot_fit(folder.name, numbers)
    if numbers and hub.is_hub(folder):
        hub.refuse_beyond_weights(folder, numbers, len(stored_tensors(folder)))


def _folder(name: str) -> Path:
    is_plain = Path(name).name == name != ".."
    fetched = fetched_folder() / folder_name(name)
    for folder in (FOLDER / name, fetched, Path(name)) if is_plain else (Path(name), fetched):
        if name and _is_model(folder):
            return folder.resolve()
    if name in OFFERS or HUB_ID.fullmatch(name):
        raise CheckpointError(
            f"{name} is not here yet. Fetch it on the page Models, or by: python -m viz_model.checkpoints fetch {name}"
        )
    names = ", ".join(entry.name for entry in catalogue() if entry.folder) or "none"
    raise CheckpointError(
        f"There is no model or folder {name!r}. Models that are here: {names}. A folder of your own must "
        f"hold {CONFIG_FILE} and {WEIGHTS_FILE}."
    )


def _is_model(path: Path) -> bool:
    try:
        return path.is_dir() or (path.suffix == ".gguf" and path.is_file())
    except OSError:  # a name that is too long, a folder that may not be entered
        return False
