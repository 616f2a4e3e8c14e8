"""What the weights of a folder are, by the headers of its safetensors or GGUF files; nothing is loaded for it."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from viz_model.errors import CheckpointError
from viz_model.hub.facts import find_gguf
from viz_model.hub.gguf_header import read_header


class StoredTensor(NamedTuple):
    """One tensor in a file. kind: of its numbers, as the format names it, such as "F32"."""

    kind: str
    shape: tuple[int, ...]


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """The tensors of all files of a folder, or of a GGUF file, by name.

    Raises CheckpointError when a file is damaged or cut off.
    """
    if gguf := find_gguf(folder):
        return {name: StoredTensor(*tensor) for name, tensor in read_header(gguf).tensors.items()}
    files = sorted(folder.glob("*.safetensors"))
    return dict(_read_headers(tuple((path, *_version(path)) for path in files)))


@lru_cache(maxsize=64)  # loading a model asks four times, and the catalogue asks of every folder
def _read_headers(versions: tuple[tuple[Path, int, int], ...]) -> tuple[tuple[str, StoredTensor], ...]:
    found = []
    for path, *_ in versions:
        refuse_unreadable(path)
        try:
            with safe_open(path, "pt") as weights:  # reads the header only, and compares it with the file's length
                for name in weights.keys():  # noqa: SIM118, it is no mapping
                    part = weights.get_slice(name)
                    found.append((name, StoredTensor(part.get_dtype(), tuple(part.get_shape()))))
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"The weights file {path} is damaged or cut off ({error}).") from error
    return tuple(found)


def refuse_unreadable(path: Path) -> None:
    """Raises CheckpointError where a file cannot be opened, with the reason.

    The library `safetensors` says "No such file" of any file that it may not open.
    """
    try:
        path.open("rb").close()
    except FileNotFoundError as error:
        raise CheckpointError(f"The weights file {path} is missing. Restore it and try again.") from error
    except OSError as error:
        raise CheckpointError(
            f"The weights file {path} cannot be read: {error.strerror}. Make it readable and try again."
        ) from error


def _version(path: Path) -> tuple[int, int]:
    """When the file was written, and its length: a header is read again where one of them is another."""
    try:
        about = path.stat()
    except OSError as error:
        raise CheckpointError(f"The weights file {path} cannot be read ({error}).") from error
    return about.st_mtime_ns, about.st_size
