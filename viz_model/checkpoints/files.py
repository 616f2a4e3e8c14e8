"""The files of a checkpoint of our own: config.json, model.safetensors, the tokenizer, figures of the heads."""

import json
from dataclasses import MISSING, asdict, fields
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode

from viz_model.errors import CheckpointError, ConfigError, VizError
from viz_model.hub.headers import refuse_unreadable
from viz_model.model import Model
from viz_model.model.tokenizer import FILE_NAME as TOKENIZER_FILE
from viz_model.model.tokenizer import Tokenizer
from viz_model.transformer import Transformer, TransformerConfig, make_transformer

CONFIG_FILE, WEIGHTS_FILE, HEADS_FILE = "config.json", "model.safetensors", "heads.json"
EXAMPLES_FILE = "examples.json"


def read_model(folder: Path) -> Model:
    """The model of a folder, its weights as float32, in eval mode; raises CheckpointError, see `load`."""
    config = read_config(folder)
    weights = _read_weights(folder / WEIGHTS_FILE)
    _refuse_misfit(weights, config, folder / WEIGHTS_FILE)
    transformer = _blank(config)
    transformer.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    transformer.eval().requires_grad_(False)
    may_mask = config.vocab_size if config.layout == "encoder-only" else None
    tokenizer = Tokenizer.load(folder, may_mask) if (folder / TOKENIZER_FILE).exists() else None
    if tokenizer is not None and tokenizer.vocab_size != config.vocab_size:
        raise CheckpointError(
            f"The tokenizer of {folder} has {tokenizer.vocab_size} tokens, but the model has "
            f"{config.vocab_size}: they do not belong together. Restore the folder and try again."
        )
    return Model(folder.name, transformer, tokenizer, _read_heads(folder, config), _read_examples(folder))


def save(folder: Path, transformer: Transformer, tokenizer: Tokenizer | None) -> None:
    """Write a checkpoint: weights in float16, the config and the tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = transformer.state_dict()
    save_file({name: weights[name].to(torch.float16).contiguous() for name in weights}, folder / WEIGHTS_FILE)
    (folder / CONFIG_FILE).write_text(json.dumps(asdict(transformer.config), indent=2) + "\n")
    if tokenizer is not None:
        tokenizer.save(folder)


def read_config(folder: Path) -> TransformerConfig:
    """The configuration of a checkpoint folder; raises CheckpointError when it is missing or not ours."""
    path = folder / CONFIG_FILE
    if not path.exists():
        raise CheckpointError(
            f"The file {path} is missing, so {folder} is not a checkpoint folder. Choose a folder that holds it."
        )
    values = _read_json(path)
    if not isinstance(values, dict):
        raise CheckpointError(
            f"The file {path} is not a config of this project, because it holds no fields. Restore it and try again."
        )
    known = {field.name for field in fields(TransformerConfig)}
    needed = {field.name for field in fields(TransformerConfig) if field.default is MISSING}
    for what, names in (("has unknown", values.keys() - known), ("lacks the", needed - values.keys())):
        if names:
            listed = ", ".join(sorted(names)[:5])
            raise CheckpointError(f"The file {path} is not of this project: it {what} fields {listed}.")
    try:
        return TransformerConfig(**values)
    except ConfigError as error:
        raise CheckpointError(f"The file {path} contradicts itself: {error}") from error


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"The file {path} cannot be read: {error}. Restore it and try again.") from error


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    refuse_unreadable(path)
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"The weights file {path} is damaged or cut off ({error}). Restore it and try again."
        ) from error


def _refuse_misfit(weights: dict[str, torch.Tensor], config: TransformerConfig, path: Path) -> None:
    """Every tensor of the config must be there, of its shape, finite, and none may be left over."""
    n_layers = config.n_layers + config.n_encoder_layers
    if n_layers > len(weights):
        raise CheckpointError(
            f"The config asks for {n_layers:,} layers, but {path} holds only {len(weights)} tensors. They do not "
            "belong together. Restore the folder."
        )
    wanted = _blank(config, "meta").state_dict()
    for name, tensor in wanted.items():
        if name not in weights:
            raise CheckpointError(
                f"The tensor '{name}' is missing in {path}, so this file does not belong to the config. Restore "
                "it and try again."
            )
        found = weights[name]
        if found.shape != tensor.shape:
            raise CheckpointError(
                f"The tensor '{name}' in {path} has the shape {tuple(found.shape)}, but the config asks for "
                f"{tuple(tensor.shape)}."
            )
        if not found.is_floating_point() or not found.float().isfinite().all():
            raise CheckpointError(f"The tensor '{name}' in {path} holds something other than finite numbers.")
    left_over = sorted(weights.keys() - wanted.keys())
    if left_over:
        raise CheckpointError(f"{path} has tensors that the config does not know: {', '.join(left_over[:5])}.")


class _WithoutInitialisation(TorchFunctionMode):
    """Modules made within have no first weights: these would be drawn in vain (on "meta" at the cost of seconds)."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(function, "__module__", None) == "torch.nn.init":
            return kwargs.get("tensor", args[0] if args else None)
        return function(*args, **kwargs)


def _blank(config: TransformerConfig, device: str = "cpu") -> Transformer:
    """A Transformer to be filled; on the device "meta" it has shapes only, and costs no memory."""
    try:
        with torch.device(device), _WithoutInitialisation():
            return make_transformer(config)
    except (RuntimeError, TypeError, VizError) as error:  # there is no room for the sizes, or no number for them
        raise CheckpointError(f"The config asks for more than this computer can hold: {error}") from error


def _read_heads(folder: Path, config: TransformerConfig) -> dict[str, list[list[float]]]:
    """What was measured of each head when the checkpoint was made: (L,H) tables; none where nothing was."""
    path = folder / HEADS_FILE
    if not path.exists():
        return {}
    tables = _read_json(path)
    shape = (config.n_layers, config.n_heads)
    try:
        fits = all(torch.tensor(table).shape == shape for table in tables.values())
    except (AttributeError, TypeError, ValueError, RuntimeError):  # no table at all, or no numbers in it
        fits = False
    if not fits:
        raise CheckpointError(
            f"The file {path} does not hold tables of {shape[0]} layers and {shape[1]} heads. Remove it, or "
            "measure again: python -m viz_model.training.figures FOLDER --write"
        )
    return tables


def _read_examples(folder: Path) -> dict[str, str]:
    """Prompts that this model was made for, by what they are called; none where the file is not there."""
    path = folder / EXAMPLES_FILE
    examples = _read_json(path) if path.exists() else {}
    if not isinstance(examples, dict) or not all(isinstance(text, str) and text for text in examples.values()):
        raise CheckpointError(f"The file {path} does not hold prompts by their names. Remove or restore it.")
    return examples
