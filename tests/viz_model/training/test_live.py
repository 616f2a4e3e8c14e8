"""Live training: the same as the same recipe run at leisure, within its bounds, and over when it is asked to be."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.support.waiting import PATIENCE, until
from viz_model.errors import TrainingError
from viz_model.jobs import Turns, Visitor
from viz_model.jobs.child import Child
from viz_model.training import live
from viz_model.training.data import LETTERS
from viz_model.training.live import MOST_SNAPSHOTS, MOST_STEPS, LiveTraining, Parameters, Snapshot, train
from viz_model.training.live_plans import LONGEST_TEXT, TEXT_STAGE, Size, repeats_plan, text_plan
from viz_model.training.loop import Training
from viz_model.transformer.hooks import capture

WATCHED = "abcdefabcdef"
SMALL = Size(n_layers=2, n_heads=2, d_model=16)
TEXT = "The king had three daughters. " * 20
NEVER = lambda: False  # noqa: E731


def told(plan, is_stopped=NEVER):
    """What `train` tells, apart: snapshots, and the parameters at both ends."""
    found = []
    train(plan, found.append, is_stopped)
    first, *shots, last = found
    assert isinstance(first, Parameters)
    assert isinstance(last, Parameters)
    assert all(isinstance(shot, Snapshot) for shot in shots)
    return first, shots, last


def same(one: Snapshot, other: Snapshot, atol=0.0):
    assert one.step == other.step
    for name in ("loss", "again"):
        left, right = getattr(one, name), getattr(other, name)
        assert (left is None and right is None) or left == pytest.approx(right, abs=atol)
    for name in ("previous", "induction", "weights"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=atol, rtol=0)


@pytest.mark.parametrize("task", ["repeats", "text"])
def test_snapshots_are_those_of_the_same_recipe_at_leisure(task):
    """Run by the loop that trains the bundled models, its weights looked at with a capture of the test's own."""
    plan = repeats_plan(SMALL, 70, 5, WATCHED) if task == "repeats" else text_plan(SMALL, 70, 5, WATCHED, TEXT)
    assert plan.every == 2
    _, shots, last = told(plan)
    training, expected, losses = Training(plan.recipe, plan.stream, None), {}, {}

    def look(progress):
        with torch.inference_mode(), capture("*.weights") as found:
            training.model(torch.tensor([list(WATCHED.encode())]))
        expected[progress.step] = np.stack([found[f"blocks.{layer}.attn.weights"][0].numpy() for layer in (0, 1)])
        losses[progress.step] = progress.loss

    training.run(look, every=2)
    assert [shot.step for shot in shots] == [0, *range(2, 71, 2)]
    for shot in shots[1:]:
        np.testing.assert_array_equal(shot.weights, expected[shot.step])
        assert shot.loss == pytest.approx(losses[shot.step])
    assert last.step == 70
    for name, tensor in training.model.state_dict().items():
        np.testing.assert_array_equal(last.weights[name], tensor)
    np.testing.assert_allclose(shots[-1].weights.sum(-1), 1, atol=1e-5)


def test_the_seed_decides_everything():
    one, two = (told(repeats_plan(SMALL, 20, 3, WATCHED))[1][-1] for _ in range(2))
    same(one, two)
    other = told(repeats_plan(SMALL, 20, 4, WATCHED))[1][-1]
    assert not np.array_equal(one.weights, other.weights)


def test_the_child_tells_what_the_same_job_tells_here_and_leaves_this_process_alone():
    threads = torch.get_num_threads()
    training = LiveTraining(repeats_plan(SMALL, 20, 3, WATCHED)).start()
    assert training.is_under_way
    first, shots, last = told(training.plan)
    assert training.wait(PATIENCE)
    assert not training.problem
    assert len(training.snapshots) == len(shots) == 21
    for one, other in zip(training.snapshots, shots, strict=True):
        same(one, other, atol=1e-4)
    for name in first.weights:
        np.testing.assert_array_equal(training.first.weights[name], first.weights[name])
        np.testing.assert_allclose(training.last.weights[name], last.weights[name], atol=1e-3)
    assert torch.get_num_threads() == threads
    assert not training.was_stopped
    assert training.seconds > 0


