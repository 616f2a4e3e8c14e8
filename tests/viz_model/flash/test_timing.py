"""What is measured: bytes that are known beforehand, the same attention both ways, and a process that can be ended."""

import pytest
import torch
from torch.nn import functional as F

from tests.support.waiting import PATIENCE, until
from viz_model.flash.measuring import Measuring
from viz_model.flash.timing import (
    Shapes,
    fused_attention,
    machine,
    peak_bytes,
    timings,
    written_out_attention,
)

MEGABYTE = 250_000  # float32 numbers


def test_peak_bytes_are_those_that_were_held_at_once():
    def two_then_one():
        first, second = torch.empty(MEGABYTE), torch.empty(2 * MEGABYTE)
        del first, second
        return torch.empty(MEGABYTE)

    assert peak_bytes(two_then_one) == 3_000_000
    assert peak_bytes(lambda: [torch.empty(MEGABYTE) for _ in range(5)]) == 5_000_000
    assert peak_bytes(lambda: None) == 0


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("groups", [4, 2])
def test_both_ways_are_the_attention_of_torch(causal, groups):
    query, key, value = torch.randn(4, 30, 8), torch.randn(groups, 30, 8), torch.randn(groups, 30, 8)
    repeated = (x.repeat_interleave(4 // groups, 0)[None] for x in (key, value))
    expected = F.scaled_dot_product_attention(query[None], *repeated, is_causal=causal)[0]
    for attention in (written_out_attention, fused_attention):
        torch.testing.assert_close(attention(query, key, value, causal=causal), expected)


@torch.inference_mode()
def test_lengths_double_and_written_out_holds_matrices_that_fused_does_not():
    found = list(timings(Shapes(heads=4, groups=2, width=8, causal=True), seconds=1.5))
    assert [one.length for one in found] == [64 * 2**n for n in range(len(found))]
    assert len(found) >= 3
    for one in found:
        result = 4 * 4 * one.length * 8  # bytes
        assert one.fused.nbytes >= result
        assert one.fused.seconds > 0
        if one.written_out:
            square = 4 * 4 * one.length**2
            assert 2 * square <= one.written_out.nbytes <= 6 * square + result + 4096
    last = next(one for one in found if one.length == 256)
    assert last.fused.nbytes < last.written_out.nbytes / 2


@torch.inference_mode()
def test_what_would_take_too_much_memory_is_left_out():
    found = list(timings(Shapes(heads=2, groups=2, width=8, causal=False), seconds=0.5, most_bytes=100_000))
    assert found[0].written_out is not None
    assert all(one.written_out is None for one in found[1:])
    assert len(found) > 1


def test_a_measurement_tells_length_after_length_and_ends_when_asked():
    measuring = Measuring(Shapes(heads=2, groups=1, width=8, causal=True)).start()
    until(lambda: measuring.timings or not measuring.is_under_way)
    measuring.stop(PATIENCE)
    assert not measuring.is_under_way
    assert measuring.was_stopped
    assert not measuring.problem
    assert measuring.timings[0].length == 64
    assert measuring.progress.done == len(measuring.timings)
    assert measuring.machine.threads == 1
    assert measuring.machine.processor == machine().processor


@pytest.mark.slow  # that the failure of a child is said, tests/viz_model/jobs/test_child.py sees
def test_a_process_that_fails_says_so():
    measuring = Measuring(Shapes(heads=3, groups=2, width=8, causal=True)).start()  # 3 heads cannot share 2
    measuring.wait(PATIENCE)
    assert measuring.problem.startswith("The measurement ended early: ")
    assert not measuring.was_stopped
