"""What pages say of models whose attention is not GPT-2's: formulas, rotation, longer texts, cached logits."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import logging

from pages.generate.run import Run
from pages.masks.sides import Side
from pages.masks.token_change import _finding
from tests.reference.families import BERT, FAMILIES, LLAMA, _causal, save_small
from tests.support.app import blobs_of, opened, panels_blob
from tests.support.blobs import received
from viz_model.masking.choice import MaskChoice
from viz_ui.components.shared.packing import unpack

PROMPT = "5 9 11 9 11 30 44 7 8 9 11 20"
MODELS = FAMILIES | {
    "GPT-NeoX, a quarter": _causal(
        "gpt_neox",
        {**BERT, "hidden_size": 48, "num_attention_heads": 3},
        rope_parameters={"rope_theta": 10000.0, "partial_rotary_factor": 0.25},
    ),
    "Llama, linear": _causal(
        "llama", LLAMA, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    ),
}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    logging.set_verbosity_error()
    made = {}

    def get(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("model")
            save_small(MODELS[name], made[name])
        return str(made[name])

    return get


def on(page, folder, **choices):
    return opened(page, **({"model": folder, "prompt": PROMPT, "layer": 1, "head": 1, "query": 3, "key": 1} | choices))


def headers(test, having):
    found = [unpack(blob)[0] for blob in blobs_of(test)]
    return [header for header in found if having in header]


def said(test):
    return "\n".join([*(one.value for one in test.markdown), *(one.value for one in test.caption)]).replace("\\", "")


@pytest.mark.parametrize(
    ("name", "turning", "words"),
    [
        ("GPT-NeoX, a quarter", 2, "only the first 4 of the 16 numbers of a head turn"),
        ("Llama, linear", 3, "This model scales its angles"),
        ("Gemma 3", 5, "θ = base^(−2p/D) with base"),
    ],
)
def test_a_part_that_turns_and_scaled_angles_are_drawn(name, turning, words, folder_of):
    test = on("positions", folder_of(name), positions="Rotation")
    (drawn,) = headers(test, "pairs")
    assert sum(pair["theta"] > 0 for pair in drawn["pairs"]) == turning
    assert words in said(test)
    assert "needs" not in said(test)


def test_longer_texts_of_a_model_without_a_tokenizer_are_another_model_s(folder_of):
    assert "This section shows tiny-llama" in said(
        on("positions", folder_of("Llama"), positions="Longer texts", past_times="512")
    )


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("Gemma 2", r"3\tanh\left(\frac{0.378"),
        ("gpt-oss", r"\middle|\; s"),
        ("Granite", r"0.2\,"),
        ("GPT-Neo", r"\mathrm{softmax}\left(\textcolor{#0069A3}{Q} \textcolor{#AD4B00}{K}^{\top} + M"),
        ("BLOOM", r"\sqrt{D}} + b + M"),
    ],
)
def test_headlines_are_the_equation_of_the_model(name, formula, folder_of):
    for page in ("inside_a_head", "shape_reference"):
        assert any(formula in one.value for one in on(page, folder_of(name)).latex), page
    assert any(formula in one.value for one in on("masks", folder_of(name)).markdown)


@torch.inference_mode()
@pytest.mark.parametrize("name", ["BLOOM", "MPNet", "T5"])
def test_a_distance_bias_is_drawn(name, folder_of):
    test = on("positions", folder_of(name), positions="Distance bias", **({"part": "encoder"} if name == "T5" else {}))
    blob = panels_blob(test)
    drawn, allowed = received(blob)["bias"]
    model = MODELS[name].kind.from_pretrained(folder_of(name), attn_implementation="eager")
    apart = np.arange(12)[None, :] - np.arange(12)[:, None]
    if name == "BLOOM":
        expected = 2.0**-4 * apart  # of head 1 of 6
        assert "m_h = 0.0625" in said(test)
        assert test.dataframe[0].value["slope"].tolist()[:2] == ["0.2500", "0.06250"]
    elif name == "MPNet":
        bias = model.mpnet.encoder.compute_position_bias(torch.zeros(1, 12, 1))[0, 1].numpy()
        expected = bias - bias.diagonal()[:, None]
        assert "also adds a row for each position" in said(test)
    else:
        bias = model.encoder.block[0].layer[0].SelfAttention.compute_bias(12, 12)[0, 1].numpy()
        expected = bias - bias.diagonal()[:, None]
    np.testing.assert_allclose(drawn[allowed], expected[allowed], atol=1e-6)
    np.testing.assert_array_equal(allowed, apart <= 0 if name == "BLOOM" else np.ones((12, 12), dtype=bool))


def test_a_model_without_a_bias_has_no_section_of_it(folder_of):
    test = on("positions", folder_of("Llama"), positions="Distance bias")
    assert "Distance bias" not in test.button_group(key="positions").options
    assert "Does attention know the order of words?" in said(test)


def test_layers_that_share_parameters_are_counted_once(folder_of):
    test = on("quantization", folder_of("ALBERT"))
    of_group = 4 * 36 * 36 + 2 * 36 * 44
    assert f"**{2 * of_group:,} weights** take" in said(test)
    assert "Several layers have the same parameters." in "\n".join(one.value for one in test.sidebar.caption)


PAGES = ("heads", "inside_a_head", "shapes", "masks", "generate", "training", "flash_attention", "quantization",
         "misconceptions", "shape_reference")  # fmt: skip
REST = ("GPT-Neo", "Falcon", "Falcon, grouped", "Falcon, ALiBi", "MPT", "MPNet")
OWN_CODE = ["BLOOM", "ALBERT", *(pytest.param(name, marks=pytest.mark.slow) for name in REST)]


@pytest.mark.parametrize("name", OWN_CODE)
def test_every_page_opens_with_a_family_whose_attention_is_its_own(name, folder_of):
    """Also with one token, whose ALiBi is 0."""
    for page in PAGES:
        for prompt in (PROMPT, "5") if page in ("heads", "inside_a_head") else (PROMPT,):
            test = on(page, folder_of(name), prompt=prompt)
            assert not test.error, page
            assert test.main.get("bidi_component") or test.info or test.latex, page


def test_rounding_before_a_changed_token_is_said_to_be_that():
    side = Side("A", MaskChoice("causal"), torch.ones(9, 9, dtype=torch.bool), "")
    change = np.zeros((3, 9))
    change[1, 2] = 2.552e-7
    assert "only rounding changed the vectors, by at most **2.552×10⁻⁷** of their length" in _finding(side, change, 6)
    change[1, 2] = 2e-3
    assert "**1 of the 6** positions before position 6 changed" in _finding(side, change, 6)


def test_logits_that_a_cache_changes_are_said_first(monkeypatch, folder_of):
    test = on("generate", folder_of("Llama"), new=3)
    assert not test.warning
    original = Run._make_step

    def differing(self):
        original(self)
        self.steps[-1] = replace(self.steps[-1], largest_difference=2.7)

    monkeypatch.setattr(Run, "_make_step", differing)
    test = on("generate", folder_of("Llama"), new=3, seed=1)
    assert "the logits differ by 2.7" in test.warning[0].value


@pytest.mark.parametrize(("name", "formula"), [("gpt-oss", r"QKᵀ/√D"), ("Gemma 2", r".*tanh.*"), ("T5", "QKᵀ")])
def test_tiles_begin_with_the_sink_and_are_named_by_the_model_s_own_scores(name, formula, folder_of):
    test = on("flash_attention", folder_of(name))
    (drawn,) = headers(test, "tiles")
    sink = test.session_state.view.trace.sink(1, 1)
    assert (sink is not None) == (name == "gpt-oss")
    assert drawn["start"] == ([None, 0.0] if sink is None else [pytest.approx(sink.item()), 1.0])
    assert re.fullmatch(formula, drawn["score_formula"])


@pytest.mark.parametrize(
    ("name", "words"),
    [("Gemma 2", "30·tanh(x/30)"), ("BERT", "this model has one more matrix, the function gelu, and a norm")],
)
def test_what_stands_behind_the_final_hidden_state_is_said_where_a_logit_is_taken_apart(name, words, folder_of):
    test = on("prediction", folder_of(name))
    assert words in said(test)
    assert re.search(r"Remainder: \*\*−?[0-9.]+×10⁻", "\n".join(one.value for one in test.markdown))
