"""The page Prediction: the lens, the curves and the terms are those of the trace, and choices are in the address."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import viz_model as vm
from pages.prediction import lens
from pages.prediction.sources import MOST_COLUMNS, MOST_HEADS, strongest
from tests.support.app import PROMPTS, address_of, drawn_matrices, opened
from tests.support.blobs import opened_large
from viz_ui.components.shared.packing import unpack
from viz_ui.look.text import number

PROMPT = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"
LAST = {"model": "tiny-gpt", "prompt": PROMPT, "head": "3.0", "cell": "20.0"}


def said(test):
    kinds = (*test.markdown, *test.caption, *test.info, *test.warning, *test.subheader)
    return "\n".join(element.value for element in kinds)


def trace():
    return vm.load("tiny-gpt").trace(PROMPT)


def drawn_words(test):
    """Header and numbers (kinds,L,T) that the lens is drawn from."""
    for element in test.main.get("bidi_component"):
        header, body = unpack(element.proto.bytes)
        if "words" in header:
            shape = len(header["kinds"]), len(header["words"]), len(header["words"][0])
            return header, np.frombuffer(body[:-768], np.float32).reshape(shape)
    raise AssertionError("there is no lens")


def test_the_cells_of_the_lens_are_the_likeliest_tokens_of_each_layer():
    test = opened("prediction", **LAST | {"lens": "distance to the output"})
    header, numbers = drawn_words(test)
    model, expected = vm.load("tiny-gpt"), [trace().lens(layer, 7).double().softmax(-1) for layer in range(4)]
    words = [piece.decode().replace(" ", "·") for piece in model.token_bytes([int(one.argmax()) for one in expected])]
    assert [row[7] for row in header["words"]] == words
    assert header["kinds"] == ["KL(output‖layer), bits", "probability", "entropy, bits"]
    apart = [float((expected[-1] * (expected[-1] / one).log2()).sum()) for one in expected]
    np.testing.assert_allclose(numbers[0, :, 7], apart, atol=1e-4)
    np.testing.assert_allclose(numbers[1, :, 7], [float(one.max()) for one in expected], atol=1e-6)
    assert (header["chosen"], header["before"], header["after"]) == ([3, 20], 0, 0)
    assert header["high"] == pytest.approx(numbers[0].max())
    values, _, others = opened_large(test, "lens")[:3]
    assert "tiny-gpt" in values
    assert others is not None


def test_the_likeliest_tokens_of_a_layer_are_those_of_the_lens():
    for layer in (1, 3):
        test = opened("prediction", **LAST | {"head": f"{layer}.0"})
        table, shares = test.dataframe[0].value, trace().lens(layer, 20).double().softmax(-1)
        column = "output" if layer == 3 else "after layer 1"
        assert table[column].tolist() == pytest.approx(shares.topk(10).values.tolist(), abs=1e-6)
    assert table["token"][0] == "·old"
    assert "**In the output**, the likeliest token after 20 ·the is “**·old**”" in said(test)


def test_of_more_logits_than_a_second_bears_the_columns_around_the_query_are_shown(monkeypatch):
    monkeypatch.setattr(lens, "MOST_LOGITS", 1)
    test = opened("prediction", **LAST | {"cell": "9.0"})
    header, numbers = drawn_words(test)
    assert (header["chosen"], header["before"], header["after"]) == ([3, 1], 8, 5)
    assert header["columns"]["labels"][1] == "9 ·old"
    assert "Of 21 tokens, 8 to 15 are shown" in said(test)
    assert numbers[0, 2, 1] == pytest.approx(float(trace().lens(2, 9).softmax(-1).max()), abs=1e-6)


@pytest.mark.parametrize(
    ("address", "than"), [({}, "mean"), ({"logit_than": "nothing"}, None), ({"logit_than": "another token"}, "second")]
)
def test_the_logit_is_the_sum_of_its_terms(address, than):
    test, top = opened("prediction", **LAST, **address), trace().logits.topk(2).indices.tolist()
    than = top[1] if than == "second" else than
    terms, shares = trace().logit_terms(top[0], 20, than), trace().logit_sources(top[0], 20, than).terms.numpy()
    assert f"The logit of “**·old**” is **{number(terms.logit)}**" in said(test)
    best = int(terms.terms.argmax())
    assert f"**{terms.names[best].capitalize()}** raises it most: {number(float(terms.terms[best]))}" in said(test)
    assert f"The same number from the model's own logits: **{number(terms.logit)}**. Remainder: **" in said(test)
    assert {name: address_of(test).get(name) for name in address} == address
    drawn, heads = drawn_matrices(test), drawn_matrices(test)["head_terms"][0]
    np.testing.assert_allclose(heads.ravel(), shares.sum(1), atol=1e-6)
    np.testing.assert_allclose(drawn["sources"][0], strongest(shares).values, atol=1e-6)
    assert drawn["sources"][0].sum() == pytest.approx(heads.sum(), abs=1e-5)
    assert drawn["sources"][0].shape == (MOST_HEADS, 21)


def test_any_token_can_be_asked_for_and_is_in_the_address():
    model = vm.load("tiny-gpt")
    [king], [queen] = model.ids(" king"), model.ids(" queen")
    address = {"token": "·king", "logit_than": "another token", "than_token": f"#{queen}", "tokens": ["·king", "."]}
    test = opened("prediction", **LAST, **address)
    assert {name: address_of(test)[name] for name in address} == address
    terms = trace().logit_terms(king, 20, queen)
    assert f"**{number(abs(terms.logit))}**" in said(test)
    assert "that of “**·queen**”" in said(test)
    found = trace().lens_of([king, *model.ids(".")], 20)
    assert f"“**·king**”: rank {int(found.rank[3, 0]):,} of 4,353 after layer 3" in said(test)
    chart = next(json.loads(one.proto.spec) for one in test.main.get("plotly_chart") if "log" in one.proto.spec)
    assert [line["name"] for line in chart["data"]] == ["“·king”", "“.”"]
    [box] = [one for one in test.selectbox if one.key == "token"]
    box.set_value(None).run()
    assert "token" not in address_of(test)
    assert "The logit of “**·old**” is" in said(test)


def test_what_is_no_token_is_said_and_the_likeliest_stays():
    test = opened("prediction", **LAST, token="kingdom of nowhere", tokens=["x y z", "·old"])
    assert not test.exception
    assert r"“kingdom of nowhere” is 5 tokens of tiny\-gpt" in said(test)
    assert "The logit of “**·old**” is" in said(test)
    assert "“**·old**”: rank 1 of" in said(test)
    assert "type “**·king**”" in said(opened("prediction", **LAST, token="king"))


def test_a_masked_token_model_names_the_token_that_is_hidden():
    """The chosen token, where the prompt hides none; else the one that it hides is chosen."""
    model, text = vm.load("tiny-bert"), "The old king had a ring."
    address = {"model": "tiny-bert", "prompt": text, "head": "3.0", "cell": "2.0"}
    ids = model.ids(text)
    for hide, shown in (("true", [*ids[:2], model.mask_token, *ids[3:]]), ("false", ids)):
        test = opened("prediction", **address, hide=hide)
        top = model.trace(shown).logits_at(2).double().softmax(-1).topk(10)
        assert test.dataframe[0].value["output"].tolist() == pytest.approx(top.values.tolist(), abs=1e-6)
        assert ("&lt;" in said(test) or "<" in said(test)) == (hide == "true")
    assert address_of(test)["hide"] == "false"


def test_an_edit_is_made_in_the_pass_with_the_hidden_token_too():
    model, text = vm.load("tiny-bert"), "The old king had a ring."
    address = {"model": "tiny-bert", "prompt": text, "head": "3.0", "cell": "2.0", "edits": "scale:0.3:4"}
    ids = model.ids(text)
    hidden = model.trace([*ids[:2], model.mask_token, *ids[3:]], edits=[vm.ScaleHead(0, 3, 4)])
    table = opened("prediction", **address).dataframe[0].value
    top = hidden.logits_at(2).double().softmax(-1).topk(10).values
    assert table["output"].tolist() == pytest.approx(top.tolist(), abs=1e-6)


def test_what_an_edit_put_into_a_head_is_a_column_of_its_own():
    edit = vm.SetValues(1, 0, "The old king had a ring.")
    test = opened("prediction", **LAST | {"edits": edit.written})
    found = vm.load("tiny-gpt").trace(PROMPT, edits=[edit])
    shares = found.logit_sources(int(found.logits.argmax()), 20, "mean")
    drawn = drawn_matrices(test)["sources"][0]
    assert drawn.shape == (MOST_HEADS, 22)
    assert drawn[:, -1].sum() == pytest.approx(float(shares.of_no_token.sum()), abs=1e-5)
    assert "comes from no token of the text and is counted as “no token”" in said(test)
    assert "no token" not in said(opened("prediction", **LAST))


def test_the_strongest_rows_and_columns_and_what_is_left():
    terms = np.random.default_rng(0).normal(size=(20, 40))
    terms[3], terms[:, 7] = 9.0, 5.0
    cut = strongest(terms)
    assert cut.values.shape == (MOST_HEADS, MOST_COLUMNS)
    assert cut.rows[0] == 3
    assert 7 in cut.columns
    assert list(cut.columns) == sorted(cut.columns)
    np.testing.assert_allclose(cut.values[:-1].sum(1), terms[list(cut.rows)].sum(1))
    np.testing.assert_allclose(cut.values[:, :-1].sum(0), terms[:, list(cut.columns)].sum(0))
    assert cut.values.sum() == pytest.approx(terms.sum())
    few = strongest(terms[:4, :5])
    np.testing.assert_array_equal(few.values, terms[list(few.rows), :5])


@pytest.mark.parametrize(
    ("facts", "tokens", "words"),
    [
        ({"layout": "decoder-only", "tied_unembedding": True}, [5, 9, 7], "2 of 3 columns.*same numbers as its emb"),
        ({"layout": "decoder-only", "tied_unembedding": False}, [5, 9, 7], "2 of 3 columns.*numbers of its own"),
        (
            {"layout": "encoder-only", "tied_unembedding": True},
            [5, 6, 8],
            "1 of 3 columns.*the token that stands in the column",
        ),
        ({"layout": "decoder-only", "tied_unembedding": True}, [6, 7, 8], "^$"),
        ({"layout": "decoder-only", "tied_unembedding": True}, [5, 6, 8], "^$"),  # one of three may be chance
    ],
)
def test_why_the_first_row_repeats_the_prompt(facts, tokens, words):
    view = SimpleNamespace(model=SimpleNamespace(config=SimpleNamespace(**facts)), trace=SimpleNamespace(ids=[5, 9, 3]))
    found = SimpleNamespace(tokens=torch.tensor([tokens, [1, 2, 3]]))
    assert re.search(words, lens.why_repeated(view, found, range(3)))


@pytest.mark.parametrize(
    ("model", "prompt", "more", "sentence"),
    [
        ("tiny-llama", PROMPTS["emoji"], {}, "the lens repeats the token of its column"),
        ("tiny-bert", "The king had a ring.", {}, "this model names the token that stands in the column"),
        ("induction", "abcabc", {}, "Remainder"),
        ("tiny-gpt", "a", {}, "Remainder"),
        ("tiny-gpt", PROMPTS["200 words"], {"lens": "entropy"}, "Remainder"),
        ("tiny-seq2seq", "5/3/24 (US)", {"part": "cross"}, "cross-attention head"),
        ("tiny-seq2seq", "5/3/24 (US)", {"part": "decoder"}, "The head adds"),
        ("tiny-seq2seq", "5/3/24 (US)", {"part": "encoder"}, "The encoder predicts no tokens"),
    ],
)
def test_every_kind_of_model_and_prompt(model, prompt, more, sentence):
    assert sentence in said(opened("prediction", model=model, prompt=prompt, **more))
