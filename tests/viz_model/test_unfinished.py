"""What a killed process left unfinished is cleared away; what a living one writes stays."""

import os
import signal

import pytest

from viz_model import checkpoints
from viz_model.unfinished import LOCK_FILE, alone_in

NAMES = (".mine.unfinished", ".fetching-abc")


@pytest.fixture
def shelves(monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoints, "FOLDER", tmp_path / "own")
    monkeypatch.setenv("VIZ_FETCHED", str(tmp_path / "fetched"))
    return tmp_path / "own", tmp_path / "fetched"


def begin_to_write(shelf, name) -> int:
    """A process that writes a folder and never ends; gives its id when the folder is there."""
    told, telling = os.pipe()
    process = os.fork()
    if not process:
        with alone_in(shelf):
            (shelf / name).mkdir()
            (shelf / name / "model.safetensors").write_bytes(b"half")
            os.write(telling, b".")
            signal.pause()
    assert os.read(told, 1) == b"."
    return process


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_what_a_process_left_that_was_killed_is_cleared_at_start_and_not_before(shelves, place, name):
    shelf = shelves[place]
    process = begin_to_write(shelf, name)
    checkpoints.clear_unfinished()
    is_there = (shelf / name / "model.safetensors").exists()
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    assert is_there
    checkpoints.clear_unfinished()
    assert [path.name for path in shelf.iterdir()] == [LOCK_FILE]


def test_nothing_is_made_where_nothing_is_left(shelves):
    checkpoints.clear_unfinished()
    assert not any(shelf.exists() for shelf in shelves)
    shelves[0].mkdir()
    (shelves[0] / "whole").mkdir()
    checkpoints.clear_unfinished()
    assert [path.name for path in shelves[0].iterdir()] == ["whole"]
