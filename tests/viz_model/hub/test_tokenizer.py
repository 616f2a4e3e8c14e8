"""Tokenizers of Hub models: the bytes of every token, whatever kind of tokenizer made it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from tests.support.properties import examples
from tests.support.scripts import SCRIPTS, UNUSUAL
from tests.support.small_models import small_model
from viz_model.errors import PromptError
from viz_model.hub.tokenizer import HubTokenizer
from viz_model.model import Model

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


def test_a_vocabulary_without_a_token_for_unknown_words():
    """What the library raises while it reads a text is a bare Exception."""
    backend = Backend(models.WordPiece({"the": 0}, unk_token="[UNK]"))
    with pytest.raises(PromptError, match=r"cannot cut this text into tokens: .*\[UNK\].*damaged"):
        face(backend).encode("cat")


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
    assert b"".join(sentence_piece.pieces(text)).decode() == text
    assert sentence_piece.token_bytes(sentence_piece.encode("the")[0]) == b" the"


def test_word_piece_tokens_begin_or_continue_words(word_piece):
    ids = word_piece.encode("The unbelievable cat, [MASK]")
    written = [word_piece.token_bytes(token) for token in ids]
    assert written == [b"[CLS]", b"the", b"un", b"##believ", b"##able", b"cat", b",", b"[MASK]", b"[SEP]"]
    pieces = word_piece.pieces("The unbelievable cat, [MASK]")
    assert pieces == [b"[CLS]", b"The", b" un", b"believ", b"able", b" cat", b",", b" [MASK]", b"[SEP]"]
    assert word_piece.mask == ids[-2]
    assert {ids[0], ids[-1], word_piece.mask} <= word_piece.special_ids
    assert word_piece.encode("cat", special=False) == [9]
    unknown = word_piece.encode("the dog")
    assert {unknown[0], unknown[-1]} == word_piece.signs.intersection(unknown)
    assert word_piece.token_bytes(unknown[2]) == b"[UNK]"
    assert word_piece.pieces("the dog") == [b"[CLS]", b"the", b" [UNK]", b"[SEP]"]
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
        assert byte_level.encode(byte_level.in_chat("Hi"), special=False) == known
    assert known.count(0) == template.count("<s>")
    assert byte_level.encode("<s>Hi")[:2] == [0, 0]  # sent raw, a text that brings another one keeps both


def test_a_model_without_a_chat_template(word_piece):
    assert word_piece.in_chat("Hi") is None


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


LETTERS = sorted({*"".join([*SCRIPTS.values(), *UNUSUAL]), *"▁Ġ#"})


def word_piece_of_letters():
    """A piece for each letter, at the start of a word and behind another; one piece begins with Ġ."""
    pieces = dict.fromkeys(["[UNK]", "[CLS]", "[SEP]", "stop", "##ping", *LETTERS, *(f"##{one}" for one in LETTERS)])
    backend = Backend(models.WordPiece({piece: place for place, piece in enumerate(pieces)}, unk_token="[UNK]"))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    backend.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=False)
    return face(backend, 10**6, unk_token="[UNK]")


def unigram_of_letters():
    """As T5's: compatibility forms are replaced, a text begins with ▁."""
    scores = [("<unk>", 0.0), ("▁the", -1.0), ("▁", -2.0), *((one, -3.0) for one in LETTERS if one != "▁")]
    compatible = [("f", -3.0), ("i", -3.0), ("1", -3.0), ("2", -3.0), ("\u2044", -3.0), ("Å", -3.0)]
    known = dict(scores) | dict(compatible) | dict.fromkeys(normal_letters(), -3.0)
    backend = Backend(models.Unigram([*known.items()], unk_id=0))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return face(backend, 10**6, unk_token="<unk>")


def normal_letters():
    return [one for one in {*normalizers.NFKC().normalize_str("".join(LETTERS))} if one not in " \t\n"]


def bytes_of_fallback(*, prefix):
    """As Gemma's, or with a prefix as Mistral's: what has no piece is written in bytes; one piece begins with Ġ."""
    bytes_of = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = ["<unk>", *bytes_of, *"▁thecasf", "Ġ", "he", "▁c"]
    merges = [("h", "e"), ("▁", "c")]
    backend = Backend(models.BPE({one: n for n, one in enumerate(pieces)}, merges, byte_fallback=True, fuse_unk=True))
    space = normalizers.Replace(" ", "▁")
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), space]) if prefix else space
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip])
    return face(backend, unk_token="<unk>")


