"""The curves of what steps cost: each is of its own number."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.generate.costs_figure import PANELS, WITH, WITHOUT, cost_figure
from tests.support.transformers_tiny_gpt import gpt2

PROMPT, NEW = "The queen gave the girl a ring.", 5


@pytest.fixture(scope="module")
def curves():
    """The steps, (plot, name) -> numbers, and where a line stands in each plot; times and differences are given."""
    steps = vm.load("tiny-gpt").generate(PROMPT, max_new_tokens=NEW, compare=True)
    steps = [
        replace(step, seconds=0.001 * (n + 1), seconds_uncached=0.25 * (n + 1), largest_difference=1e-6 * (n + 1))
        for n, step in enumerate(steps)
    ]
    figure = cost_figure(steps, 2, dark=False)
    plots = {"x" if n == 0 else f"x{n + 1}": title for n, title in enumerate(PANELS)}
    numbers = {(plots[one.xaxis], one.name): list(one.y) for one in figure.data}
    return steps, numbers, {plots[line.xref]: line.x0 for line in figure.layout.shapes}


def test_bytes_that_are_used_are_those_of_the_library_and_all_are_reserved_at_once(curves):
    steps, found, _ = curves
    read = [step.read for step in steps]
    used = []
    for length in read:
        with torch.inference_mode():
            kept = gpt2()(torch.tensor([steps[-1].ids[:length]]), use_cache=True).past_key_values
        used.append(sum(layer.keys.nbytes + layer.values.nbytes for layer in kept.layers))
    plot = "bytes of the cache"
    assert found[plot, "used"] == found[plot, "by formula"] == used
    assert found[plot, "reserved"] == [used[0] // read[0] * (read[0] + NEW)] * NEW


def test_flops_are_those_that_are_counted_by_hand(curves):
    steps, found, _ = curves
    matrices = 4 * (4 * 256 * 256 + 2 * 256 * 1024)  # L times Q, K, V, output and the two of the feed-forward
    read = np.array([step.read for step in steps])
    queries = np.array([read[0]] + [1] * (NEW - 1))

    def flops(queries):
        return (2 * matrices * queries + 4 * 4 * 256 * queries * read + 2 * 256 * 4353) / 1e6

    np.testing.assert_allclose(found["FLOPs of a step, millions", WITH], flops(queries))
    np.testing.assert_allclose(found["FLOPs of a step, millions", WITHOUT], flops(read))


def test_times_and_differences_are_those_of_the_steps(curves):
    _, found, _ = curves
    each = np.arange(1, NEW + 1)
    np.testing.assert_allclose(found["time of a step, ms", WITH], each)
    np.testing.assert_allclose(found["time of a step, ms", WITHOUT], 250 * each)
    np.testing.assert_allclose(found["largest difference of logits", "at most"], 1e-6 * each)


def test_the_step_that_is_looked_at_is_marked_in_every_plot(curves):
    assert curves[2] == dict.fromkeys(PANELS, 2)
