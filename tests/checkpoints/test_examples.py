"""Every example of the sidebar shows its point on the models that it is offered for, by the committed weights."""

import re
from functools import cache

import numpy as np
import pytest

import viz_model as vm
from viz_model.checkpoints import FOLDER
from viz_ui.frame.examples import EXAMPLES

GPT = "tiny-gpt"
DRAWN = {"temperature": 0.8, "top_k": 40, "top_p": 0.95}  # as the page Generate begins
AGAIN, RANDOM, SHE, NUMBERS, SIGNS = list(EXAMPLES)[1:]

decoders = pytest.mark.parametrize("name", [GPT])


@cache
def traced(name, example):
    return vm.load(name).trace(EXAMPLES[example])


def first_guesses(name, example):
    """The likeliest token after each token of the example, and the tokens themselves."""
    trace = traced(name, example)
    return [int(trace.logits_at(place).argmax()) for place in range(trace.length)], list(trace.ids)


@decoders
def test_words_that_come_again_are_copied(name):
    guesses, _ = first_guesses(name, AGAIN)
    assert vm.load(name).tokenizer.decode([guesses[-1]]) == " old"


@decoders
def test_random_words_are_known_the_second_time(name):
    guesses, ids = first_guesses(name, RANDOM)
    words = len(EXAMPLES[RANDOM].split()) // 2
    assert vm.load(name).tokenizer.decode(ids[-words:]).split() == EXAMPLES[RANDOM].split()[:words], "a token each"
    right = [guess == token for guess, token in zip(guesses[-words:-1], ids[1 - words :], strict=True)]
    assert np.mean(right) >= 0.8, right


@decoders
def test_some_head_reads_she_from_both_women(name):
    """Of the words that it reads most, two are the women; the first token, where heads rest, is no word of theirs."""
    trace = traced(name, SHE)
    words = [piece.decode() for piece in trace.token_bytes]
    she, both = words.index(" she"), [words.index(" queen"), words.index(" girl")]
    weights = np.array([[trace.weights(layer, head)[she] for head in range(8)] for layer in range(4)])
    assert weights[..., both].min(-1).max() >= 0.15


@decoders
def test_pieces_of_a_word_are_known_once_it_was_there(name):
    trace = traced(name, NUMBERS)
    pieces = [piece.decode() for piece in trace.token_bytes]
    places = [place for place, piece in enumerate(pieces) if piece == " pe"]
    assert [pieces[place : place + 3] for place in places] == 3 * [[" pe", "bb", "les"]]
    known = [[trace.logits_at(place + n).softmax(-1)[trace.ids[place + n + 1]] for n in (0, 1)] for place in places]
    assert known[0][0] < 0.5
    assert np.min(known[1:]) > 0.9


def test_any_sign_is_read_as_bytes():
    """Tokens of any text are pieces of its UTF-8; a sign that the tokenizer did not learn takes several."""
    trace = traced(GPT, SIGNS)
    assert b"".join(trace.token_bytes).decode() == EXAMPLES[SIGNS]
    assert trace.length > len(EXAMPLES[SIGNS])


@decoders
@pytest.mark.slow
def test_a_story_goes_on_in_english_without_a_repeated_sentence(name):
    known = set(re.findall(r"[a-z]+", (FOLDER / GPT / "held-out.txt").read_text().lower()))
    model, good = vm.load(name), 0
    for seed in range(10):
        steps = model.generate(EXAMPLES["A story begins"], max_new_tokens=30, **DRAWN, seed=seed)
        story = EXAMPLES["A story begins"] + b"".join(step.token for step in steps if not step.is_end).decode()
        sentences = [sentence.strip() for sentence in re.split(r"[.!?\n]+", story.lower()) if sentence.strip()]
        words = re.findall(r"[a-z]+", story.lower())
        good += len(set(sentences)) == len(sentences) and np.mean([word in known for word in words]) >= 0.95
    assert good >= 9
