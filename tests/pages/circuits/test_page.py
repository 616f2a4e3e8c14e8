"""The page Circuits: the numbers of `vm.circuits` for what is chosen, in sentences, lists, matrices and lines."""

import json
from base64 import b64decode

import numpy as np
import pytest
import streamlit as st
import torch

import viz_model as vm
from pages.circuits import measured
from pages.circuits.lines import LayerColumns, Place, clicked, pairs_of
from pages.circuits.tokens import token_of
from tests.reference.families import FAMILIES, save_small
from tests.support.app import address_of, drawn_matrices, opened
from viz_model.circuit.circuits import Circuits
from viz_ui.look.text import number, percent, shown

GPT = {"model": "tiny-gpt", "prompt": "Once upon a time there was a king.", "head": "1.0"}


def said(test):
    return "\n".join(element.value for element in (*test.markdown, *test.caption, *test.info, *test.subheader))


def built(model="tiny-gpt", part=None):
    return vm.circuits(vm.load(model), part)


def listed(test):
    """The lists of tokens: what is raised, lowered and looked for, in the order of the page."""
    return [table.value for table in test.dataframe if list(table.value.columns) == ["token", "number"]]


def chart(test, key):
    [one] = [element for element in test.main.get("plotly_chart") if element.proto.id.endswith(f"-{key}")]
    return json.loads(one.proto.spec)


def array(values):
    """What Plotly was given: a list, or numbers in base64."""
    if isinstance(values, dict):
        return np.frombuffer(b64decode(values["bdata"]), np.dtype(values["dtype"]))
    return np.array(values)


def test_it_opens_on_the_head_that_copies_most_and_says_so():
    test = opened("circuits", model="tiny-gpt", prompt=GPT["prompt"])
    found = built().measure_copying()
    assert address_of(test)["head"] == "1.0"
    assert drawn_matrices(test)["copying"][0] == pytest.approx(found.scores.numpy(), abs=1e-4)
    low, high = (number(float(end), 3) for end in (found.random[1].min(), found.random[1].max()))
    words = (
        f"**Layer 1, head 0** has the copying score **{number(float(found.scores[1, 0]))}**. It **raises** the tokens"
    )
    assert words in said(test)
    assert f"more than any of 32 random heads (scores from {low} to {high})." in said(test)
    assert f"For **{percent(built().raises_itself(1, 0))}** of all tokens" in said(test)
    values = chart(test, "eigenvalues")["data"][0]
    points = array(values["x"]) + 1j * array(values["y"])
    assert np.sort_complex(points) == pytest.approx(np.sort_complex(found.eigenvalues[1, 0].numpy()))


@pytest.mark.parametrize(("head", "words"), [("1.1", "It **lowers** the tokens"), ("0.2", "This says little")])
def test_a_head_is_compared_with_random_ones_before_it_is_called_anything(head, words):
    test = opened("circuits", **GPT | {"head": head})
    layer, place = map(int, head.split("."))
    assert f"has the copying score **{number(float(built().copying[layer, place]))}**. {words}" in said(test)
    assert address_of(test)["head"] == head


@pytest.mark.parametrize("typed", ["", " king", "·king", "#7"])
def test_the_lists_are_of_the_token_that_is_typed_or_of_the_query(typed):
    test = opened("circuits", **GPT, cell="4.2", circuit_token=typed)
    model, circuits = vm.load("tiny-gpt"), built()
    token = model.trace(GPT["prompt"]).ids[4] if not typed else 7 if typed == "#7" else model.ids(" king")[0]
    written, looked = circuits.writes(1, 0, token), circuits.looks_for(1, 0, token)
    for table, numbers, sign in zip(listed(test), (written, -written, looked), (1, -1, 1), strict=True):
        top = numbers.topk(10)
        assert list(table["number"]) == [number(sign * value) for value in top.values.tolist()]
        names = [shown(piece) for piece in model.token_bytes(top.indices.tolist())]
        marked = [f"{name} ← itself" * (at == token) or name for name, at in zip(names, top.indices, strict=True)]
        assert list(table["token"]) == marked
    assert f"itself has rank **{1 + int((written > written[token]).sum()):,}**." in said(test)
    assert f"itself has rank **{1 + int((looked > looked[token]).sum()):,}** of 4,353" in said(test)
    assert address_of(test).get("circuit_token", "") == typed


@pytest.mark.parametrize(("typed", "words"), [("two words", "tokens"), ("#9999", "9999")])
def test_what_is_no_token_is_said_and_the_rest_stays(typed, words):
    test = opened("circuits", **GPT, circuit_token=typed)
    [warning] = test.main.warning
    assert words in warning.value
    assert not listed(test)
    assert "The widest line leads from" in said(test)


