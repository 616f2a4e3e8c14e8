"""Training: what a stop and a resume change (nothing), and what is refused."""

import csv
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.support.properties import examples
from tests.support.small_models import small_config
from viz_model.errors import TrainingError
from viz_model.training import loop
from viz_model.training.loop import CURVE_FILE, STATE_FILE, Training, fresh_transformer, rate_share
from viz_model.training.recipes import Recipe, Stage
from viz_model.transformer.positions import sinusoidal_table

CONFIG = small_config(n_kv_heads=4)
RECIPE = Recipe(
    CONFIG,
    (
        Stage("echo", steps=3, rows=2, length=16, warm_up=2),
        Stage("induction", steps=3, rows=2, length=16, warm_up=2),
        Stage("copy", steps=3, rows=2, length=16, warm_up=2),
        Stage("text", steps=6, rows=2, length=16, copy_rows=1, warm_up=2, decay=0.5, dropout=0.2),
    ),
)
STREAM = np.tile(np.arange(29, dtype=np.uint16), 12)


@pytest.fixture(autouse=True)
def short_reminders(monkeypatch):
    monkeypatch.setattr("viz_model.training.objectives.ECHO_LENGTH", 16)


class Stopped(Exception):
    pass


def run(folder, until=None, recipe=RECIPE, save_every=1):
    """Train in this folder, going on from what is there; stop after so many steps."""
    training = Training(recipe, STREAM, folder)
    training.resume()

    def report(progress):
        reports.append(progress)
        if progress.step == until:
            training.save()
            raise Stopped

    reports = []
    if until is None:
        training.run(report, every=1, save_every=save_every)
    else:
        with pytest.raises(Stopped):
            training.run(report, every=1, save_every=1000)
    return training, reports


def test_stopped_and_resumed_is_bit_by_bit_the_same_as_in_one_go(tmp_path):
    whole, reports = run(tmp_path / "whole")
    for until in (2, 3, 7, 11, 14):
        run(tmp_path / "parts", until)
    parts, rest = run(tmp_path / "parts")
    assert len(rest) == 1
    assert parts.step == whole.step == 15
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, parts.model.state_dict()[name]), name
    assert parts.curve == whole.curve
    assert [point[2] for point in whole.curve] == [progress.loss for progress in reports]
    assert not whole.model.training


def test_it_learns_what_it_is_shown(tmp_path):
    recipe = Recipe(CONFIG, (Stage("text", steps=60, rows=8, length=16, warm_up=5),))
    _, reports = run(tmp_path, recipe=recipe, save_every=1000)
    assert reports[0].loss == pytest.approx(np.log(29), abs=0.3)  # knows nothing
    assert reports[-1].loss < 1.5  # the text counts upwards


def test_reports_and_the_curve_on_disk(tmp_path):
    training = Training(RECIPE, STREAM, tmp_path)
    reports = []
    training.run(reports.append, every=4, save_every=100)
    assert [progress.step for progress in reports] == [4, 8, 12, 15]
    assert [progress.objective for progress in reports] == ["induction", "copy", "text", "text"]
    assert all(progress.steps == 15 and progress.tokens_per_second > 0 for progress in reports)
    assert reports[-1].seconds_left == 0
    with (tmp_path / CURVE_FILE).open(newline="") as file:
        header, *points = csv.reader(file)
    assert header == ["step", "objective", "loss"]
    assert [(int(step), name, float(loss)) for step, name, loss in points] == training.curve
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []


@pytest.mark.parametrize(
    ("averaged", "shares"),  # of 15 steps, every second one and a stage's last
    [
        ({"text": 5}, {10: 1 / 4, 12: 1 / 4, 14: 1 / 4, 15: 1 / 4}),
        ({"copy": 1, "text": 3}, {8: 1 / 4, 9: 1 / 4, 12: 1 / 6, 14: 1 / 6, 15: 1 / 6}),
    ],
)
def test_what_comes_out_is_the_mean_of_the_last_weights_of_its_stages(tmp_path, monkeypatch, averaged, shares):
    monkeypatch.setattr(loop, "AVERAGE_EVERY", 2)
    stages = [replace(stage, averaged_steps=averaged.get(stage.objective, 0)) for stage in RECIPE.stages]
    recipe, weights = replace(RECIPE, stages=tuple(stages)), {}
    training = Training(recipe, STREAM, tmp_path / "whole")

    def keep(progress):
        weights[progress.step] = {name: tensor.double().clone() for name, tensor in training.model.state_dict().items()}

    training.run(keep, every=1)
    for name, tensor in training.model.state_dict().items():
        mean = sum(share * weights[step][name].numpy() for step, share in shares.items())
        np.testing.assert_allclose(tensor, mean, atol=1e-6)
    run(tmp_path / "parts", until=12, recipe=recipe)
    parts, _ = run(tmp_path / "parts", recipe=recipe)
    for name, tensor in training.model.state_dict().items():
        assert torch.equal(tensor, parts.model.state_dict()[name]), name


