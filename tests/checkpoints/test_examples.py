"""Every example of the sidebar shows its point on the models that it is offered for, by the committed weights."""

import re
from functools import cache

import numpy as np
import pytest

import viz_model as vm
from viz_model.checkpoints import FOLDER
from viz_ui.frame.examples import EXAMPLES

GPT, LLAMA, BERT = "tiny-gpt", "tiny-llama", "tiny-bert"
DRAWN = {"temperature": 0.8, "top_k": 40, "top_p": 0.95}  # as the page Generate begins
AGAIN, RANDOM, SHE, NUMBERS, SIGNS = list(EXAMPLES)[1:]

BLANKS = {"What follows decides": " woman", "A verb between both sides": " opened"}  # of tiny-bert: what is hidden

decoders = pytest.mark.parametrize("name", [GPT, LLAMA])


@cache
def traced(name, example):
    return vm.load(name).trace(EXAMPLES[example])


def test_which_examples_are_offered():
    """Each of them has a test here, or beside the model that it belongs to."""
    assert [vm.load(name).examples for name in (GPT, LLAMA)] == [{}, {}], "both get those of the sidebar"
    assert list(vm.load(BERT).examples) == [next(iter(EXAMPLES)), *BLANKS, SIGNS]
    assert all(vm.load(BERT).examples[name] == EXAMPLES[name] for name in (next(iter(EXAMPLES)), SIGNS))


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
    """From the second piece of the second copy on: the first one could follow anything."""
    guesses, ids = first_guesses(name, RANDOM)
    half, again = EXAMPLES[RANDOM][: len(EXAMPLES[RANDOM]) // 2], EXAMPLES[RANDOM][len(EXAMPLES[RANDOM]) // 2 :]
    assert again == f" {half}"
    start = len(vm.load(name).encode(half))
    right = [guess == token for guess, token in zip(guesses[start + 1 : -1], ids[start + 2 :], strict=True)]
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


@pytest.mark.parametrize("name", [GPT, LLAMA, BERT])
def test_any_sign_is_read_as_bytes(name):
    """Tokens of any text are pieces of its UTF-8; a sign that the tokenizer did not learn takes several."""
    trace = traced(name, SIGNS)
    assert b"".join(trace.token_bytes).decode() == EXAMPLES[SIGNS]
    assert trace.length > len(EXAMPLES[SIGNS])


def named(text, hidden):
    """What tiny-bert gives to each token where this one is hidden (V,), and the token's id."""
    model = vm.load(BERT)
    ids = model.encode(text)
    at = [piece.decode() for piece in model.token_bytes(ids)].index(hidden)
    covered = [*ids[:at], model.mask_token, *ids[at + 1 :]]
    return model.trace(covered).logits_at(at).softmax(-1), ids[at]


@pytest.mark.parametrize("example", BLANKS)
def test_what_stands_on_both_sides_names_a_hidden_word(example):
    """The word is the first guess, and far likelier than from the left alone, where tiny-gpt reads."""
    text, hidden = vm.load(BERT).examples[example], BLANKS[example]
    shares, token = named(text, hidden)
    assert shares.argmax() == token
    from_the_left = vm.load(GPT).trace(text[: text.index(hidden)]).logits.softmax(-1)[token]
    assert shares[token] > 2.5 * from_the_left


def test_what_follows_decides_between_two_words():
    """“to her daughter” or “to his daughter” comes after the hidden word, and turns the guess."""
    text = vm.load(BERT).examples["What follows decides"]
    of_her, its_woman = named(text, " woman")
    of_him, its_man = named(text.replace("woman", "man").replace("her", "his", 1), " man")
    assert of_her[its_woman] > 4 * of_her[its_man]
    assert of_him[its_man] > of_him[its_woman]


def test_most_words_of_a_story_are_named_by_the_others():
    text = EXAMPLES["A story begins"]
    pieces = [piece.decode() for piece in vm.load(BERT).token_bytes(vm.load(BERT).encode(text))]
    found = [named(text, piece) for piece in pieces if pieces.count(piece) == 1]
    assert np.mean([shares.argmax() == token for shares, token in found]) > 0.5


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