@pytest.mark.slow  # that one waits for the other, tests/pages/training/test_page.py sees
def test_one_at_a_time_until_it_is_stopped():
    """Two visitors, one computer: the second waits; when the first has stopped, it is their turn."""
    turns, plan = Turns(), repeats_plan(SMALL, MOST_STEPS, 0, WATCHED)
    first, second = (Visitor().start(LiveTraining(plan), turns) for _ in range(2))
    assert not second.has_begun
    until(lambda: len(first.snapshots) > 1)
    assert (first.progress.done, first.progress.total) == (first.snapshots[-1].step, MOST_STEPS)
    first.stop()
    assert first.wait(PATIENCE)
    assert first.was_stopped
    assert not first.problem
    assert first.last.step == first.snapshots[-1].step < MOST_STEPS
    until(lambda: second.snapshots)
    second.stop()
    assert second.wait(PATIENCE)


def test_a_process_that_is_killed_is_noticed(monkeypatch):
    """As a computer out of memory would."""
    children = []

    def noted(*words, **options):
        children.append(Child(*words, **options))
        return children[0]

    monkeypatch.setattr(live, "Child", noted)
    training = LiveTraining(repeats_plan(SMALL, MOST_STEPS, 0, WATCHED)).start()
    until(lambda: children)
    os.kill(children[0].process.pid, signal.SIGKILL)
    assert training.wait(PATIENCE)
    assert "ended with the status -9" in training.problem
    assert not training.was_stopped


def test_time_is_bounded():
    training = LiveTraining(repeats_plan(SMALL, MOST_STEPS, 0, WATCHED), most_seconds=0.1).start()
    assert training.wait(PATIENCE)
    assert (training.last.step if training.last else 0) < MOST_STEPS
    assert not training.was_stopped


def test_a_stop_keeps_the_step_that_was_made():
    asked = iter([False] * 4 + [True])
    _, shots, last = told(repeats_plan(SMALL, 118, 1, WATCHED), lambda: next(asked))
    assert last.step == shots[-1].step == 5  # no snapshot was due there
    assert shots[-1].loss is not None


@pytest.mark.parametrize("steps", [20, 59, 60, 61, 118, 119, 800, MOST_STEPS])
def test_there_are_only_so_many_snapshots(steps):
    plan = repeats_plan(SMALL, steps, 0, WATCHED)
    assert len({0, steps, *range(0, steps, plan.every)}) <= MOST_SNAPSHOTS


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: repeats_plan(SMALL, MOST_STEPS + 1, 0, WATCHED), "1 to 5,000 steps, not 5,001"),
        (lambda: repeats_plan(SMALL, 20, 0, "a"), "has 1 byte. It must have 2 to 48"),
        (lambda: repeats_plan(SMALL, 20, 0, "é" * 25), "has 50 bytes. It must have 2 to 48"),
        (lambda: repeats_plan(Size(4, 8, 512, True), 20, 0, WATCHED), "allows at most 2,000,000"),
        (lambda: repeats_plan(Size(2, 3, 64), 20, 0, WATCHED), "cannot be split into n_heads 3"),
        (
            lambda: text_plan(SMALL, 20, 0, WATCHED, "too short"),
            "has only 9 bytes, but one row",
        ),
        (lambda: text_plan(SMALL, 20, 0, WATCHED, "x" * (LONGEST_TEXT + 1)), "reads at most 200,000"),
    ],
)
def test_what_is_out_of_bounds_is_refused(make, sentence):
    with pytest.raises(Exception, match=sentence) as refused:
        make()
    assert isinstance(refused.value, TrainingError) or "n_heads" in sentence


def test_a_size_is_the_bundled_model_in_that_size():
    config = Size(3, 4, 32, feed_forward=True).config()
    assert (config.n_layers, config.n_heads, config.n_kv_heads, config.d_model, config.d_ff) == (3, 4, 4, 32, 128)
    assert replace(config, n_layers=2, n_heads=2, n_kv_heads=2, d_model=64, d_ff=0) == Size().config()


def test_the_text_is_read_as_bytes():
    plan = text_plan(SMALL, 20, 0, WATCHED, "né" * 40)
    assert bytes(plan.stream[1:].astype(np.uint8)) == ("né" * 40).encode()
    assert set(plan.characters) == set("né".encode())
    assert plan.recipe.stages == (replace(TEXT_STAGE, steps=20),)
    np.testing.assert_array_equal(repeats_plan(SMALL, 20, 0, WATCHED).characters, LETTERS)
