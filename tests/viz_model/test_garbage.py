"""What nobody holds is given back, also where the collector was told to pass it over."""

import gc
import weakref
from pathlib import Path

import pytest
import torch

from viz_model import garbage


class Holder:
    """Something that holds itself, so that only the collector finds it."""

    def __init__(self, tensor):
        self.itself, self.tensor = self, tensor


def test_what_was_frozen_is_collected_all_the_same():
    holder = Holder(torch.zeros(3))
    seen = weakref.ref(holder)
    garbage.freeze()
    del holder
    gc.collect()
    assert seen() is not None, "it was not frozen: this test would see nothing"
    garbage.collect()
    assert seen() is None


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells the memory of a process")
def test_freed_memory_goes_back_to_the_machine():
    def megabytes():
        return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024

    garbage.collect()
    before = megabytes()
    kept = []
    for _ in range(
        3000
    ):  # too small for pages of their own, with something that stays after each: the heap cannot shrink
        kept.append(bytearray(2_000))
        kept.append(bytearray(60_000))
    small = kept[::2]
    del kept
    held = megabytes()
    garbage.collect()
    after = megabytes()
    assert after < before + 30, f"{before:.0f} MB before, {held:.0f} when it was let go of, {after:.0f} after"
    assert len(small) == 3000
