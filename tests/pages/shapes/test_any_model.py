"""A model of any size in numbers: bytes in the chosen precision, shares of a table, what fits."""

from dataclasses import replace

import pytest

from pages.shapes import any_model
from pages.shapes.layout import ADDED, letters, placed
from tests.support.page_parts import Noted
from viz_model.shapes.contract import block_nodes
from viz_model.shapes.presets import PRESETS
from viz_ui.look.text import size_words

GPT2 = PRESETS["GPT-2 small"]


@pytest.mark.parametrize("number_bytes", [2, 4])
def test_bytes_are_those_of_the_chosen_precision(monkeypatch, number_bytes):
    noted = Noted()
    monkeypatch.setattr(any_model, "st", noted)
    any_model.draw_numbers(GPT2, GPT2.config, 3, 1024, number_bytes)
    found = {name: (value, words) for (name, value, words), _ in noted.of("metric")}
    assert found["Parameters"] == ("124,439,808", size_words(124_439_808 * number_bytes))
    scores = 3 * 12 * 12 * 1024**2  # B·L·H·T²
    assert found["Score matrix, B·L·H·T²"] == (f"{scores:,}", size_words(scores * number_bytes))
    tokens, width, vocabulary = 3 * 1024, 768, 50257
    flops = 2 * tokens * (12 * 12 * width**2 + width * vocabulary) + 3 * 4 * 12 * 1024**2 * width
    assert found["FLOPs of one pass"][1] == f"{flops:,}"


def test_a_table_has_each_part_s_share_and_their_sum():
    lines = any_model.table("Parameters", {"one": 300, "two": 100}).splitlines()
    assert lines[2:] == ["| one | 300 | 75.0% |", "| two | 100 | 25.0% |", "| **total** | **400** | |"]
    assert any_model.amount(999_999_999) == "999,999,999"
    assert any_model.amount(10**9) == "1.000×10⁹"


@pytest.mark.parametrize(("heads", "part"), [(7, "109.71"), (256, "3")])
def test_why_heads_do_not_fit_is_said_with_the_numbers(monkeypatch, heads, part):
    noted = Noted()
    monkeypatch.setattr(any_model, "st", noted)
    llama = replace(PRESETS["Llama-7B"], config=replace(PRESETS["Llama-7B"].config))
    any_model.say_what_fits(llama if heads == 256 else GPT2, 768, heads)
    assert part in noted.words
    assert ("odd" in noted.words) == (heads == 256)


def test_what_the_encoder_of_bert_leaves_out_is_counted():
    bert = PRESETS["BERT-base"]
    said = any_model.encoder_words(bert, bert.config, 3)
    assert f"{2 * 3 * 768**2:,} FLOPs" in said
    assert f"{3 * 768:,} activations" in said
    assert any_model.encoder_words(GPT2, GPT2.config, 3) == ""


def test_the_stream_goes_from_half_to_half_through_its_plus_signs():
    nodes = block_nodes(GPT2.config, 0, 5)
    tensors, adds, edges = placed(nodes)
    places = {one.name: (one.half, one.row) for one in (*tensors, *adds)}
    assert places["resid_pre"] == (0, 0)
    assert places["resid_mid"] == (1, 0)
    assert places["attn.out"][0] == 0
    assert places["ffn.out"][0] == 1
    assert {add.name for add in adds} == {ADDED["attn.out"], ADDED["ffn.out"]}
    stream = [(edge.start, edge.end) for edge in edges if edge.stream]
    assert stream == [
        ("resid_pre", ADDED["attn.out"]), (ADDED["attn.out"], "resid_mid"),
        ("resid_mid", ADDED["ffn.out"]), (ADDED["ffn.out"], "resid_post"),
    ]  # fmt: skip
    columns = [(one.half, one.column, one.row) for one in (*tensors, *adds)]
    assert len(set(columns)) == len(columns), "two boxes in one place"
    spot = {one.name: one for one in tensors}
    assert spot["attn.q"].role == "query"
    assert spot["attn.k"].role == "key"


def test_the_legend_has_only_letters_with_a_number_and_the_words_of_the_part():
    words = {letter.letter: (letter.words, letter.number) for letter in letters({"T": 3, "S": 7, "F": 0}, "cross")}
    assert set(words) == {"T", "S"}
    assert "decoder" in words["T"][0]
    assert "source" in words["S"][0]