def test_a_stage_can_go_on_from_the_mean_of_those_before_it(tmp_path, monkeypatch):
    """At rates of zero its steps leave the mean as it is; without being told so, the last weights."""
    monkeypatch.setattr(loop, "AVERAGE_EVERY", 2)
    *before, last = [replace(stage, averaged_steps=2 * (stage.objective == "copy")) for stage in RECIPE.stages]
    still = replace(last, steps=2, matrix_rate=0.0, rate=0.0)
    mean, _ = run(tmp_path / "mean", recipe=Recipe(CONFIG, tuple(before)))
    whole = Recipe(CONFIG, (*before, replace(still, from_mean=True)))
    run(tmp_path / "whole", until=10, recipe=whole)
    from_mean, _ = run(tmp_path / "whole", recipe=whole)
    assert not from_mean.averaged
    for name, tensor in mean.model.state_dict().items():
        assert torch.equal(tensor, from_mean.model.state_dict()[name]), name
    run(tmp_path / "last", until=11, recipe=Recipe(CONFIG, (*before, still)))
    state = torch.load(tmp_path / "last" / STATE_FILE, weights_only=True)
    assert not torch.equal(state["model"]["tokens.weight"], mean.model.state_dict()["tokens.weight"])


def test_bfloat16_takes_nearly_the_same_steps_and_leaves_float32_weights(tmp_path):
    """Products of 8 bits are right to about 1/256 (Kalamkar et al. 2019, "A Study of BFLOAT16", §3)."""
    stage = Stage("text", steps=20, rows=8, length=16, warm_up=5)
    exact, reports = run(tmp_path / "exact", recipe=Recipe(CONFIG, (stage,)), save_every=1000)
    rough, rough_reports = run(
        tmp_path / "rough", recipe=Recipe(CONFIG, (replace(stage, bfloat16=True),)), save_every=1000
    )
    assert {tensor.dtype for tensor in rough.model.state_dict().values()} == {torch.float32}
    assert [r.loss for r in rough_reports] == pytest.approx([r.loss for r in reports], rel=0.02)
    assert [r.loss for r in rough_reports] != [r.loss for r in reports]
    moved = [rough.model.state_dict()[name] - tensor for name, tensor in exact.model.state_dict().items()]
    assert max(float(difference.abs().max()) for difference in moved) > 0


def test_a_finished_training_is_not_run_again(tmp_path):
    first, _ = run(tmp_path)
    again, reports = run(tmp_path)
    assert reports == []
    name = "tokens.weight"
    assert torch.equal(first.model.state_dict()[name], again.model.state_dict()[name])


def test_the_state_of_another_model_is_refused(tmp_path):
    run(tmp_path, until=2)
    other = replace(RECIPE, config=small_config(n_kv_heads=4, d_ff=48))
    with pytest.raises(TrainingError, match="belongs to another recipe"):
        Training(other, STREAM, tmp_path).resume()
    assert Training(RECIPE.with_text_steps(50), STREAM, tmp_path).resume()  # a longer one goes on


