"""What is said while a pass runs."""

from contextlib import nullcontext

import pytest

import viz_model as vm
from viz_ui import view


@pytest.mark.parametrize("tokens", [1, 5, 6])
def test_a_pass_shows_that_it_runs_from_about_a_second_on(tokens, monkeypatch):
    """Two operations a parameter and token (Kaplan et al. 2020, “Scaling Laws”, §2.1)."""
    model = vm.load("tiny-gpt")
    five = 2 * sum(weight.numel() for weight in model.transformer.parameters()) * 5
    monkeypatch.setattr(view, "A_SECOND_OF_OPERATIONS", five)
    said = []
    monkeypatch.setattr(view.st, "spinner", lambda words, **_: said.append(words) or nullcontext())
    with view.sign_of_a_pass(model, (7,) * tokens):
        assert said == ["tiny\\-gpt reads the prompt …"] * (tokens >= 5)
