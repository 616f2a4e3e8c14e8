"""The tiktoken encoding of our ranks against the `tokenizers` library, and what a damaged file says."""

import base64
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import decoders, pre_tokenizers
from tokenizers.models import BPE

from tests.support.properties import examples
from tests.support.small_tokenizers import WORDS, ranks, small_tokenizer, story
from tests.support.sources import ROOT
from viz_model.errors import CheckpointError, PromptError
from viz_model.model.tokenizer import END_OF_TEXT, FILE_NAME, Tokenizer
from viz_model.training.tokenizer import byte_of_letter, train_tokenizer

BUNDLED = Tokenizer.load(ROOT / "checkpoints" / "tiny-gpt")
TRAINED = train_tokenizer(story(), 700)
SMALL = small_tokenizer()
TOKENIZERS = pytest.mark.parametrize("tokenizer", [BUNDLED, TRAINED, SMALL], ids=["bundled", "trained", "small"])

TEXTS = [
    *("", " ", "   ", "\n", "\n\n\n", "\t \n", "a", "Once upon a time", "don't DON'T we'll I've you're he'd"),
    *("  two  spaces  ", "x\u00a0y\u3000z", "12345 1,000.50", "!!! ... ???", "naïve café", "e\u0301 \u0301e"),
    *(
        "👍🏽 👩‍🔬 🇩🇪",
        "שלום עולם مرحبا",
        "日本語テキスト",
        "<b>&amp;</b>",
        "# *x* `y`",
        "a\0b",
        "\r\n",
        "ſ K",
    ),
    *("\U0010ffff\ufdd0\ufffd", "🄰𝔘𝔫𝔦", "_under_score", "aaaaaaaaaaaaaaaaaaaaaaaa", "\u2028\u2029\x85\x1c"),
    *(*WORDS, "<|endoftext|>", "x<|endoftext|>y <|fim_prefix|>"),
]


def rust(tokenizer):
    """Byte-pair encoding by the `tokenizers` library from the same tokens.

    A merge is found as `transformers` does it: the pair of lower-ranked tokens that byte-pair encoding
    ends with when it may use lower-ranked merges only.
    """
    letter_of = {byte: letter for letter, byte in byte_of_letter().items()}
    tokens = [tokenizer.token_bytes(rank) for rank in range(tokenizer.end_of_text)]
    ranked = {token: rank for rank, token in enumerate(tokens)}
    spelled = ["".join(letter_of[byte] for byte in token) for token in tokens]
    merges = []
    for rank, token in enumerate(tokens[256:], 256):
        parts = [bytes([byte]) for byte in token]
        while len(parts) > 2:
            pairs = [ranked.get(a + b, rank) for a, b in itertools.pairwise(parts)]
            at = min(range(len(pairs)), key=pairs.__getitem__)
            assert pairs[at] < rank
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        merges.append(tuple(spelled[ranked[part]] for part in parts))
    made = RustTokenizer(BPE({text: rank for rank, text in enumerate(spelled)}, merges))
    # GPT-2's own pattern, as that library has it built in.
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    made.decoder = decoders.ByteLevel()
    return made


RUST = {id(tokenizer): rust(tokenizer) for tokenizer in (BUNDLED, TRAINED, SMALL)}
any_text = st.one_of(st.text(), st.text(" \n\t.'’aAtheing éü日👍1２,-\u0301\u200d\u00a0", max_size=40))


@TOKENIZERS
@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_and_is_cut_as_by_the_other_library(tokenizer, text):
    check(tokenizer, text)


@TOKENIZERS
@examples(150)
@given(text=any_text)
def test_any_text_comes_back_and_is_cut_as_by_the_other_library(tokenizer, text):
    check(tokenizer, text)


def test_a_real_text_too():
    for tokenizer in (BUNDLED, TRAINED, SMALL):
        check(tokenizer, (ROOT / "LICENSE").read_text("utf-8"))
        check(tokenizer, story())


