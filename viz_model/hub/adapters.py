"""Adapters: a fine-tune kept as small matrices beside the weights that it changes. LoRA is merged, others are refused.

LoRA (Hu et al. 2021, §4.1): W' = W + (α/r)·B·A, with A (r, in) and B (out, r).
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from viz_model.errors import CheckpointError
from viz_model.hub.facts import ADAPTER_CONFIG, ADAPTER_WEIGHTS

HALF = re.compile(r"(?:base_model\.model\.)?(?P<module>.+)\.lora_(?P<letter>[AB])\.weight")

# What makes a LoRA another change than W + (α/r)·B·A of whole matrices; "none" and "false" say the same as silence.
CHANGES = ("use_dora", "lora_bias", "rank_pattern", "alpha_pattern", "layer_replication", "trainable_token_indices",
           "target_parameters", "use_qalora", "alora_invocation_tokens", "arrow_config", "megatron_config")  # fmt: skip


class _Lora(NamedTuple):
    """What an adapter's config says: r, and α/r or what stands for it."""

    rank: int
    factor: float


@torch.no_grad()
def merge_adapter(model: PreTrainedModel, folder: Path) -> bool:
    """Add the adapter of a folder, if it has one, to the weights of its model; gives whether it has one.

    Raises CheckpointError, which names it, for an adapter that is no plain LoRA, or that does not fit the model.
    """
    if not (folder / ADAPTER_CONFIG).is_file():
        if (folder / ADAPTER_WEIGHTS).is_file():
            raise _cannot_merge(folder, f"{ADAPTER_CONFIG}, which says how much of it to add, is missing")
        return False
    lora = _read_config(folder)
    shared = set(model.all_tied_weights_keys) | set(model.all_tied_weights_keys.values())
    for name, halves in _read_halves(folder).items():
        module = dict(model.named_modules()).get(name)
        if not isinstance(module, nn.Linear | Conv1D):
            raise _cannot_merge(folder, f"it changes '{name}', and the model has no matrix of that name")
        if f"{name}.weight" in shared:
            raise _cannot_merge(folder, f"it changes '{name}' alone, which shares its matrix with the embedding")
        module.weight += _change(folder, name, halves, lora, module)
    return True


def _change(folder: Path, name: str, halves: dict[str, Tensor], lora: _Lora, module: nn.Module) -> Tensor:
    """(α/r)·B·A in the shape of the module's weight."""
    if halves.keys() != {"A", "B"}:
        raise _cannot_merge(folder, f"of '{name}' one of the matrices A and B is missing")
    is_turned = isinstance(module, Conv1D)  # GPT-2 keeps its matrices as (in, out)
    rows, columns = reversed(module.weight.shape) if is_turned else module.weight.shape
    shapes = tuple(halves["A"].shape), tuple(halves["B"].shape)
    if shapes != ((lora.rank, columns), (rows, lora.rank)):
        raise _cannot_merge(
            folder,
            f"A and B of '{name}' have the shapes {shapes[0]} and {shapes[1]}, but the config and the model ask for "
            f"{(lora.rank, columns)} and {(rows, lora.rank)}",
        )
    change = lora.factor * (halves["B"].float() @ halves["A"].float())  # (out, in)
    if not change.isfinite().all():
        raise _cannot_merge(folder, f"A or B of '{name}' holds something other than finite numbers")
    return change.T if is_turned else change


def _read_config(folder: Path) -> _Lora:
    try:
        said = json.loads((folder / ADAPTER_CONFIG).read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _cannot_merge(folder, f"{ADAPTER_CONFIG} cannot be read: {error}") from error
    if not isinstance(said, dict) or said.get("peft_type") != "LORA":
        kind = said.get("peft_type") if isinstance(said, dict) else None
        raise _cannot_merge(folder, f"it is of the kind {str(kind)[:40]!r}, and only 'LORA' can be merged exactly")
    strange = [name for name in CHANGES if said.get(name)]
    if said.get("bias", "none") != "none":
        strange.append("bias")
    if strange:
        raise _cannot_merge(folder, f"its config asks for '{strange[0]}', which makes it more than a plain LoRA")
    rank, alpha = said.get("r"), said.get("lora_alpha")
    if type(rank) is not int or rank < 1 or type(alpha) not in (int, float):
        raise _cannot_merge(folder, f"its config says r = {rank!r} and lora_alpha = {alpha!r}, but both are numbers")
    return _Lora(rank, alpha / (rank**0.5 if said.get("use_rslora") else rank))  # Kalajdzievski 2023: α/√r


def _read_halves(folder: Path) -> dict[str, dict[str, Tensor]]:
    """A and B of each module that the adapter changes."""
    path = folder / ADAPTER_WEIGHTS
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise _cannot_merge(folder, f"its weights {ADAPTER_WEIGHTS} are missing or damaged ({error})") from error
    found: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        half = HALF.fullmatch(name)
        if half is None:
            raise _cannot_merge(folder, f"it holds '{name[:80]}', which is neither A nor B of a LoRA")
        found.setdefault(half["module"], {})[half["letter"]] = tensor
    return found


def _cannot_merge(folder: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"The adapter in {folder} cannot be merged: {why}. Merge it with the library that made it and save the whole "
        "model, or remove the adapter's files to see the base model."
    )
