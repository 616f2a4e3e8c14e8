"""All heads at a glance: their thumbnails and numbers, of stored and of derived matrices, and what they cost."""

import tracemalloc

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import viz_model as vm
from pages.heads import head_values
from pages.heads.grid import _pictures_of_layer
from tests.support.head_measures import loops
from viz_ui.look.thumbnails import of_all_layers, thumbnails
from viz_ui.parts.special_tokens import shown_tokens
from viz_ui.parts.weight_colours import WeightColours

PROMPT = "The queen gave the girl a ring, and she thanked her. " * 4


def page(prompt, name, stored_weights_bytes):
    import streamlit as st

    import viz_model as vm
    from pages.heads.grid import grid_pictures, measured
    from viz_ui.frame.view import View
    from viz_ui.parts.weight_colours import WeightColours

    model = vm.load("tiny-gpt")
    trace = model.trace(prompt, stored_weights_bytes=stored_weights_bytes)
    view = View(model, "tiny-gpt", prompt, None, trace, 0, 0, 0, 0)
    st.session_state.pictures = {
        full: grid_pictures(view, name, WeightColours("linear", is_own=not full), "shown") for full in (True, False)
    }
    st.session_state.measures = measured(view)


def written_out(matrix, allowed, low, high):
    """Steps of one thumbnail by the plain function, which has its own tests."""
    return thumbnails(matrix, low, high, allowed)[0]


@pytest.mark.parametrize("stored_weights_bytes", [0, 1 << 30])
@pytest.mark.parametrize("name", list(head_values.DRAWN))
def test_pictures_and_numbers_of_all_heads_are_those_of_each_head(name, stored_weights_bytes):
    state = (
        AppTest.from_function(page, default_timeout=120, args=(PROMPT, name, stored_weights_bytes)).run().session_state
    )
    trace, kind = vm.load("tiny-gpt").trace(PROMPT), head_values.DRAWN[name]
    mask = np.tri(trace.length, dtype=bool) if kind.masked else None
    for full, (small, seen) in state.pictures.items():
        assert small.shape == (4, 8, 32, 32)
        assert (seen is None) == (mask is None)
        for layer, head in np.ndindex(4, 8):
            matrix = head_values.values(trace, name, layer, head)
            largest = np.abs(matrix[np.isfinite(matrix)]).max()
            if name == head_values.WEIGHTS:  # query 0 has one key to read, and so always the weight 1
                largest = 1.0 if full else matrix[1:].max()
            low = 0 if kind.scale == "sequential" else -largest
            difference = small[layer, head].astype(int) - written_out(matrix, mask, low, largest)
            assert np.abs(difference).max() <= 1  # where a value lies between two steps
    for layer, head in ((0, 0), (3, 7)):
        for measure, value in loops(trace.weights(layer, head)).items():
            assert state.measures[measure][layer, head] == pytest.approx(value, abs=1e-4)


def test_a_long_prompt_holds_one_matrix_at_a_time(monkeypatch):
    monkeypatch.setattr("viz_model.model.trace.DERIVED_AT_ONCE_BYTES", 4 * 256 * 256)
    model = vm.load("tiny-gpt")

    def peak(stored_weights_bytes):
        trace = model.trace([*range(256)], stored_weights_bytes=stored_weights_bytes)
        tracemalloc.start()
        _pictures_of_layer(
            trace, shown_tokens(model, trace, "shown"), head_values.WEIGHTS, WeightColours("logarithmic"), 0
        )
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    matrix = 4 * 256 * 256
    assert peak(0) < 4 * matrix  # with what is made of it
    assert peak(1 << 30) > 8 * matrix


def test_layers_that_look_differently_far_are_hatched_each_in_its_own_way():
    near, far = np.eye(3, dtype=bool), np.tri(3, dtype=bool)
    assert of_all_layers([None, None], 2) is None
    np.testing.assert_array_equal(of_all_layers([far, far], 2), far)
    found = of_all_layers([near, far], 2)
    assert found.shape == (2, 2, 3, 3)
    np.testing.assert_array_equal(found[0, 1], near)
    np.testing.assert_array_equal(found[1, 0], far)