def bytes_of_letters(*, normalizer=None):
    """As GPT-2's, or with a normalizer as Qwen's."""
    backend = Backend(models.BPE({one: n for n, one in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    backend.decoder = decoders.ByteLevel()
    if normalizer:
        backend.normalizer = normalizer
    return face(backend)


def characters():
    """Every character a token; no decoder."""
    backend = Backend(models.WordLevel({one: n for n, one in enumerate(["?", *LETTERS])}, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return face(backend, 10**6, unk_token="?")


KINDS = {
    "WordPiece": word_piece_of_letters,
    "Unigram": unigram_of_letters,
    "BPE with fallback bytes": lambda: bytes_of_fallback(prefix=False),
    "BPE with fallback bytes and a prefix": lambda: bytes_of_fallback(prefix=True),
    "byte-level BPE": bytes_of_letters,
    "byte-level BPE of composed characters": lambda: bytes_of_letters(normalizer=normalizers.NFC()),
    "characters": characters,
    "bytes": lambda: HubTokenizer(ByT5Tokenizer(), 1000, frozenset()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_pieces_put_together_are_the_text(kind):
    tokenizer = KINDS[kind]()
    for text in [*SCRIPTS.values(), *UNUSUAL, "don't (stop)"]:
        ids = tokenizer.encode(text, special=False)
        pieces = tokenizer.pieces(text, special=False)
        assert len(pieces) == len(ids)
        if ids:
            assert b"".join(pieces).decode() == text


def test_a_piece_with_a_letter_for_a_byte_makes_no_byte_level_vocabulary():
    fallback, words = bytes_of_fallback(prefix=False), word_piece_of_letters()
    assert fallback.pieces("the caf\u00e9 Ġ") == [b"t", b"he", b" c", b"a", b"f", b"\xc3", b"\xa9", b" ", "Ġ".encode()]
    assert fallback.token_bytes(1 + 0xE9) == b"\xe9"
    assert words.pieces("stopping Ġ", special=False) == [b"stop", b"ping", " Ġ".encode()]
    assert words.token_bytes(words.encode("Ġ", special=False)[0]) == "Ġ".encode()


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("你好", ["你", "好"]),
        ("(stop) x", ["(", "stop", ")", " x"]),
        ("a'b  'c", ["a", "'", "b", "  '", "c"]),
        (" ", []),
    ],
)
def test_word_piece_shows_the_spaces_of_the_text_and_no_others(text, pieces):
    assert [piece.decode() for piece in word_piece_of_letters().pieces(text, special=False)] == pieces


LLAMA_CHAT = "{% for m in messages %}[c] {{ m['content'] }} [f]{% endfor %}"


@pytest.mark.parametrize("prefix", [True, False], ids=["Llama", "Gemma"])
def test_the_tokens_of_a_chat_and_of_a_generation_are_the_text(prefix):
    """What a first token stands for alone (“▁c” is “ c”) is not what was typed."""
    backend = bytes_of_fallback(prefix=prefix)._tokenizer
    backend.chat_template = LLAMA_CHAT
    model = Model("small", small_model(vocab_size=300), HubTokenizer(backend, 300, frozenset()))
    chat = model.chat("cafe")
    assert [*chat.ids] == backend("[c] cafe [f]", add_special_tokens=False)["input_ids"]
    assert b"".join(chat.pieces) == b"[c] cafe [f]"
    for prompt, typed in (("cafe", b"cafe"), (" cafe", b" cafe"), (chat, b"[c] cafe [f]")):
        trace = model.trace(prompt)
        assert b"".join(trace.token_bytes) == typed
        *_, step = model.generate(prompt, max_new_tokens=3, temperature=0.0)
        assert step.pieces[:-3] == trace.token_bytes
        assert step.pieces[-3:] == tuple(map(model.tokenizer.token_bytes, step.ids[-3:]))
        steps = list(model.generate(prompt, max_new_tokens=3, temperature=0.0))
        *_, longer = model.generate(prompt, max_new_tokens=5, temperature=0.0, kept=steps)
        assert longer.pieces[: len(step.pieces)] == step.pieces


def test_what_was_made_of_one_character_is_at_its_place():
    assert unigram_of_letters().pieces("ﬁne") == [b"", "ﬁ".encode(), b"", b"n", b"e"]  # ▁, f, i, n, e
