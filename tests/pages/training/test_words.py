"""Targets, ranks and changes that the page Training writes, of numbers that are given."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.training import after, targets, watched
from pages.training.targets import Exercise
from tests.support.page_parts import Noted
from tests.support.small_models import small_model
from viz_model.heads.matrices import head_matrices
from viz_model.training.live import Snapshot
from viz_model.training.targets import Comparison, Targets
from viz_ui.look.text import number

IDS = (5, 9, 11, 9)
TARGETS = Targets(*(torch.tensor(values) for values in ([0, 1, 3], [9, 11, 4], [0.5, 2.0, 3.0], [1, 2, 25], [9, 7, 8])))


@pytest.fixture(scope="module")
def model():
    return vm.Model("small", small_model())


@pytest.mark.parametrize(("layout", "places"), [("decoder-only", (1, 2, 4)), ("encoder-only", (0, 1, 3))])
def test_a_target_stands_at_its_own_place_with_its_rank_and_what_was_likeliest(layout, places):
    model = vm.Model("small", small_model(layout=layout))
    row = targets.row_of(model, Exercise(model.trace(list(IDS)), TARGETS, ""))
    found = [(one.target, one.loss, one.rank, one.best, one.hidden) for one in row if one.target]
    is_hidden = layout == "encoder-only"
    assert found == [
        (f"{place} <{token}>", loss, rank, f"<{best}>", is_hidden)
        for place, token, loss, rank, best in zip(
            places, (9, 11, 4), (0.5, 2.0, 3.0), (1, 2, 25), (9, 7, 8), strict=True
        )
    ]
    assert row[2].target is None


@pytest.mark.parametrize(("position", "nearest"), [(0, 0), (1, 1), (2, 1), (3, 3)])
def test_the_nearest_target_is_shown_with_its_rank_also_far_down(model, monkeypatch, position, nearest):
    noted = Noted()
    monkeypatch.setattr(targets, "st", noted)
    monkeypatch.setattr(targets, "expected", lambda *_: [(9, 0.4), (11, 0.3), (2, 0.1)])
    targets._draw_expected(model, Exercise(model.trace(list(IDS)), TARGETS, ""), position)
    token, loss, rank = {0: (9, 0.5, 1), 1: (11, 2.0, 2), 3: (4, 3.0, 25)}[nearest]
    assert ("nearest" in noted.words) == (position != nearest)
    assert f"{nearest} <{IDS[nearest]}>" in noted.words
    [((table,), _)] = noted.of("dataframe")
    marked = table[table["target"] != ""]
    assert marked["token"].tolist() == [f"<{token}>"]
    assert marked["rank"].tolist() == [rank]
    if rank == 25:
        assert marked["probability"].tolist() == [pytest.approx(np.exp(-loss))]


def test_the_likeliest_tokens_that_were_right_are_counted(model, monkeypatch):
    noted = Noted()
    for name in ("token_targets", "_draw_expected", "_draw_costs"):
        monkeypatch.setattr(targets, name, getattr(noted, name))
    monkeypatch.setattr(targets, "st", noted)
    monkeypatch.setattr(targets, "_exercise", lambda _: Exercise(model.trace(list(IDS)), TARGETS, ""))
    targets.draw_asked(SimpleNamespace(model=model, query=9))
    assert "1 of 3 predictions" in noted.words
    assert "1.83 nats" in noted.words
    [(_, options)] = noted.of("token_targets")
    assert (options["position"], options["blind"]) == (3, pytest.approx(np.log(29)))


def test_the_times_of_one_pass_and_of_all_steps_are_told_apart(model, monkeypatch):
    noted = Noted()
    noted.session_state.compared = Comparison(0.004, 0.25, 7, 3e-6)
    monkeypatch.setattr(targets, "st", noted)
    targets._compare(SimpleNamespace(model=model), ())
    assert "One pass took 4.00 ms, and 7 steps took 250 ms." in noted.words
    assert "differ by at most 3.0×10⁻⁶." in noted.words


def test_a_change_is_of_what_was_before(monkeypatch):
    """P·W_Qᵀ·W_K·Pᵀ and its like of the first and the last weights, side by side."""
    noted, config = Noted(), small_model().config
    one, two = (small_model(seed).state_dict() for seed in (0, 1))
    two = {name: 3 * weights for name, weights in two.items()}
    recipe = SimpleNamespace(config=config, stages=[SimpleNamespace(length=8)])
    training = SimpleNamespace(plan=SimpleNamespace(recipe=recipe), first=SimpleNamespace(weights=one),
                               last=SimpleNamespace(weights=two, step=40))  # fmt: skip
    monkeypatch.setattr(after, "linked", lambda *_, **__: "W_Q")
    monkeypatch.setattr(after, "panels", noted.panels)
    monkeypatch.setattr(after, "st", noted)
    after.draw_before_and_after(training, 1, 2)
    [(((before, _, last),), _)] = noted.of("panels")
    old, new = (head_matrices(weights, config, 1, 2, 8)["W_Q"] for weights in (one, two))
    np.testing.assert_array_equal(before.values, old)
    np.testing.assert_array_equal(last.values, new)
    change = np.linalg.norm(new - old) / np.linalg.norm(old)
    assert number(change, 3) in noted.words
    assert (before.title[-6:], last.title[-7:]) == ("step 0", "step 40")


@pytest.mark.parametrize("reads_text", [False, True])
def test_the_curves_are_losses_and_the_weights_of_the_best_head(monkeypatch, reads_text):
    noted = Noted()
    shares = np.random.default_rng(0).random((2, 3, 2, 4))  # previous token and induction of three snapshots, (L,H)
    monkeypatch.setattr(watched, "training_curves", noted.training_curves)
    losses = ((0, None, 4.0), (20, 3.0, 3.5), (33, 1.5, 3.25))
    shots = [Snapshot(*loss, *heads, np.zeros((2, 4, 8, 8))) for *heads, loss in zip(*shares, losses, strict=True)]
    recipe = SimpleNamespace(reads_text=reads_text, steps=40)
    plan = SimpleNamespace(recipe=recipe, characters=np.arange(20))
    watched._draw_curves(SimpleNamespace(plan=plan, is_under_way=False), shots, 1)
    [((plots,), options)] = noted.of("training_curves")
    found = {line.name: line.values for plot in plots for line in plot.lines}
    assert found["training loss"] == (None, 3.0, 1.5)
    assert found.get("random repeats") == ((4.0, 3.5, 3.25) if reads_text else None)
    for name, of in zip(("previous token", "induction"), shares, strict=True):
        assert found[name] == pytest.approx([of[n].max() for n in range(3)])
    assert plots[0].level == ("uniform guess", pytest.approx(np.log(20)))
    assert (options["at"], options["most"], options["step"]) == ([0, 20, 33], 40, 1)


def test_a_head_is_noted_with_its_own_shares_and_drawn_at_its_snapshot(monkeypatch):
    noted, weights = Noted(), np.random.default_rng(0).random((2, 4, 8, 8))
    previous, induction = np.arange(8.0).reshape(2, 4) / 10, np.arange(8.0).reshape(2, 4) / 100
    shot = Snapshot(20, 3.0, 3.5, previous, induction, weights)
    for name in ("head_grid", "panels"):
        monkeypatch.setattr(watched, name, getattr(noted, name))
    watched._draw_grid(shot, 1, 2)
    [(_, options)] = noted.of("head_grid")
    assert options["labels"] == [
        [f"previous token {number(layer * 0.4 + head * 0.1, 2)}, induction {number(layer * 0.04 + head * 0.01, 2)}"
         for head in range(4)] for layer in range(2)
    ]  # fmt: skip
    training = SimpleNamespace(plan=SimpleNamespace(watched=list(b"abcdabcd")))
    watched._draw_head(training, shot, 1, 2)
    [(((matrix,),), _)] = noted.of("panels")
    np.testing.assert_array_equal(matrix.values, weights[1, 2])
    np.testing.assert_array_equal(matrix.allowed, np.tri(8, dtype=bool))
    assert matrix.title == "Layer 1, head 2, step 20"
    assert matrix.caption == "on random repeats: previous token 0.60, induction 0.060"
