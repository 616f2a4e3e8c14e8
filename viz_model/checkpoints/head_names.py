"""The names of a model's heads, beside its weights: worked out once, kept with the text that they are of."""

import json
import logging
import os
import tempfile
import threading
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from viz_model.errors import CheckpointError, VizError
from viz_model.heads.names import HeadNames
from viz_model.transformer.facts import ModelFacts

HEAD_NAMES_FILE = "head_names.json"
LARGEST = 20 * 2**20  # bytes of a file that is read: ten thousand heads have some two million
_writing = threading.Lock()


def head_names(folder: Path, config: ModelFacts) -> dict[str, HeadNames]:
    """The names of the heads of a model, by part; none where there are none, or where the file holds something else."""
    path = folder / HEAD_NAMES_FILE
    try:
        about = path.stat()
    except OSError:
        return {}
    shapes = tuple((part, config.layers_of(part), config.n_heads) for part in config.parts)
    return _read(path, shapes, about.st_mtime_ns, about.st_size)


def keep_head_names(folder: Path, config: ModelFacts, names: Mapping[str, HeadNames]) -> None:
    """Write the names of the heads of some parts; those of other parts stay. Raises CheckpointError where it cannot."""
    with _writing:
        kept = head_names(folder, config) | names
        text = json.dumps({part: of_part.to_json() for part, of_part in kept.items()}, indent=1) + "\n"
        try:
            with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".", delete=False, encoding="utf-8") as file:
                file.write(text)
            os.chmod(file.name, 0o644)
            os.replace(file.name, folder / HEAD_NAMES_FILE)  # whoever reads meanwhile reads the whole of either
        except OSError as error:
            raise CheckpointError(f"The names of the heads cannot be kept in {folder}: {error.strerror}.") from error


@lru_cache(64)
def _read(path: Path, shapes: tuple, *version: int) -> dict[str, HeadNames]:
    """version: when the file changed last, and its size; with another one it is read again."""
    try:
        if version[1] > LARGEST:
            raise VizError(f"It has more than {LARGEST:,} bytes.")
        content = json.loads(path.read_text("utf-8"))
        of_part = content.get if isinstance(content, dict) else {}.get
        return {
            part: HeadNames.from_json(of_part(part), (layers, heads))
            for part, layers, heads in shapes
            if of_part(part) is not None
        }
    except (OSError, ValueError, RecursionError, VizError) as error:  # no picture needs them
        logging.getLogger(__name__).warning("%s is not read: %s", path, error)
        return {}
