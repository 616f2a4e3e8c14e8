"""Memory: what there is, by other means, and a model that does not fit."""

import shutil
import subprocess
import sys

import pytest

import viz_model as vm
from viz_model import memory_limits
from viz_model.checkpoints import FOLDER, count_numbers
from viz_model.memory_limits import (
    available_bytes,
    needed_bytes,
    refuse_what_cannot_fit,
    refuse_without_room,
    total_bytes,
)


@pytest.mark.skipif(sys.platform != "linux", reason="needs the command free")
def test_what_is_there_is_what_free_says():
    line = subprocess.run(["free", "--bytes"], capture_output=True, text=True, check=True).stdout.splitlines()[1]
    total, *_, available = map(int, line.split()[1:])
    assert total_bytes() == pytest.approx(total, rel=0.05)
    assert 0 < available_bytes() <= available * 1.2 + 2e9  # others take and give back meanwhile; a container has less


def test_where_nobody_knows_nothing_is_refused(monkeypatch):
    for source in ("_of_linux", "_of_container", "total_bytes"):
        monkeypatch.setattr(memory_limits, source, lambda: None)
    assert available_bytes() is None
    refuse_what_cannot_fit("huge", 10**15)


def test_the_limit_of_a_container_counts(monkeypatch):
    monkeypatch.setattr(memory_limits, "_of_linux", lambda: 8 * 10**9)
    monkeypatch.setattr(memory_limits, "_of_container", lambda: 2 * 10**9)
    refuse_what_cannot_fit("small", 4 * 10**8)
    with pytest.raises(vm.CheckpointError, match=r"^big needs about 2.3 GB of memory \(500,000,000 numbers of 4 bytes"):
        refuse_what_cannot_fit("big", 5 * 10**8)


def test_a_disk_without_room(tmp_path):
    free = shutil.disk_usage(tmp_path).free
    refuse_without_room("small", tmp_path, free // 2)
    with pytest.raises(vm.FetchError, match=r"Fetching big needs .* Make room and try again"):
        refuse_without_room("big", tmp_path, 2 * free)


def test_a_model_is_counted_and_refused_before_it_is_read(monkeypatch):
    numbers = vm.load("tiny-gpt").transformer.n_parameters()
    assert count_numbers(FOLDER / "tiny-gpt") == numbers
    monkeypatch.setattr(memory_limits, "_of_linux", lambda: needed_bytes(numbers) + memory_limits.RESERVE - 1)
    monkeypatch.setattr(vm.checkpoints, "read_model", lambda folder: pytest.fail("it was read"))
    with pytest.raises(vm.CheckpointError, match=r"tiny-gpt needs about 0.3 GB .* but only 0.3 GB are free"):
        vm.load("tiny-gpt")
