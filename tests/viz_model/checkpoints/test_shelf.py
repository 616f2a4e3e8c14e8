"""The shelf of loaded models: one of each, two at most, and what is let go is really gone."""

import threading
import time
import weakref

import pytest

import viz_model as vm
from tests.support.small_models import make_model, small_config
from viz_model.checkpoints.shelf import Shelf
from viz_model.model import Model


class Loader:
    """Makes a model of any name, and counts."""

    def __init__(self, seconds=0.0):
        self.loaded, self.alive, self.most_alive, self.seconds = [], weakref.WeakSet(), 0, seconds

    def __call__(self, name):
        if name == "damaged":
            raise vm.CheckpointError("The file is damaged.")
        time.sleep(self.seconds)
        model = Model(name, make_model(small_config()))
        model.itself = model  # a cycle, which only the garbage collector ends
        self.loaded.append(name)
        self.alive.add(model)
        self.most_alive = max(self.most_alive, len(self.alive))
        return model


def test_two_at_most_and_the_one_longest_unused_goes_first():
    loader = Loader()
    shelf = Shelf(2, load=loader)
    for name in ("a", "b", "a", "c", "a", "b"):
        assert shelf.get(name).name == name
    assert loader.loaded == ["a", "b", "c", "b"]
    assert shelf.names == ("a", "b")
    assert loader.most_alive == 2, "room is made before a model is loaded"
    shelf.forget("a")
    assert shelf.names == ("b",)


def test_a_model_that_cannot_be_loaded_is_tried_again():
    shelf = Shelf(2, load=Loader())
    for _ in range(2):
        with pytest.raises(vm.CheckpointError, match="damaged"):
            shelf.get("damaged")
    assert shelf.get("a").name == "a"


def test_visitors_at_once_get_the_same_model():
    loader = Loader(seconds=0.1)
    shelf, got = Shelf(2, load=loader), []
    threads = [threading.Thread(target=lambda: got.append(shelf.get("a"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loader.loaded == ["a"]
    assert len(got) == 6
    assert len(set(map(id, got))) == 1
