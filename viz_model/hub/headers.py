"""What the weights of a folder are, by the headers of its safetensors files; nothing is loaded for it."""

from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from viz_model.errors import CheckpointError


class Stored(NamedTuple):
    """One tensor in a file. kind: of its numbers, as the format names it, such as "F32"."""

    kind: str
    shape: tuple[int, ...]


def stored_tensors(folder: Path) -> dict[str, Stored]:
    """The tensors of all files by name. Raises CheckpointError when a file is damaged or cut off."""
    found = {}
    for path in folder.glob("*.safetensors"):
        try:
            with safe_open(path, "pt") as weights:  # reads the header only, and compares it with the file's length
                for name in weights.keys():  # noqa: SIM118, it is no mapping
                    part = weights.get_slice(name)
                    found[name] = Stored(part.get_dtype(), tuple(part.get_shape()))
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"The weights file {path} is damaged or cut off ({error}).") from error
    return found
