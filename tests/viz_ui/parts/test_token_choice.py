"""Tokens as a reader asks for them: each has a name that leads back to it, and what is none or several is said."""

import pytest
from transformers import BertTokenizer

import viz_model as vm
from tests.support.small_models import small_model
from viz_model.hub.tokenizer import HubTokenizer
from viz_model.model import Model
from viz_ui.parts.token_choice import token_name, token_words, typed_token


def named(name, words):
    model = vm.load(name)
    return model, [model.ids(word)[0] for word in words]


@pytest.mark.parametrize("name", ["tiny-gpt", "tiny-llama", "tiny-bert", "tiny-seq2seq", "induction"])
def test_every_token_has_a_name_that_leads_back_to_it(name):
    model = vm.load(name)
    for token in [*range(0, model.config.vocab_size, 97), model.config.vocab_size - 1]:
        assert typed_token(model, token_name(model, token)) == token
        assert typed_token(model, f"#{token}") == token


def test_a_text_is_the_token_that_the_tokenizer_makes_of_it():
    model = vm.load("tiny-gpt")
    for typed, text in ((" king", " king"), ("·king", " king"), ("king", "king"), ("⏎", "\n"), (".", ".")):
        assert [typed_token(model, typed)] == model.tokenizer.encode(text)
    assert token_words(model, typed_token(model, "·king")) == "·king"


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("kingdom of nowhere", r"“kingdom of nowhere” is \d tokens of tiny-gpt: “king.*”, .*Choose one token"),
        ("", "is no token of tiny-gpt"),
        ("#4353", "no token 4353"),
        ("#99999999", "no token"),
        ("x" * 90, r"tokens of tiny-gpt: .*, …\. Choose one"),
        ("\ud800", "is no token"),
    ],
)
def test_what_is_none_or_several_is_said(typed, sentence):
    with pytest.raises(vm.VizError, match=sentence):
        typed_token(vm.load("tiny-gpt"), typed)


def test_a_model_without_a_tokenizer_has_numbers():
    model = Model("small", small_model())
    assert typed_token(model, "12") == typed_token(model, "#12") == 12
    assert (token_words(model, 12), token_name(model, 12)) == ("<12>", "#12")
    with pytest.raises(vm.VizError, match="2 tokens"):
        typed_token(model, "12 13")


def test_pieces_of_words_are_told_from_words(tmp_path):
    """WordPiece has “s” and “##s”, which are drawn alike: only one of them can be typed, the other has its number."""
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "s", "##s", "king"]))
    tokenizer = HubTokenizer(BertTokenizer(str(tmp_path / "vocab.txt")), 29, frozenset())
    model = Model("small", small_model(layout="encoder-only"), tokenizer)
    assert [token_name(model, token) for token in (5, 6, 7, 4)] == ["s", "#6", "king", "[MASK]"]
    assert typed_token(model, "king") == 7
