"""The bundled models are read from the disk once a session: what a test loads is a copy of its own, as if just read."""

import copy
from functools import cache

from viz_model import checkpoints

BUNDLED = checkpoints.FOLDER.resolve()
_read = checkpoints.read_model
_kept = cache(_read)


def _copied(folder):
    """What `read_model` gives. A folder beside the bundled ones may change, and is read each time."""
    if folder.parent != BUNDLED:
        return _read(folder)
    kept = _kept(folder)
    model = copy.copy(kept)
    model.transformer = copy.deepcopy(kept.transformer)
    return model


def read_bundled_models_once():
    """Reading takes a tenth of a second, most of it for the tokenizer and for what is compared with the config."""
    checkpoints.read_model = _copied
