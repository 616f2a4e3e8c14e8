"""What is learned from: a text cut into training and held-out parts, and rows of repeated random tokens."""

from dataclasses import dataclass

import numpy as np

from viz_model.tokenizer import Tokenizer

IGNORED = -100  # a target that the loss passes over

HELD_OUT_SHARE = 0.04  # the end of every book


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


def text_batch(stream: np.ndarray, rows: int, length: int, random: np.random.Generator) -> Batch:
    """Windows of the text from random places."""
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


def joined(first: Batch, second: Batch) -> Batch:
    """Rows of both, one below the other."""
    return Batch(np.concatenate((first.ids, second.ids)), np.concatenate((first.targets, second.targets)))
