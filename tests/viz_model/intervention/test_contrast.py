"""A second prompt with one token replaced, and the answers that tell two runs apart."""

import numpy as np
import pytest

import viz_model as vm
from tests.reference.families import FAMILIES, save_small
from viz_model.intervention.contrast import telling_answers, with_another_token

STORY = "Once upon a time there was a king who had three daughters."


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-llama", "tiny-bert", "induction", "tiny-seq2seq"])
def test_one_token_is_another_one_and_all_others_stay(name):
    model = vm.load(name)
    text = next(iter(model.examples.values()), STORY)
    trace = model.trace(text).of("encoder" if model.has_source else "self")
    before, after = model.ids(text), model.ids(with_another_token(model, trace, text))
    changed = [place for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert len(changed) == 1
    assert 0 < changed[0] < len(before) - 1


def test_it_is_the_token_that_surprised_the_model_most_and_what_it_expected_there():
    model = vm.load("tiny-gpt")
    trace = model.trace(STORY)
    logs = np.stack([trace.logits_at(n).log_softmax(-1).numpy() for n in range(trace.length - 1)])
    surprise = -logs[np.arange(trace.length - 2), trace.ids[1:-1]]  # of all but the first token and the last one
    place = 1 + int(surprise.argmax())
    changed = model.ids(with_another_token(model, trace, STORY))
    assert [n for n, (old, new) in enumerate(zip(trace.ids, changed, strict=True)) if old != new] == [place]
    assert changed[place] in logs[place - 1].argsort()[-6:]
    assert trace.token_bytes[place] == b" king"


def test_a_prompt_of_one_token_and_one_of_ids(tmp_path):
    model = vm.load("tiny-gpt")
    other = with_another_token(model, model.trace("a"), "a")
    assert len(model.ids(other)) == 1
    assert other != "a"
    save_small(FAMILIES["Llama"], tmp_path)
    nameless = vm.load(tmp_path)
    ids = [*map(int, with_another_token(nameless, nameless.trace([5, 6, 7, 8]), "5 6 7 8").split())]
    assert sum(old != new for old, new in zip(ids, [5, 6, 7, 8], strict=True)) == 1


def test_the_answers_are_those_that_one_run_finds_likelier_than_the_other():
    model = vm.load("tiny-gpt")
    runs = [model.trace(f"The {who} was so angry that").logits for who in ("old queen", "old king")]
    good, bad = telling_answers(*runs)
    assert model.token_bytes([good, bad]) == [b" she", b" he"]
    assert telling_answers(*reversed(runs)) == (bad, good)
