"""What is learned from: a text cut into training and held-out parts, and rows in which something comes again."""

from dataclasses import dataclass

import numpy as np

from viz_model.model.tokenizer import Tokenizer

IGNORED = -100  # a target that the loss passes over

HELD_OUT_SHARE = 0.04  # the end of every book

MASKED_SHARE = 0.15  # of the tokens are to be guessed

# Tokens of a passage that comes again, and the most of other text between it and its copy.
SHORTEST_PASSAGE, LONGEST_PASSAGE, MOST_BETWEEN = 12, 110, 50

NEWLINE = 10  # the id of a paragraph's end, as the byte-level tokenizer has it

# Ids of the characters that random rows are made of, as the byte-level tokenizer has them.
LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .", np.uint8).astype(np.int64)


def split_books(text: str) -> tuple[list[str], list[str]]:
    """Books (blank line between them, one paragraph a line) -> their beginnings, and the ends held out."""
    beginnings, ends = [], []
    for book in text.strip("\n").split("\n\n"):
        cut = book.rfind("\n", 0, int(len(book) * (1 - HELD_OUT_SHARE)) + 1) + 1
        beginnings.append(book[:cut])
        ends.append(book[cut:])
    return beginnings, ends


def encode_books(books: list[str], tokenizer: Tokenizer) -> np.ndarray:
    """All books as one row of ids, an end-of-text token before each: (N,) uint16."""
    ids: list[int] = []
    for book in books:
        ids += [tokenizer.end_of_text, *tokenizer.encode(book)]
    return np.array(ids, dtype=np.uint16)


@dataclass(frozen=True)
class Batch:
    """ids (B,T) and targets (B,T), the next token of each position or IGNORED."""

    ids: np.ndarray
    targets: np.ndarray


def text_batch(
    stream: np.ndarray, rows: int, length: int, random: np.random.Generator, paragraphs: bool = False
) -> Batch:
    """Windows of the text from random places, or from the beginnings of random paragraphs."""
    if paragraphs:
        beginnings = np.flatnonzero(stream[: len(stream) - length - 1] == NEWLINE) + 1
        starts = beginnings[random.integers(0, len(beginnings), rows)]
    else:
        starts = random.integers(0, len(stream) - length, rows)
    windows = stream[starts[:, None] + np.arange(length + 1)].astype(np.int64)
    return Batch(windows[:, :-1], windows[:, 1:])


def repeated_batch(vocab: int, rows: int, length: int, random: np.random.Generator) -> Batch:
    """Rows [prefix, segment, segment] of random tokens; segments of an eighth to half of the row.

    Only what can be known counts: the second copy, from its second token on.
    """
    ids = random.integers(0, vocab, (rows, length + 1))
    targets = np.full((rows, length), IGNORED, dtype=np.int64)
    for row, half in enumerate(random.integers(max(2, length // 8), (length + 1) // 2 + 1, rows)):
        ids[row, -half:] = ids[row, -2 * half : -half]
        targets[row, 1 - half :] = ids[row, 1 - half :]
    return Batch(ids[:, :-1], targets)


def passage_batch(stream: np.ndarray, rows: int, length: int, random: np.random.Generator) -> Batch:
    """Rows [text, passage, text, passage, text] in which a passage of the text comes again; every next token counts.

    Half of the rows begin with the passage, and in half of them nothing stands between the copies. In a quarter the
    copies go on to the end of the row. Every piece of text comes from a place of its own, but for what stands between:
    half of the time it is what follows the passage in the text.
    """
    pieces = np.stack([_row_with_passage(stream, length + 1, random) for _ in range(rows)]).astype(np.int64)
    return Batch(pieces[:, :-1], pieces[:, 1:])


def _row_with_passage(stream: np.ndarray, length: int, random: np.random.Generator) -> np.ndarray:
    def window() -> np.ndarray:
        start = int(random.integers(0, len(stream) - length))
        return stream[start : start + length]

    longest = min(LONGEST_PASSAGE, length // 2)
    size = SHORTEST_PASSAGE + int((longest + 1 - SHORTEST_PASSAGE) * random.random() ** 2)  # more short ones
    most_between = min(MOST_BETWEEN, length // 4)
    latest = max(1, length - 2 * size - most_between)
    before = int(random.integers(0, latest)) if random.random() < 0.5 else 0
    to_the_end = random.random() < 0.25
    passage, after = np.split(window(), [size])
    pieces = [window()[:before], passage]
    while True:
        between = int(random.integers(1, most_between + 1)) if random.random() < 0.5 else 0
        pieces += [(after if random.random() < 0.5 else window())[:between], passage]
        if not to_the_end or sum(map(len, pieces)) >= length:
            break
    return np.concatenate([*pieces, window()])[:length]


def recurring_batch(tokens: np.ndarray, rows: int, length: int, random: np.random.Generator) -> Batch:
    """Rows of random ones of `tokens` in which one segment comes twice, both times somewhere.

    Segments are a quarter to half of the row, so that no distance can be learned by heart. Only what can be known
    counts: the second copy, from its second token on.
    """
    ids = tokens[random.integers(0, len(tokens), (rows, length + 1))]
    targets = np.full((rows, length), IGNORED, dtype=np.int64)
    for row, its_targets in zip(ids, targets, strict=True):
        size = int(random.integers(length // 4, length // 2 + 1))
        first = int(random.integers(0, length + 2 - 2 * size))
        second = int(random.integers(first + size, length + 2 - size))
        row[second : second + size] = row[first : first + size]
        its_targets[second : second + size - 1] = row[second + 1 : second + size]
    return Batch(ids[:, :-1], targets)


def masked_batch(
    stream: np.ndarray,
    rows: int,
    length: int,
    mask_token: int,
    random: np.random.Generator,
    share: float = MASKED_SHARE,
    shortest: int | None = None,
) -> Batch:
    """Windows of the text from random places, with tokens hidden.

    shortest: where it is given, the windows are halved so often, by chance, that they are no shorter than this, and
    there are as many more; shorter ones begin with a paragraph. Who learns from long rows alone cannot read a sentence.
    """
    halved = int(random.integers(0, (length // shortest).bit_length())) if shortest else 0
    windows = text_batch(stream, rows << halved, length >> halved, random, paragraphs=halved > 0)
    return hide(windows.ids, mask_token, random, share)


def hide(ids: np.ndarray, mask_token: int, random: np.random.Generator, share: float = MASKED_SHARE) -> Batch:
    """Hide tokens of (B,T) rows, to be guessed: BERT's task (Devlin et al. 2019, §3.1 and appendix A.1).

    Each token is chosen with a chance of `share`. Of the chosen, 80 % are replaced by the mask token, 10 % by a random
    token, and 10 % stay; the target of a chosen place is the token that stood there.
    """
    chosen = random.random(ids.shape) < share
    targets = np.where(chosen, ids, IGNORED)
    kind = random.random(ids.shape)
    hidden = np.where(chosen & (kind < 0.8), mask_token, ids)
    replaced = chosen & (kind >= 0.8) & (kind < 0.9)
    hidden[replaced] = random.integers(0, mask_token - 1, replaced.sum())  # no control token
    return Batch(hidden, targets)


def joined(first: Batch, second: Batch) -> Batch:
    """Rows of both, one below the other."""
    return Batch(np.concatenate((first.ids, second.ids)), np.concatenate((first.targets, second.targets)))
