"""What patterns need to know of a text: to which word and sentence each token belongs, and which are punctuation."""

import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from viz_model.model.prompts import Tokens

NONE = -1
LETTER, MARK, BREAK, OTHER = "letter", "mark", "line break", "other"
SENTENCE_ENDS = frozenset(".!?…。！？।؟\n")
APOSTROPHES = frozenset("'’")


@dataclass(frozen=True, eq=False)
class TextMarks:
    """Of each token (T,): the number of its word, the place of its sentence's first token, and whether it is
    punctuation; `NONE` where it has no word, or where nothing says that its sentence begins in this text."""

    words: np.ndarray
    sentences: np.ndarray
    punctuation: np.ndarray


def text_marks(tokens: Tokens, signs: Collection[int]) -> TextMarks:
    """The marks of a text, or of a piece that was cut out of one.

    A word is a run of letters, digits and the marks that belong to them, or a part of a character. A sentence begins
    with the first word after . ! ? or a line break. Punctuation is a token of punctuation and line breaks alone.
    signs: tokens that stand for no piece of the text.
    """
    pieces = [b"" if token in signs else piece for token, piece in zip(tokens.ids, tokens.pieces, strict=True)]
    letters = b"".join(pieces).decode("utf-8", "surrogateescape")  # a window may begin within a character
    kinds = _kinds(letters)
    word_of, sizes = _words(kinds), [_bytes_of(letter) for letter in letters]
    char_of = np.repeat(np.arange(len(letters)), sizes)  # of each byte
    words = np.full(len(pieces), NONE)
    sentences, punctuation = words.copy(), np.zeros(len(pieces), bool)
    first, has_ended, done = NONE, False, 0
    for place, piece in enumerate(pieces):
        inside = dict.fromkeys(char_of[done : done + len(piece)].tolist())  # the characters that it has a part of
        done += len(piece)
        its_kinds = {kinds[char] for char in inside}
        words[place] = next((word_of[char] for char in inside if kinds[char] == LETTER), NONE)
        punctuation[place] = bool(its_kinds & {MARK, BREAK}) and LETTER not in its_kinds
        if has_ended and LETTER in its_kinds:
            first, has_ended = place, False
        sentences[place] = first
        has_ended |= any(letters[char] in SENTENCE_ENDS for char in inside)
    return TextMarks(words, sentences, punctuation)


def _kinds(letters: str) -> list[str]:
    kinds = [_kind(letter) for letter in letters]
    for at in range(1, len(letters) - 1):
        if letters[at] in APOSTROPHES and kinds[at - 1] == LETTER == kinds[at + 1]:
            kinds[at] = LETTER  # don't
    return kinds


def _words(kinds: list[str]) -> list[int]:
    """The number of the word that each character is in; what is between two words counts on."""
    numbers, number = [], 0
    for at, kind in enumerate(kinds):
        number += at > 0 and kind == LETTER and kinds[at - 1] != LETTER
        numbers.append(number)
    return numbers


@lru_cache(4096)
def _kind(letter: str) -> str:
    if letter == "\n":
        return BREAK
    category = unicodedata.category(letter)
    return LETTER if category[0] in "LNM" or category == "Cs" else MARK if category[0] == "P" else OTHER


def _bytes_of(letter: str) -> int:
    return 1 if "\udc80" <= letter <= "\udcff" else len(letter.encode())
