"""Inside a head says why a cell has its score: the terms of the running model, and where they lead."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import viz_model as vm
from tests.support.app import address_of, opened
from viz_ui.look.text import number
from viz_ui.parts.term_bars import largest

TWICE = "The red fox met a grey goose. The red fox met a"
WHY = {"cell_shows": "why this score"}
INDUCTION = {"model": "tiny-gpt", "prompt": TWICE, "head": "1.0", "cell": "10.3", **WHY}  # “ fox” reads “ met”


def said(test):
    return "\n".join(element.value for element in test.markdown)


def trace():
    return vm.load("tiny-gpt").trace(TWICE)


def test_it_says_what_adds_most_and_that_all_terms_add_up():
    test = opened("inside_a_head", **INDUCTION)
    terms = trace().score_terms(1, 0, 10, 3, than="row")
    assert f"The score is **{number(terms.score)}** above the mean score of the keys that the query may read." in said(
        test
    )
    best = terms.names_key[int(terms.of_key.argmax())]
    assert best == "layer 0, head 0"
    assert f"The largest part is that of **{best}**: {number(float(terms.of_key.max()))}." in said(test)
    assert f"The same number from the matrix of scores: **{number(terms.score)}**" in said(test)


@pytest.mark.parametrize(
    ("address", "than", "words"),
    [({"than": "nothing"}, None, "**."), ({"than": "another key", "than_key": 6}, 6, "above the score of key 6.")],
)
def test_what_the_score_is_compared_with_stands_in_the_address(address, than, words):
    test = opened("inside_a_head", **INDUCTION, **address)
    terms = trace().score_terms(1, 0, 10, 3, than=than)
    sentence = next(text for text in said(test).splitlines() if text.startswith("The score is"))
    assert number(terms.score) in sentence
    assert words in sentence
    assert {name: address_of(test).get(name) for name in address} == {k: str(v) for k, v in address.items()}


def test_the_head_that_wrote_it_is_one_click_away():
    """From the induction head to the head of layer 0 that reads the token before."""
    test = opened("inside_a_head", **INDUCTION)
    weight = number(float(trace().weights(0, 0)[3, 2]), 2)
    assert f"At token 3, this head reads token **2 ·fox** most, with the weight {weight}." in said(test)
    test.button(key="why_open_key").click().run()
    assert not test.exception
    assert (address_of(test)["head"], address_of(test)["cell"]) == ("0.0", "3.2")


def test_the_head_that_wrote_it_is_switched_off_in_one_click():
    test = opened("inside_a_head", **INDUCTION)
    test.button(key="why_off_key").click().run()
    assert not test.exception
    assert test.title[0].value == "Switch off"
    assert (address_of(test)["head"], address_of(test)["cell"]) == ("0.0", "3.2")


def test_it_is_worked_out_where_it_is_looked_at_and_nowhere_else(monkeypatch):
    """Also on Heads, below the same cell."""
    asked = []
    real = vm.Trace.score_terms
    monkeypatch.setattr(vm.Trace, "score_terms", lambda *given, **named: asked.append(given) or real(*given, **named))
    for page in ("heads", "inside_a_head"):
        opened(page, **{**INDUCTION, "cell_shows": "step by step"})
        assert not asked
        test = opened(page, **INDUCTION)
        assert len(asked) == 1
        assert "Of all heads, **layer 0, head 0** adds most on the key's side" in said(test)
        asked.clear()


def test_terms_of_a_large_model_are_worked_out_beside_the_page(monkeypatch):
    """With a bar and a stop; what is drawn is the same."""
    plain, asked = said(opened("inside_a_head", **INDUCTION)), []

    def tell(done=0, total=None, words=""):
        asked.append((done, total))

    def finished(work, **named):
        asked.append(named["name"])
        return work(SimpleNamespace(tell=tell))

    monkeypatch.setattr("viz_ui.parts.why_here.is_small", lambda _: False)
    monkeypatch.setattr("viz_ui.frame.jobs.finished", finished)
    assert said(opened("inside_a_head", **INDUCTION)) == plain
    assert asked == ["why_here", (0, 11)], "of the 11 keys that query 10 may read"


def test_a_cell_that_the_head_hardly_reads_leads_to_one_that_tells():
    test = opened("inside_a_head", **{**INDUCTION, "cell": "10.5"})
    assert "This head hardly reads this key" in said(test)
    test.button(key="why_telling").click().run()
    assert address_of(test)["cell"] == "11.4", "the next token of what comes again"
    assert "hardly" not in said(test)


@pytest.mark.parametrize("than", ["the mean of its row", "nothing", "another key"])
@pytest.mark.parametrize(
    ("model", "prompt", "more"),
    [
        ("tiny-llama", "a", {}),
        ("tiny-bert", "The king", {"cell": "0.1"}),
        ("induction", "abab", {"head": "1.1"}),
        ("tiny-seq2seq", "5/3/24 (US)", {"part": "cross", "head": "1.2"}),
        ("tiny-seq2seq", "5/3/24 (US)", {"part": "encoder"}),
    ],
)
def test_every_kind_of_model_says_it(model, prompt, more, than):
    test = opened("inside_a_head", model=model, prompt=prompt, **WHY, than=than, pairs="true", **more)
    found = re.search(r"Remainder: \*\*(.*?)\*\*", said(test))[1]
    value = float(re.sub(r"×10(.*)", lambda m: "e" + m[1].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")), found)
                  .replace("−", "-").replace(",", ""))  # fmt: skip
    assert abs(value) < 1e-4


def test_the_largest_terms_and_the_rest_are_all_of_them():
    numbers = np.array([0.5, -3.0, 0.1, 2.0, -0.2, 0.05])
    found = largest(list("abcdef"), numbers, most=4)
    assert found.names == ("b", "d", "a", "the other 3, together")
    np.testing.assert_allclose(found.numbers, [-3.0, 2.0, 0.5, -0.05])
    assert found.places == ((1,), (3,), (0,), (4, 2, 5))
    assert largest(["a"], np.array([1.0])).names == ("a",)