def test_a_damaged_state_is_refused_and_changes_nothing(tmp_path):
    run(tmp_path, until=2)
    path = tmp_path / STATE_FILE
    whole = path.read_bytes()
    damaged = [whole[:length] for length in (0, 1, 4, 100, 1000, len(whole) // 2, len(whole) - 1)]
    damaged += [b"not a state at all", b"PK\x03\x04", bytes(1000)]
    for data in damaged:
        path.write_bytes(data)
        training = Training(RECIPE, STREAM, tmp_path)
        with pytest.raises(TrainingError, match=f"{STATE_FILE} is damaged, or is not a training state"):
            training.resume()
        assert training.step == 0
    torch.save([1, 2], path)
    with pytest.raises(TrainingError, match="is not a training state"):
        Training(RECIPE, STREAM, tmp_path).resume()


def test_without_a_state_it_starts_anew(tmp_path):
    assert Training(RECIPE, STREAM, tmp_path / "none").resume() is False


@pytest.mark.parametrize("size", [0, 1, 16])
def test_a_text_shorter_than_a_row_is_refused(tmp_path, size):
    with pytest.raises(TrainingError, match=f"{size} tokens to train on, but one row needs 17"):
        Training(RECIPE, STREAM[:size], tmp_path)
    Training(RECIPE, STREAM[:17], tmp_path)


def test_a_loss_that_is_not_finite_stops_the_training(tmp_path):
    training = Training(RECIPE, STREAM, tmp_path)
    training.model.state_dict()["tokens.weight"][:] = torch.nan
    with pytest.raises(TrainingError, match="loss of step 0 is nan"):
        training.run(lambda progress: None)


@pytest.mark.parametrize(
    ("stage", "shares"),
    [
        (Stage("text", 4, 1, 8, warm_up=4), [0.25, 0.5, 0.75, 1]),
        (Stage("text", 4, 1, 8, warm_up=1), [1, 1, 1, 1]),
        # The last eight of ten steps: 10/8 and 9/8 (level), then 8/8, 7/8 …
        (
            Stage("text", 10, 1, 8, warm_up=1, decay=0.8),
            [1, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8],
        ),
        (Stage("text", 2, 1, 8, warm_up=2, decay=1.0), [0.5, 0.5]),
    ],
)
def test_rates_by_numbers(stage, shares):
    assert [rate_share(stage, step) for step in range(stage.steps)] == pytest.approx(shares)


@examples(100)
@given(st.integers(1, 300), st.integers(1, 50), st.floats(0, 1))
def test_rates_rise_once_and_fall_to_a_twentieth_at_most(steps, warm_up, decay):
    stage = Stage("text", steps, 1, 8, warm_up=warm_up, decay=decay)
    shares = [rate_share(stage, step) for step in range(steps)]
    assert all(0 < share <= 1 for share in shares)
    level = max(shares)
    rising, falling = shares[: shares.index(level) + 1], shares[shares.index(level) :]
    assert rising == sorted(rising)
    assert falling == sorted(falling, reverse=True)
    if steps > warm_up and not decay:
        assert shares[-1] == 1


def test_the_rates_of_a_stage_reach_their_optimizers(tmp_path):
    recipe = Recipe(CONFIG, (Stage("copy", 4, 2, 16, matrix_rate=0.3, rate=0.01, warm_up=4),))
    training = Training(recipe, STREAM, tmp_path)
    seen = []
    training.run(lambda progress: seen.append([o.param_groups[0]["lr"] for o in training.optimizers]), every=1)
    np.testing.assert_allclose(seen, np.outer([0.25, 0.5, 0.75, 1], [0.3, 0.01]))


def test_weight_decay_is_that_of_the_stage_and_of_matrices_alone(tmp_path):
    stages = tuple(Stage("copy", 2, 2, 16, weight_decay=decay) for decay in (0.3, 0.05))
    training = Training(Recipe(CONFIG, stages), STREAM, tmp_path)
    seen = []
    training.run(
        lambda progress: seen.append([o.param_groups[0]["weight_decay"] for o in training.optimizers]), every=1
    )
    assert seen == [[0.3, 0.0], [0.3, 0.0], [0.05, 0.0], [0.05, 0.0]]


def test_dropout_ends_where_the_stage_says(tmp_path, monkeypatch):
    seen = []
    loss = loop.stage_loss
    monkeypatch.setattr(loop, "stage_loss", lambda model, stage, *rest: seen.append(stage) or loss(model, stage, *rest))
    stages = (Stage("text", 3, 2, 16, dropout=0.3), Stage("text", 5, 2, 16, dropout=0.2, dropout_steps=2))
    Training(Recipe(CONFIG, stages), STREAM, tmp_path).run(lambda progress: None)
    assert [stage.dropout for stage in seen] == [0.3, 0.3, 0.3, 0.2, 0.2, 0.0, 0.0, 0.0]


def test_every_weight_has_one_optimizer_and_matrices_of_blocks_have_muon(tmp_path):
    training = Training(RECIPE, STREAM, tmp_path)
    muon, adam = ([id(p) for g in o.param_groups for p in g["params"]] for o in training.optimizers)
    names = {id(parameter): name for name, parameter in training.model.named_parameters()}
    assert sorted(muon + adam) == sorted(names)
    expected = {name for name in names.values() if name.startswith("blocks") and ".norm" not in name}
    assert {names[p] for p in muon} == {name for name in expected if name.endswith("weight")}


def test_fresh_weights_of_an_encoder_decoder():
    """What writes to a stream is scaled down; scaled token rows come out as large as sinusoids."""
    config = small_config(
        layout="encoder-decoder", d_model=64, n_kv_heads=4, vocab_size=300, position="sinusoidal", embedding_scale=True
    )
    state = fresh_transformer(config, seed=3).state_dict()
    for name, tensor in state.items():
        if name == "tokens.weight":
            assert float(tensor.std()) == pytest.approx(1 / 8, rel=0.03)
        elif tensor.dim() == 2:
            writes = name.endswith(("attn.output.weight", "cross.output.weight", "ffn.down.weight"))
            assert float(tensor.std()) == pytest.approx(0.02 / (2 if writes else 1), rel=0.1), name
    assert sum(name.endswith("cross.output.weight") for name in state) == 2


def test_fresh_weights():
    config = small_config(d_model=64, n_kv_heads=4, context_length=96, vocab_size=300)
    state = fresh_transformer(config, seed=3).state_dict()
    again, other = (
        fresh_transformer(config, seed=3).state_dict(),
        fresh_transformer(config, seed=4).state_dict(),
    )
    assert all(torch.equal(state[name], again[name]) for name in state)
    assert not torch.equal(state["tokens.weight"], other["tokens.weight"])
    for name, tensor in state.items():
        if name.endswith("bias"):
            assert (tensor == 0).all()
        elif "norm" in name:
            assert (tensor == 1).all()
        elif name != "positions.weight":
            writes = name.endswith(("attn.output.weight", "ffn.down.weight"))
            assert float(tensor.std()) == pytest.approx(0.02 / (2 if writes else 1), rel=0.1), name
    ratio = state["positions.weight"] / sinusoidal_table(96, 64)
    torch.testing.assert_close(ratio[1:, 2:8], ratio[1, 2].expand(95, 6), rtol=1e-3, atol=1e-5)
