"""The models that are loaded: one of each for everybody, and so many at most."""

import gc
import threading
from collections.abc import Callable

from viz_model.checkpoints import load
from viz_model.model import Model


class Shelf:
    """Loads models by name and keeps the latest `most` of them. Safe to be used by any thread.

    Room is made before a model is loaded, so that no more than `most` are ever in memory, as far as it is up to
    the shelf: what somebody still holds stays.
    """

    def __init__(self, most: int = 2, load: Callable[[str], Model] = load):
        self._most, self._load = most, load
        self._models: dict[str, Model] = {}  # the one that was asked for last comes last
        self._lock = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """What is loaded."""
        return tuple(self._models)

    def get(self, name: str) -> Model:
        """The model of that name, loaded where it is not; raises CheckpointError, see `load`."""
        model = self._models.get(name)
        if model is not None and next(reversed(self._models), None) == name:
            return model
        with self._lock:
            model = self._models.pop(name, None)
            if model is None:
                while len(self._models) >= self._most:
                    del self._models[next(iter(self._models))]
                gc.unfreeze()
                gc.collect()
                model = self._load(name)
                # A server that collects garbage after every answer would walk through all of torch each time (about
                # 90 ms). What is loaded by now stays, so the collector need not look at it.
                gc.freeze()
            self._models[name] = model
            return model

    def forget(self, name: str) -> None:
        """Let go of a model, because its folder is to be removed."""
        with self._lock:
            self._models.pop(name, None)