def test_ids_are_tokens_of_a_model_without_a_tokenizer(tmp_path):
    save_small(FAMILIES["GPT-2"], tmp_path)
    model = vm.load(tmp_path)
    assert token_of(model, "#5") == token_of(model, "5") == 5


def test_a_previous_token_head_is_seen_without_a_prompt():
    test = opened("circuits", **GPT | {"head": "0.0"})
    assert "the highest score is at the key 1 position before the query" in said(test)
    drawn, allowed = drawn_matrices(test)["position_scores"][:2]
    scores = built().position_scores(0, 0, 48)
    for row in (3, 40):
        expected = scores[row, : row + 1] - scores[row, : row + 1].mean()
        np.testing.assert_allclose(drawn[row, : row + 1], expected, atol=2e-3)
        assert not allowed[row, row + 1 :].any()


def test_with_rotary_positions_scores_are_shown_by_distance_and_the_distance_is_chosen():
    address = {"model": "tiny-llama", "prompt": GPT["prompt"], "head": "0.1", "circuit_token": " king"}
    test, circuits = opened("circuits", **address, circuit_distance=3), built("tiny-llama")
    token = vm.load("tiny-llama").ids(" king")[0]
    looked = circuits.looks_for(0, 1, token, 3)
    assert list(listed(test)[2]["number"]) == [number(value) for value in looked.topk(10).values.tolist()]
    curves = [array(one["y"]) for one in chart(test, "score_by_distance")["data"]]
    for curve, other in zip(curves, (int(looked.argmax()), None), strict=True):
        np.testing.assert_allclose(curve, circuits.distance_scores(0, 1, token, len(curve), other), atol=1e-9)
    mean = circuits.distance_scores(0, 1, token, 128)
    assert f"the mean score of all keys is highest at a distance of **{int(mean.argmax())}**" in said(test)
    assert address_of(test)["circuit_distance"] == "3"
    assert "here the key stands 3 tokens before its query" in said(test)
    found = circuits.measure_composition("key", 3).over
    assert f"This line has the number **{number(float(found.nan_to_num(-1).max()))}**" in said(test)


@pytest.mark.parametrize("kind", ["query", "key", "value"])
def test_lines_are_the_strongest_pairs_and_what_is_left_out_is_said(kind):
    words = {"query": "queries", "key": "keys", "value": "values"}[kind]
    test = opened("circuits", **GPT, composition=words, lines=7)
    found = built().composition(kind)
    over = torch.sort(found[~found.isnan()], descending=True).values
    lines = [one for one in chart(test, "composition_lines")["data"] if one["mode"] == "lines"]
    assert len(lines) == 7
    widths = [line["line"]["width"] for line in lines]
    expected = 1.0 + 6.0 * over[:7].numpy() / float(over[0])
    assert sorted(widths, reverse=True) == pytest.approx(expected)
    table = test.dataframe[-1].value
    assert list(table["above the baseline"]) == [number(float(value)) for value in over[:7]]
    first, head, later, other = np.unravel_index(int(found.nan_to_num(-9).argmax()), found.shape)
    assert table["writes"][0] == f"layer {first}, head {head}"
    assert table["reads"][0] == f"layer {later}, head {other}"
    left_out = (
        f"No line is drawn for {len(over) - 7:,} more pairs. The largest number left out is {number(float(over[7]))}"
    )
    assert left_out in said(test)
    assert f"The baseline is {number(built().baseline(kind))}, the mean share of 32 pairs" in said(test)
    assert address_of(test).get("composition", "keys") == words


def test_the_chosen_head_is_told_whom_it_reads_and_who_reads_it_and_its_lines_can_stand_alone():
    test = opened("circuits", **GPT, own_lines="true", lines=100)
    found = built().composition("key").nan_to_num(-9)
    first, head = np.unravel_index(int(found[:, :, 1, 0].argmax()), found.shape[:2])
    words = f"read **layer {first}, head {head}** the most ({number(float(found[first, head, 1, 0]))})"
    assert words in said(test)
    later, other = np.unravel_index(int(found[1, 0].argmax()), found.shape[:2])
    assert f"What the chosen head writes is read most by **layer {later}, head {other}**" in said(test)
    table = test.dataframe[-1].value
    assert len(table) == 8 + 16
    assert all("layer 1, head 0" in pair for pair in zip(table["writes"], table["reads"], strict=True))
    test.button(key="look_at_0").click().run()
    assert address_of(test)["head"] == f"{first}.{head}"


def test_a_click_chooses_the_head_or_the_other_end_of_a_line():
    columns, here = LayerColumns("self", "self", (4, 4), 8), Place("self", 1, 0)
    assert clicked(columns, [2, 5, "layer 2, head 5"], here) == Place("self", 2, 5)
    assert clicked(columns, [0, 3, 1, 0, "a", "b", "0.1"], here) == Place("self", 0, 3)
    assert clicked(columns, [1, 0, 3, 2, "a", "b", "0.1"], here) == Place("self", 3, 2)
    assert clicked(columns, [0, 3, 2, 7, "a", "b", "0.1"], here) == Place("self", 2, 7)


