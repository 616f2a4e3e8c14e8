"""The page Prediction: the lens and the terms are those of the trace, and what a reader chooses is in the address."""

import pytest

import viz_model as vm
from tests.support.app import PROMPTS, address_of, opened
from viz_ui.look.text import number

PROMPT = "The red fox met a grey goose by the old mill. The red fox met a grey goose by the"
LAST = {"model": "tiny-gpt", "prompt": PROMPT, "head": "3.0", "cell": "20.0"}


def said(test):
    return "\n".join(element.value for element in (*test.markdown, *test.caption, *test.info, *test.subheader))


def trace():
    return vm.load("tiny-gpt").trace(PROMPT)


def test_the_likeliest_tokens_of_a_layer_are_those_of_the_lens():
    for layer in (1, 3):
        table = opened("prediction", **LAST | {"head": f"{layer}.0"}).dataframe[0].value
        shares = trace().lens(layer, 20).softmax(-1)
        assert table["after this layer"].tolist() == pytest.approx(shares.topk(10).values.tolist(), abs=1e-5)
    assert table["after this layer"].tolist() == pytest.approx(table["in the output"].tolist(), abs=1e-5)
    assert table["token"][0] == "·old"


@pytest.mark.parametrize(
    ("address", "than"), [({}, "mean"), ({"logit_than": "nothing"}, None), ({"logit_than": "another token"}, "second")]
)
def test_the_logit_is_the_sum_of_its_terms(address, than):
    test, top = opened("prediction", **LAST, **address), trace().logits.topk(2).indices.tolist()
    terms = trace().logit_terms(top[0], 20, top[1] if than == "second" else than)
    assert f"The logit of **·old** is **{number(terms.logit)}**" in said(test)
    best = int(terms.terms.argmax())
    assert f"**{terms.names[best]}** raises it most: {number(float(terms.terms[best]))}" in said(test)
    assert f"compared in the same way: **{number(terms.logit)}**. Remainder: **" in said(test)
    assert {name: address_of(test).get(name) for name in address} == address


@pytest.mark.parametrize(
    ("model", "prompt", "more", "sentence"),
    [
        ("tiny-llama", PROMPTS["emoji"], {}, "Remainder"),
        ("tiny-bert", "The king had a ring.", {}, "Remainder"),
        ("induction", "abcabc", {}, "Remainder"),
        ("tiny-gpt", "a", {}, "Remainder"),
        ("tiny-gpt", PROMPTS["200 words"], {"lens": "entropy"}, "are shown, around the chosen query"),
        ("tiny-seq2seq", "5/3/24 (US)", {"part": "cross"}, "Remainder"),
        ("tiny-seq2seq", "5/3/24 (US)", {"part": "encoder"}, "The encoder predicts no tokens"),
    ],
)
def test_every_kind_of_model_and_prompt(model, prompt, more, sentence):
    assert sentence in said(opened("prediction", model=model, prompt=prompt, **more))
