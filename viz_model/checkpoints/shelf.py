"""The models that are loaded: one of each for everybody, and so many at most."""

from collections.abc import Callable

from viz_model import garbage
from viz_model.checkpoints import load
from viz_model.latest import Latest
from viz_model.model import Model


class Shelf:
    """Loads models by name and keeps the latest `most` of them. Safe to be used by any thread."""

    def __init__(self, most: int, load: Callable[[str], Model] = load):
        self._load, self._models = load, Latest[str, Model](most)

    @property
    def names(self) -> tuple[str, ...]:
        """What is loaded, the model that was asked for last at the end."""
        return self._models.keys

    def get(self, name: str) -> Model:
        """The model of that name, loaded where it is not; raises CheckpointError, see `load`."""
        return self._models.get(name, lambda: self._loaded(name))

    def forget(self, name: str) -> None:
        """Let go of a model, because its folder is to be removed."""
        self._models.forget(name)

    def _loaded(self, name: str) -> Model:
        garbage.collect()
        model = self._load(name)
        garbage.freeze()
        return model
