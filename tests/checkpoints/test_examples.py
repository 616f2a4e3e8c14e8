"""Every example of the sidebar shows its point on the models that it is offered for, by the committed weights."""

import re
from functools import cache

import numpy as np
import pytest

import viz_model as vm
from pages.generate.page import TEMPERATURE, TOP_K, TOP_P
from viz_model.checkpoints import FOLDER
from viz_ui.frame.address import EXAMPLES

GPT, LLAMA, BERT = "tiny-gpt", "tiny-llama", "tiny-bert"
AGAIN, RANDOM, SHE, NUMBERS, SIGNS = list(EXAMPLES)[1:]

decoders = pytest.mark.parametrize("name", [GPT, LLAMA])


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
    half = len(ids) // 2
    assert ids[half + 1 :] == ids[1 : len(ids) - half], "the second copy but for its first token, which has no space"
    right = [guess == token for guess, token in zip(guesses[half:-1], ids[half + 1 :], strict=True)]
    assert np.mean(right) >= 0.8, right


@pytest.mark.parametrize("name", [GPT, LLAMA, BERT])
def test_some_head_reads_she_from_both_women(name):
    trace = traced(name, SHE)
    words = [piece.decode() for piece in trace.token_bytes]
    she, both = words.index(" she"), [words.index(" queen"), words.index(" girl")]
    weights = np.array([[trace.weights(layer, head)[she] for head in range(8)] for layer in range(4)])
    assert weights[..., both].min(-1).max() >= 0.2


@decoders
@pytest.mark.slow
def test_a_story_goes_on_in_english_without_a_repeated_sentence(name):
    known = set(re.findall(r"[a-z]+", (FOLDER / GPT / "held-out.txt").read_text().lower()))
    model, good = vm.load(name), 0
    for seed in range(10):
        choices = {"temperature": TEMPERATURE, "top_k": TOP_K, "top_p": TOP_P, "seed": seed}
        steps = model.generate(EXAMPLES["A story begins"], max_new_tokens=30, **choices)
        story = EXAMPLES["A story begins"] + b"".join(step.token for step in steps if not step.is_end).decode()
        sentences = [sentence.strip() for sentence in re.split(r"[.!?\n]+", story.lower()) if sentence.strip()]
        words = re.findall(r"[a-z]+", story.lower())
        good += len(set(sentences)) == len(sentences) and np.mean([word in known for word in words]) >= 0.95
    assert good >= 9
