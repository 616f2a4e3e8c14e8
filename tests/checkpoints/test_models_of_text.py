"""The bundled models that continue a text keep what their READMEs say, measured on the committed weights."""

import json
import re
from functools import cache

import numpy as np
import pytest

import viz_model as vm
from viz_model.checkpoints import FOLDER
from viz_model.training.figures.report import books_of, table
from viz_model.training.figures.text import EXAMPLE, SOME, copying, example_share, head_figures, text_loss
from viz_ui.frame.examples import EXAMPLES

NAMES = ("tiny-gpt", "tiny-llama")
BOOKS = books_of(FOLDER / "tiny-gpt", None)

of_each = pytest.mark.parametrize("name", NAMES)
# What takes seconds is measured of the second model with --slow only, by the functions that the first has tried.
of_first = pytest.mark.parametrize("name", [NAMES[0], pytest.param(NAMES[1], marks=pytest.mark.slow)])


def table_told(name):
    return (FOLDER / name / "README.md").read_text()


def told(name):
    """The sentences of the README, without the ends of their lines."""
    return " ".join(table_told(name).split())


@cache
def copied(name):
    return copying(vm.load(name), BOOKS)


@cache
def heads(name):
    return {figure: table(values) for figure, values in head_figures(vm.load(name), BOOKS, copied(name)).items()}


@of_first
def test_the_held_out_loss_of_some_books_is_what_the_readme_tells(name):
    assert f"{text_loss(vm.load(name), BOOKS[SOME]):.2f} on every eighth of the books" in told(name)


@pytest.mark.slow
@of_each
def test_the_held_out_loss_is_what_the_readme_tells(name):
    loss = text_loss(vm.load(name), BOOKS)
    assert f"Held-out loss: {loss:.2f} nats" in told(name)
    assert loss <= 3.505


@of_first
def test_random_tokens_are_known_when_they_come_again(name):
    found = copied(name).random
    assert found.right >= 0.95
    assert f"{100 * found.right:.0f} % of random tokens ({found.loss:.2f} nats a token" in told(name)


@of_first
def test_held_out_passages_are_known_when_they_come_again(name):
    found = copied(name).passages
    assert found.right >= 0.95
    assert found.loss <= 0.3
    assert f"{100 * found.right:.0f} % of the tokens of held-out passages ({found.loss:.2f} nats a token" in told(name)


@of_each
def test_the_word_of_the_example_is_what_the_readme_tells(name):
    prompt, _ = EXAMPLE
    assert prompt == EXAMPLES["Words that come again"]
    share = example_share(vm.load(name))
    assert share >= 0.6
    assert f"{100 * share:.0f} % to “ old”" in told(name)


@of_first
def test_the_copying_circuit_is_there(name):
    least_of = {"previous_text": 0.7, "previous_random": 0.9, "induction": 0.8, "induction_text": 0.6}
    for figure, least in least_of.items():
        layer, head = np.unravel_index(np.argmax(heads(name)[figure]), np.shape(heads(name)[figure]))
        assert heads(name)[figure][layer][head] >= least, figure
        assert layer == figure.startswith("induction"), "previous-token heads stand below those that read them"


@of_first
def test_the_heads_file_and_the_readme_hold_what_is_measured(name):
    written = json.loads((FOLDER / name / "heads.json").read_text())
    assert written.keys() == heads(name).keys()
    for figure, values in heads(name).items():
        np.testing.assert_allclose(written[figure], values, atol=2e-3)
        layer, head = np.unravel_index(np.argmax(values), np.shape(values))
        row = rf"{figure}`[^\n]*{np.max(values):.2f}[^\n]*layer {layer}, head {head}"
        assert re.search(row, table_told(name)), figure


@of_each
def test_all_have_the_same_size(name):
    assert vm.load(name).transformer.n_parameters() == pytest.approx(4.3e6, rel=0.02)