def check(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert b"".join(tokenizer.token_bytes(token) for token in ids) == text.encode()
    assert ids == RUST[id(tokenizer)].encode(text).ids


def test_the_letters_of_bytes_are_those_of_the_other_library():
    assert sorted(byte_of_letter()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(byte_of_letter().values()) == list(range(256))
    for text in ("a", " ", "\n", "é", "日"):
        ((spelled, _),) = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
        assert bytes(byte_of_letter()[letter] for letter in spelled) == text.encode()


def test_control_tokens_are_never_read_from_text():
    ids = SMALL.encode(END_OF_TEXT)
    assert SMALL.end_of_text not in ids
    assert SMALL.decode(ids) == END_OF_TEXT
    assert SMALL.token_bytes(SMALL.end_of_text) == END_OF_TEXT.encode()
    assert SMALL.vocab_size == SMALL.end_of_text + 1 == 256 + 4 + 1


@pytest.mark.parametrize(("text", "place"), [("\ud800", 1), ("ab\udc00", 3), ("👍\udfff!", 2)])
def test_half_of_a_surrogate_pair_is_no_text(text, place):
    with pytest.raises(PromptError, match=f"Character {place} of the text is half of a surrogate pair"):
        SMALL.encode(text)


def test_half_a_character_decodes_to_the_replacement_sign():
    assert SMALL.decode(SMALL.encode("👍")[:2]) == "\ufffd"


@pytest.mark.parametrize("character", ["a", " ", "\n", "!", "é", "1"])
def test_a_very_long_word_does_not_hang(character):
    ids = SMALL.encode(character * 100_000)
    assert b"".join(map(SMALL.token_bytes, ids)) == (character * 100_000).encode()


def test_the_file_holds_all_and_no_more(tmp_path):
    TRAINED.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.encode(story()) == TRAINED.encode(story())
    lines = (tmp_path / FILE_NAME).read_text("ascii").splitlines()
    assert len(lines) == TRAINED.vocab_size - 1
    assert [int(line.split()[1]) for line in lines] == list(range(len(lines)))
    assert base64.b64decode(lines[300].split()[0]) == TRAINED.token_bytes(300)


LINES = [f"{base64.b64encode(token).decode()} {rank}" for token, rank in ranks(b"th", b"the", b"xy").items()]


@pytest.mark.parametrize(
    "lines",
    {
        "empty": [],
        "single byte missing": LINES[1:],
        "rank twice": [*LINES, f"{base64.b64encode(b'zz').decode()} 258"],
        "token twice": [*LINES, f"{base64.b64encode(b'th').decode()} 259"],
        "line twice": [*LINES, LINES[-1]],
        "gap": [*LINES[:-2], LINES[-1]],
        "negative": [*LINES, f"{base64.b64encode(b'zz').decode()} -1"],
        "no rank": [*LINES, "eno="],
        "too many fields": [*LINES, "eno= 259 1"],
        "rank is no number": [*LINES, "eno= x"],
        "not base64": [*LINES, "e*o= 259"],
        "base64 cut": [*LINES, "eno 259"],
        "not ascii": [*LINES, "é 259"],
    }.items(),
    ids=lambda case: case[0],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, lines):
    (tmp_path / FILE_NAME).write_text("\n".join(lines[1]) + "\n", "utf-8")
    with pytest.raises(CheckpointError, match=FILE_NAME):
        Tokenizer.load(tmp_path)


def test_a_file_cut_anywhere_is_refused_or_lacks_whole_tokens(tmp_path):
    whole = "\n".join(LINES).encode()
    for length in [*range(0, len(whole) - 40, 97), *range(len(whole) - 40, len(whole))]:
        (tmp_path / FILE_NAME).write_bytes(whole[:length])
        left = whole[:length].decode().splitlines()
        if length and len(left) >= 256 and left == LINES[: len(left)]:
            # Nothing in the file says how many there should be; load() compares with the config.
            assert Tokenizer.load(tmp_path).end_of_text == len(left)
        else:
            with pytest.raises(CheckpointError, match=FILE_NAME):
                Tokenizer.load(tmp_path)


def test_a_missing_file_and_a_folder_in_its_place(tmp_path):
    with pytest.raises(CheckpointError, match=FILE_NAME):
        Tokenizer.load(tmp_path)
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(CheckpointError, match=FILE_NAME):
        Tokenizer.load(tmp_path)
