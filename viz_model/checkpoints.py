"""The catalogue of models, and reading and writing them: config.json, model.safetensors, the tokenizer."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from viz_model.errors import CheckpointError, ConfigError
from viz_model.model import Model
from viz_model.tokenizer import FILE_NAME as TOKENIZER_FILE
from viz_model.tokenizer import Tokenizer
from viz_model.transformer import Transformer, TransformerConfig

FOLDER = Path(__file__).resolve().parent.parent / "checkpoints"
CONFIG_FILE, WEIGHTS_FILE, HEADS_FILE = "config.json", "model.safetensors", "heads.json"


@dataclass(frozen=True)
class Entry:
    """One model of the catalogue; `size` is the bytes of its weights on disk."""

    name: str
    folder: Path
    config: TransformerConfig
    size: int


def catalogue() -> list[Entry]:
    """What can be loaded by name; a damaged folder is left out here, and explained when it is loaded."""
    entries = []
    for folder in sorted(FOLDER.iterdir()) if FOLDER.is_dir() else []:
        weights = folder / WEIGHTS_FILE
        if weights.is_file():
            try:
                entries.append(Entry(folder.name, folder, read_config(folder), weights.stat().st_size))
            except CheckpointError:
                continue
    return entries


def load(name_or_folder: str | Path) -> Model:
    """The model of that name in the catalogue, or of that folder; weights as float32, in eval mode.

    A folder without a tokenizer file loads too and is traced by ids.

    Raises CheckpointError when there is no such model, or when a file of it is missing, damaged or foreign:
    the sentence names the file and the tensor.
    """
    folder = _folder(str(name_or_folder))
    config = read_config(folder)
    transformer = Transformer(config)
    _fill(transformer, _read_weights(folder), folder / WEIGHTS_FILE)
    transformer.eval().requires_grad_(False)
    tokenizer = Tokenizer.load(folder) if (folder / TOKENIZER_FILE).exists() else None
    if tokenizer is not None and tokenizer.vocab_size != config.vocab_size:
        raise CheckpointError(
            f"The tokenizer of {folder} has {tokenizer.vocab_size} tokens, but the model has "
            f"{config.vocab_size}: they do not belong together. Restore the folder and try again."
        )
    return Model(folder.name, transformer, tokenizer, _read_heads(folder))


def save(folder: Path, transformer: Transformer, tokenizer: Tokenizer | None) -> None:
    """Write a checkpoint: weights in float16, the config and the tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.to(torch.float16).contiguous() for name, tensor in transformer.state_dict().items()}
    save_file(weights, folder / WEIGHTS_FILE)
    (folder / CONFIG_FILE).write_text(json.dumps(asdict(transformer.config), indent=2) + "\n")
    if tokenizer is not None:
        tokenizer.save(folder)


def read_config(folder: Path) -> TransformerConfig:
    """The configuration of a checkpoint folder; raises CheckpointError when it is missing or not ours."""
    path = folder / CONFIG_FILE
    try:
        values = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"The file {path} is missing: {folder} is no checkpoint folder.") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"The file {path} cannot be read: {error}. Restore it and try again.") from error
    known = {field.name for field in fields(TransformerConfig)}
    if not isinstance(values, dict) or not set(values) <= known:
        strange = ", ".join(sorted(set(values) - known)[:5]) if isinstance(values, dict) else "not a table"
        raise CheckpointError(f"The file {path} is not of this project: it has the unknown fields {strange}.")
    try:
        return TransformerConfig(**values)
    except TypeError as error:
        raise CheckpointError(f"The file {path} lacks a field: {error}.") from error
    except ConfigError as error:
        raise CheckpointError(f"The file {path} contradicts itself: {error}") from error


def _folder(name: str) -> Path:
    for folder in (FOLDER / name, Path(name)):
        if name and folder.is_dir():
            return folder.resolve()
    names = ", ".join(entry.name for entry in catalogue()) or "none"
    raise CheckpointError(
        f"There is no model or folder '{name}'. Models that are here: {names}. A folder of your own must hold "
        f"{CONFIG_FILE} and {WEIGHTS_FILE}."
    )


def _read_weights(folder: Path) -> dict[str, torch.Tensor]:
    path = folder / WEIGHTS_FILE
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise CheckpointError(f"The weights file {path} is missing. Restore it and try again.") from error
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"The weights file {path} is damaged or cut off ({error}). Restore it and try again."
        ) from error


def _fill(transformer: Transformer, weights: dict[str, torch.Tensor], path: Path) -> None:
    """Copy the weights in; every tensor must be there, of its shape, and none may be left over."""
    wanted = transformer.state_dict()
    for name, tensor in wanted.items():
        if name not in weights:
            raise CheckpointError(f"The tensor '{name}' is missing in {path}: the file is not of this config.")
        if weights[name].shape != tensor.shape:
            raise CheckpointError(
                f"The tensor '{name}' in {path} has the shape {tuple(weights[name].shape)}, but the config asks "
                f"for {tuple(tensor.shape)}."
            )
        if not weights[name].isfinite().all():
            raise CheckpointError(f"The tensor '{name}' in {path} holds numbers that are not finite.")
    left_over = sorted(set(weights) - set(wanted))
    if left_over:
        raise CheckpointError(f"{path} holds tensors that the config does not know: {', '.join(left_over[:5])}.")
    transformer.load_state_dict({name: tensor.float() for name, tensor in weights.items()})


def _read_heads(folder: Path) -> dict:
    """What was measured of each head when the checkpoint was made; empty where nothing was."""
    try:
        return json.loads((folder / HEADS_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
