"""Tokenizers of Hub models: the bytes of every token, whatever kind of tokenizer made it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from tests.support.properties import examples
from viz_model.errors import PromptError
from viz_model.hub.tokenizer import HubTokenizer

TEXTS = ["the cat sat on the mat", "naïve 東京 🙂", "unbelievable, isn't it"] * 3
CHAT = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}{% endfor %}{{ '!' if add_generation_prompt }}"


def face(backend, vocab_size=1000, **options):
    return HubTokenizer(PreTrainedTokenizerFast(tokenizer_object=backend, **options), vocab_size, frozenset())


@pytest.fixture(scope="module")
def byte_level():
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    backend.train_from_iterator(TEXTS, trainer)
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return face(backend, bos_token="<s>", eos_token="</s>", chat_template=CHAT)


def test_a_token_that_the_model_has_no_number_for_is_refused(byte_level):
    largest = max(byte_level.encode("the cat"))
    backend = byte_level._tokenizer.backend_tokenizer
    assert largest in face(backend, largest + 1).encode("the cat")
    with pytest.raises(PromptError, match="but the model does not"):
        face(backend, largest).encode("the cat")


@pytest.fixture(scope="module")
def sentence_piece():
    backend = Backend(models.BPE(byte_fallback=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bytes_of = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = sorted(set("▁thecasonm"))
    vocabulary = {piece: place for place, piece in enumerate(["<unk>", *bytes_of, *letters, "▁t", "he", "▁the"])}
    backend.model = models.BPE(vocabulary, [("▁", "t"), ("h", "e"), ("▁t", "he")], byte_fallback=True)
    return face(backend, unk_token="<unk>")


@pytest.fixture(scope="module")
def word_piece():
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "un", "##believ", "##able", "cat", ",", "'", "t"]
    backend = Backend(models.WordPiece({piece: place for place, piece in enumerate(pieces)}, unk_token="[UNK]"))
    backend.normalizer, backend.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return face(backend, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]")


@examples(80)
@given(st.text())
def test_byte_level_tokens_are_the_bytes_of_the_text(byte_level, text):
    text = text.replace("<s>", "").replace("</s>", "")
    ids = byte_level.encode(text, special=False)
    assert b"".join(map(byte_level.token_bytes, ids)).decode() == text
    assert byte_level.encode(text) == [0, *ids]
    assert byte_level.decode(ids) == text


@pytest.mark.parametrize("text", ["the cat", "naïve 東京 🙂", "a  b\n"])
def test_sentence_piece_tokens_are_the_bytes_behind_a_leading_space(sentence_piece, text):
    ids = sentence_piece.encode(text)
    assert b"".join(map(sentence_piece.token_bytes, ids)).decode() == f" {text}"
    assert sentence_piece.token_bytes(sentence_piece.encode("the")[0]) == b" the"


def test_word_piece_tokens_begin_or_continue_words(word_piece):
    ids = word_piece.encode("The unbelievable cat, [MASK]")
    written = [word_piece.token_bytes(token) for token in ids]
    assert written == [b"[CLS]", b" the", b" un", b"believ", b"able", b" cat", b",", b"[MASK]", b"[SEP]"]
    assert word_piece.mask == ids[-2]
    assert {ids[0], ids[-1], word_piece.mask} <= word_piece.special_ids
    assert word_piece.encode("cat", special=False) == [9]
    unknown = word_piece.encode("the dog")
    assert {unknown[0], unknown[-1]} == word_piece.signs.intersection(unknown)
    assert word_piece.token_bytes(unknown[2]) == b"[UNK]"
    assert word_piece.mask not in word_piece.signs
    assert word_piece.end_of_text is None


@pytest.mark.parametrize("template", [CHAT, CHAT.replace("<s>", "")], ids=["writes its own <s>", "writes none"])
def test_only_a_chat_template_says_where_a_chat_begins(byte_level, template):
    """The tokenizer puts <s> before any text; `transformers` leaves that to the template of a chat."""
    library = byte_level._tokenizer
    messages = [{"role": "user", "content": "Hi"}]
    known = library.apply_chat_template(messages, chat_template=template, add_generation_prompt=True)["input_ids"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(library, "chat_template", template)
        assert byte_level.chat("Hi") == known
    assert known.count(0) == template.count("<s>")
    assert byte_level.encode("<s>Hi")[:2] == [0, 0]  # sent raw, a text that brings another one keeps both


def test_a_model_without_a_chat_template(word_piece):
    assert word_piece.chat("Hi") is None


def test_ids_that_only_one_side_knows(byte_level):
    assert byte_level.token_bytes(900) == b"<900>"
    small = HubTokenizer(byte_level._tokenizer, 40, frozenset())
    with pytest.raises(PromptError, match="the model does not"):
        small.encode("zebra crossing ~")


def test_half_a_character_is_no_text(word_piece):
    with pytest.raises(PromptError, match="half of a surrogate pair"):
        word_piece.encode("ab\ud800")


def test_several_ends(byte_level):
    assert HubTokenizer(byte_level._tokenizer, 1000, frozenset({7, 4})).end_of_text == 4
    assert byte_level.end_of_text == 1