@pytest.mark.parametrize(("kind", "source"), [("query", "decoder"), ("key", "encoder")])
def test_heads_of_cross_attention_read_those_of_the_stack_that_writes(kind, source):
    circuits = built("tiny-seq2seq", "cross")
    found = circuits.measure_composition(kind)
    pairs = pairs_of(found, "cross").first(10**6)
    assert len(pairs) == int(found.over.isfinite().sum())
    assert pairs[0][0].part == source
    assert pairs[0][2] == float(found.over.nan_to_num(-9).max())
    columns = LayerColumns(source, "cross", (found.over.shape[0], found.over.shape[2]), 4)
    for first, second, _ in pairs:
        assert columns.of(first)[0] < columns.of(second)[0], "lines lead from left to right"
        assert columns.at(*columns.of(second)) == second


@pytest.mark.parametrize("part", ["encoder", "decoder", "cross"])
def test_every_part_of_an_encoder_decoder(part):
    test = opened("circuits", model="tiny-seq2seq", prompt="3 May 2024", part=part)
    text = said(test)
    assert ("becomes no logit" in text) == (part == "encoder")
    assert ("has the copying score" in text) == (part != "encoder")
    assert "looks most for the key of" in text
    assert "Scores of positions alone" in str(drawn_matrices(test).keys()) or "position_scores" in drawn_matrices(test)
    assert "The widest line leads from" in text


@pytest.mark.parametrize("model", ["tiny-bert", "induction", "tiny-llama"])
def test_every_bundled_model(model):
    test = opened("circuits", model=model, prompt="the king")
    assert "has the copying score" in said(test)
    assert "The widest line leads from" in said(test)


@pytest.mark.parametrize(
    ("family", "sentence"),
    [
        ("BERT", "Before its unembedding this model (Bert) has the activation gelu"),
        ("DeepSeek-V3", "This model computes its values in its own way (DeepseekV3)"),
        ("Gemma 2", "Logits are taken before the model caps them"),
        ("BLOOM", "the mean score of all keys is highest at a distance of"),
        ("T5", "adds a bias to each score, which depends on the distance"),
    ],
)
def test_models_of_the_library(family, sentence, tmp_path):
    save_small(FAMILIES[family], tmp_path)
    test = opened("circuits", model=str(tmp_path), prompt="5 9 11 30", part="decoder" if family == "T5" else "self")
    assert sentence in said(test).replace("\\", "")
    assert ("The widest line leads from" in said(test)) == (family != "DeepSeek-V3")


def test_one_layer_has_no_lines(tmp_path):
    save_small(FAMILIES["DistilGPT-2"], tmp_path)
    assert "needs at least two layers" in said(opened("circuits", model=str(tmp_path), prompt="5 9 11"))


def test_what_is_of_the_weights_is_measured_once_for_all_visitors_and_prompts(monkeypatch):
    st.cache_resource.clear()
    parts, measure = [], Circuits.measure_copying

    def counted(circuits, **choices):
        parts.append(circuits.part)
        return measure(circuits, **choices)

    monkeypatch.setattr(Circuits, "measure_copying", counted)
    opened("circuits", **GPT)
    opened("circuits", **GPT | {"prompt": "Another prompt.", "head": "2.3", "mask": "bidirectional"})
    assert parts == ["self"]
    for part in ("decoder", "cross"):
        opened("circuits", model="tiny-seq2seq", prompt="3 May 2024", part=part)
    assert parts == ["self", "decoder", "cross"]


def test_a_large_model_is_measured_as_a_job_that_can_be_stopped_and_then_kept(monkeypatch):
    st.cache_resource.clear()
    monkeypatch.setattr(measured, "is_small", lambda _: False)
    jobs, finished = [], measured.finished

    def counted(work, **choices):
        jobs.append(choices["words"])
        return finished(work, **choices)

    monkeypatch.setattr(measured, "finished", counted)
    test = opened("circuits", **GPT)
    assert [words.split(" ")[0] for words in jobs] == ["Reading", "Multiplying"]
    assert "has the copying score" in said(test)
    assert "The widest line leads from" in said(test)
    opened("circuits", **GPT)
    assert len(jobs) == 2, "what is kept takes no job"


@pytest.mark.parametrize("model", ["tiny-gpt", "tiny-llama"])
def test_all_numbers_of_tokens_and_positions_say_that_biases_are_left_out(model):
    """tiny-gpt has biases of queries and keys, which change the order of both."""
    test = opened("circuits", **GPT | {"model": model})
    assert sum("so are all biases" in words for words in said(test).splitlines()) == 2
