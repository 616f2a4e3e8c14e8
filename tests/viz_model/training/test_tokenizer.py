"""Trained ranks against the trainer's own tokenizer and its own encoding."""

import pytest
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from tests.support.small_tokenizers import story
from tests.support.sources import ROOT
from viz_model.training.tokenizer import byte_of_letter, train_tokenizer


def trained_by_the_library(text, vocab_size):
    """GPT-2's pattern as the library has it built in."""
    made = RustTokenizer(BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = BpeTrainer(vocab_size=vocab_size, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(text.splitlines(keepends=True), trainer)
    return made


@pytest.mark.parametrize("text", [story(), (ROOT / "LICENSE").read_text("utf-8")], ids=["story", "license"])
def test_ranks_and_encoding_are_the_trainers_own(text):
    ours, theirs = train_tokenizer(text, 330), trained_by_the_library(text, 329)
    assert ours.vocab_size == 330 == theirs.get_vocab_size() + 1
    byte_of = byte_of_letter()
    learned = [theirs.id_to_token(token) for token in range(256, 329)]  # in the order of their merges
    spelled = [bytes(byte_of[letter] for letter in token) for token in learned]
    assert [ours.token_bytes(token) for token in range(256, 329)] == spelled
    assert [ours.token_bytes(byte) for byte in range(256)] == [bytes([byte]) for byte in range(256)]
    for sample in (text, "unheard words, ünïcödé 日本 👍\n\n  and   spaces\t", "x" * 300):
        found = [ours.token_bytes(token) for token in ours.encode(sample)]
        expected = theirs.encode(sample).tokens
        assert found == [bytes(byte_of[letter] for letter in token) for token in expected]


def test_the_most_frequent_pair_comes_first():
    tokenizer = train_tokenizer("abc abc abc ab\n" * 10, 259)
    assert tokenizer.token_bytes(256) == b"ab"
    assert tokenizer.vocab_size == 259


@pytest.mark.parametrize("text", ["", "a", "\n\n"])
def test_a_short_text_gives_fewer_tokens(text):
    assert train_tokenizer(text, 300).vocab_size < 300
    assert train_tokenizer(text, 300).decode(train_tokenizer(text, 300).encode("é👍")) == "é👍"
