"""What is opened large and saved is what the page shows, by whatever equation the model has."""

import numpy as np
import pytest
from scipy.special import softmax

import viz_model as vm
from tests.reference.families import FAMILIES, save_small
from tests.support.app import at, ids, opened
from tests.support.page_parts import view_of
from tests.support.small_models import small_model
from tests.support.transformers_tiny_gpt import attentions, queries_keys_values
from viz_ui.frame.view import View
from viz_ui.parts import open_matrix

PROMPT, LAYER, HEAD = "The queen gave the girl a ring.", 2, 5


@pytest.fixture
def opened_values(monkeypatch):
    """The values of every matrix that was opened large."""
    seen = []
    monkeypatch.setattr(open_matrix, "matrix_dialog", lambda values, *_, **__: seen.append(values))
    return seen


def test_every_matrix_opens_with_the_values_of_another_implementation(opened_values):
    test = opened("inside_a_head", **at(prompt=PROMPT, layer=LAYER, head=HEAD))
    q, k, v = queries_keys_values(ids(PROMPT), LAYER, HEAD)
    permitted, weights = np.tri(len(q), dtype=bool), attentions(ids(PROMPT))[LAYER, HEAD]
    raw = q @ k.T
    expected = {"q": q, "k": k, "v": v, "raw": raw, "scores": raw / np.sqrt(q.shape[1]), "weights": weights}
    expected["masked"] = np.where(permitted, expected["scores"], -np.inf)  # −∞ of scores alone: a masked weight is 0
    expected["mixed"] = weights @ v
    for name, values in expected.items():
        test.session_state["matrix_to_open"] = name
        test.run()
        assert not test.exception, test.exception
        [found] = opened_values
        np.testing.assert_allclose(found, values, atol=2e-4, rtol=1e-4, err_msg=name)
        opened_values.clear()


@pytest.mark.parametrize("family", ["GPT-2", "Granite", "Llama"])  # scales of 1/√D over the layer, of 0.2, of 1/√D
def test_the_arrays_of_a_head_multiply_out(family, tmp_path):
    save_small(FAMILIES[family], tmp_path)
    model, read = vm.load(tmp_path), (3, 1, 4, 1, 5)
    arrays = open_matrix.head_arrays(View(model, "small", read, None, model.trace(list(read)), 1, 3, 4, 0))
    raw = arrays["q"] @ arrays["k"].T
    np.testing.assert_allclose(arrays["raw"], raw, atol=1e-4)
    np.testing.assert_allclose(arrays["scores"], raw * arrays["scale"], atol=1e-4)
    weights = softmax(np.where(arrays["mask"], raw * arrays["scale"], -np.inf), axis=1)
    np.testing.assert_allclose(arrays["weights"], weights, atol=1e-5)
    np.testing.assert_allclose(arrays["mixed"], weights @ arrays["v"], atol=1e-4)


def test_the_tokens_in_a_file_are_those_of_the_queries_and_of_the_keys():
    """Each row of q is of a token, each row of k and v of a key token, also where these are of two texts."""
    source, target = (5, 9, 11, 9, 4), (3, 7, 2)
    pair = vm.Model("pair", small_model(layout="encoder-decoder", n_encoder_layers=3))
    for part, queries, keys in (("encoder", source, source), ("decoder", target, target), ("cross", target, source)):
        arrays = open_matrix.head_arrays(view_of(pair, source, target=target, part=part, layer=1, head=2))
        for name, read in (("", queries), ("key_", keys)):
            assert arrays[f"{name}ids"] == list(read)
            assert arrays[f"{name}tokens"] == [f"{place} <{token}>" for place, token in enumerate(read)]
        assert [len(arrays[name]) for name in "qkv"] == [len(queries), len(keys), len(keys)]
        assert arrays["weights"].shape == arrays["mask"].shape == (len(queries), len(keys))
