"""A live training, kept: the same model when it is loaded, or a sentence and nothing left behind."""

import csv

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.support.damage import full_disk
from viz_model import checkpoints
from viz_model.errors import TrainingError
from viz_model.training import keep as keeping
from viz_model.training.keep import keep
from viz_model.training.live import train
from viz_model.training.live_plans import Size, repeats_plan
from viz_model.unfinished import LOCK_FILE, alone_in


class Ended:
    """What is left of a live training that has ended, made without a child process."""

    problem = ""

    def __init__(self):
        self.plan = repeats_plan(Size(d_model=16), 20, 2, "abcdabcd")
        told = []
        train(self.plan, told.append, lambda: False)
        self.first, *self.snapshots, self.last = told


@pytest.fixture(scope="module")
def ended():
    return Ended()


@pytest.fixture(autouse=True)
def shelf(monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path)
    return tmp_path


def left_in(shelf):
    """What is there besides the lock."""
    return [path for path in shelf.iterdir() if path.name != LOCK_FILE]


def test_what_is_kept_loads_as_the_model_that_was_watched(ended, shelf):
    keep(ended, "mine-1")
    assert [entry.name for entry in vm.catalogue() if entry.folder] == ["mine-1"]
    model, last = vm.load("mine-1"), ended.snapshots[-1]
    trace = model.trace("abcdabcd")
    for layer in range(2):
        for head in range(2):
            np.testing.assert_allclose(trace.weights(layer, head), last.weights[layer, head], atol=5e-3)  # float16
    for name, tensor in model.transformer.state_dict().items():
        assert torch.equal(tensor, torch.from_numpy(ended.last.weights[name]).half().float())
    np.testing.assert_allclose(model.measured_heads["induction"], last.induction, atol=1e-4)
    rows = list(csv.DictReader((shelf / "mine-1" / "loss-curve.csv").open()))
    assert [int(row["step"]) for row in rows] == [*range(1, 21)]
    assert float(rows[-1]["loss"]) == pytest.approx(last.loss)


@pytest.mark.parametrize("name", ["", "a/b", "..", ".", "Mine", "a b", "-a", "ä", "a" * 41, "tiny-gpt", "mine\n"])
def test_a_name_that_is_none_is_refused(ended, shelf, name):
    with pytest.raises(TrainingError, match=r"Choose"):
        keep(ended, name)
    assert not left_in(shelf)


def test_a_name_is_taken_once(ended):
    keep(ended, "mine")
    with pytest.raises(TrainingError, match="a model mine already"):
        keep(ended, "mine")


def test_only_so_many_are_kept(ended, monkeypatch):
    monkeypatch.setattr(keeping, "MOST_KEPT", 1)
    keep(ended, "one")
    with pytest.raises(TrainingError, match="no place for more"):
        keep(ended, "two")


def test_a_folder_that_cannot_be_written_is_said_and_nothing_is_left(ended, monkeypatch, shelf):
    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(checkpoints, "save", full)
    with pytest.raises(TrainingError, match="no space left on the disk"):
        keep(ended, "mine")
    assert not left_in(shelf)


@pytest.mark.parametrize("most", [0, 100, 4096])
def test_a_disk_that_is_full_is_said_and_nothing_is_left(ended, shelf, most):
    """The kernel refuses what is beyond so many bytes, in whatever file; `safetensors` has an error of its own."""
    with full_disk(most), pytest.raises(TrainingError, match=r"cannot be written to .*mine\. .*(?i:file too large)"):
        keep(ended, "mine")
    assert not left_in(shelf)
    keep(ended, "mine")
    vm.load("mine")


def test_a_fault_of_ours_leaves_nothing_either(ended, monkeypatch, shelf):
    monkeypatch.setattr(keeping, "table", None)
    with pytest.raises(TypeError):
        keep(ended, "mine")
    assert not left_in(shelf)


def test_while_another_one_is_kept(ended, monkeypatch, shelf):
    monkeypatch.setattr(keeping, "WAIT_SECONDS", 0)
    with alone_in(shelf), pytest.raises(TrainingError, match="Another model is being kept"):
        keep(ended, "mine")
    keep(ended, "mine")


def test_nothing_is_kept_before_the_end(ended, monkeypatch):
    monkeypatch.setattr(ended, "last", None)
    with pytest.raises(TrainingError, match="nothing to keep yet"):
        keep(ended, "mine")
