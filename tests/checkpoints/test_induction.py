"""The bundled `induction` keeps what its README says, and its two kinds of heads are there when numpy computes them."""

import csv
import json
import re

import numpy as np
import pytest

import viz_model as vm
from viz_model.training.data import LETTERS
from viz_model.training.figures.__main__ import report

FOLDER = vm.checkpoints.FOLDER / "induction"


@pytest.fixture(scope="module")
def model():
    return vm.load("induction")


def normed(x: np.ndarray, weights: dict, name: str) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def written_out(model: vm.Model, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The whole model in numpy, float64: weights (L,H,T,T) and logits (T,V) of one row."""
    w = {name: tensor.double().numpy() for name, tensor in model.transformer.state_dict().items()}
    length, width, heads = len(ids), 64, 2
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    table = np.stack((np.sin(angles), np.cos(angles)), -1).reshape(length, width)
    x = w["tokens.weight"][ids] * np.sqrt(width) + table
    maps = []
    for layer in range(2):
        block = f"blocks.{layer}"
        inner = normed(x, w, f"{block}.norm1")
        q, k, v = (
            (inner @ w[f"{block}.attn.{part}.weight"].T + w[f"{block}.attn.{part}.bias"])
            .reshape(length, heads, width // heads)
            .transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        scores = np.where(np.tri(length, dtype=bool), q @ k.transpose(0, 2, 1) / np.sqrt(width // heads), -np.inf)
        attention = np.exp(scores - scores.max(-1, keepdims=True))
        attention /= attention.sum(-1, keepdims=True)
        maps.append(attention)
        joined = (attention @ v).transpose(1, 0, 2).reshape(length, width)
        x = x + joined @ w[f"{block}.attn.output.weight"].T + w[f"{block}.attn.output.bias"]
    return np.stack(maps), normed(x, w, "final_norm") @ w["unembedding.weight"].T


def test_both_kinds_of_heads_are_there_in_numpy(model):
    """On random repeats that no training step made: previous-token and induction head at 0.9 and more, each alone."""
    random, half = np.random.default_rng(777), 40
    previous, induction, losses = [], [], []
    for _ in range(8):
        segment = LETTERS[random.integers(0, len(LETTERS), half)]
        ids = np.concatenate((segment, segment))
        maps, logits = written_out(model, ids)
        previous.append([[np.diagonal(one, -1).mean() for one in layer] for layer in maps])
        induction.append(
            [[np.mean([one[i, i - half + 1] for i in range(half, 2 * half)]) for one in layer] for layer in maps]
        )
        here = logits[half:-1]
        chances = (
            here - np.log(np.exp(here - here.max(1, keepdims=True)).sum(1, keepdims=True)) - here.max(1, keepdims=True)
        )
        losses.append(-chances[np.arange(half - 1), ids[half + 1 :]].mean())
        np.testing.assert_allclose(model.trace(ids.tolist()).weights(1, 1), maps[1, 1], atol=1e-4)
    assert np.max(np.mean(previous, 0)[0]) >= 0.9
    assert np.max(np.mean(induction, 0)[1]) >= 0.9
    assert np.max(np.mean(previous, 0)[1]) < 0.2 > np.max(np.mean(induction, 0)[0])
    assert np.mean(losses) < 0.1 * np.log(len(LETTERS))


def test_readme_and_heads_file_tell_what_the_command_measures(model):
    result, text = report(model, FOLDER, None), (FOLDER / "README.md").read_text()
    written = json.loads((FOLDER / "heads.json").read_text())
    assert written.keys() == result.heads.keys() == {"previous_random", "induction"}
    for name, rows in result.heads.items():
        np.testing.assert_allclose(written[name], rows, atol=2e-3)
        layer, head = np.unravel_index(np.argmax(rows), np.shape(rows))
        assert re.search(rf"{name}[^\n]*{np.max(rows):.2f}[^\n]*layer {layer}, head {head}", text), name
        assert np.max(rows) >= 0.9
    loss = re.search(r"comes again .*? ([\d.]+) nats", "\n".join(result.lines))[1]
    assert f"{float(loss):.2f} nats" in text
    assert f"{model.transformer.n_parameters():,} parameters" in text


def test_the_loss_stood_on_its_plateau_before_it_fell():
    rows = list(csv.DictReader((FOLDER / "loss-curve.csv").open()))
    loss = {int(row["step"]): float(row["loss"]) for row in rows}
    assert loss[75] == pytest.approx(np.log(64), abs=0.05)
    assert loss[100] == pytest.approx(np.log(64), abs=0.05)
    assert loss[300] < 1


def test_it_continues_a_typed_repeat(model):
    prompts = json.loads((FOLDER / "examples.json").read_text())
    assert all(set(prompt.encode()) <= set(LETTERS.tolist()) for prompt in prompts.values())
    whole = prompts["Random characters, twice"]
    half = len(whole) // 2
    assert whole[:half] == whole[half:]
    steps = model.generate(whole[: half + 3], max_new_tokens=half - 3, temperature=0.0)
    assert b"".join(step.token for step in steps).decode() == whole[half + 3 :]


def test_every_example_shows_its_point(model):
    """A copy is known from its second character on, however short; where nothing comes again, nothing is known."""
    for name, least in [("Random characters, twice", 0.95), ("A sentence, twice", 0.8)]:
        assert known(model, model.examples[name], of=0.5) >= least, name
    word = model.trace(model.examples["A word that comes again"])
    assert model.tokenizer.decode([int(word.logits_at(word.length - 1).argmax())]) == "b"
    assert known(model, model.examples["Nothing comes again"], of=1) < 0.2


def known(model, text, of):
    """Of the last part of a text, from its second token on, the share of tokens that are the first guess."""
    trace = model.trace(text)
    places = range(round(trace.length * (1 - of)), trace.length - 1)
    return np.mean([int(trace.logits_at(place).argmax()) == trace.ids[place + 1] for place in places])
