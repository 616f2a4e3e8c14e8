"""Windows: the pieces of a text that a model reads one by one, so that something can be said of the whole text."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from torch import Tensor

from viz_model.arguments import of_type, said
from viz_model.errors import PromptError, VizError
from viz_model.model import Model
from viz_model.model.prompts import MOST_IDS, Prompt, Tokens, empty_prompt

LONGEST = 512  # tokens, of models that could read more at once
SEED = 0

Text = Prompt | Sequence[Sequence[int]] | Sequence[tuple[Prompt, Prompt]]


@dataclass(frozen=True)
class Window:
    """read: what the stack that makes the logits reads; source: what the encoder reads, None where there is none.

    start: of the text, the place of the window's first token.
    """

    read: Tokens
    source: Tokens | None
    start: int

    @property
    def sizes(self) -> tuple[int, int]:
        return len(self.read), len(self.source or ())


def cut(model: Model, text: Text, length: int, most: int) -> list[Window]:
    """At most so many windows of `length` tokens, evenly spread over a text where it has more; the last is shorter.

    text: a text, ids, or rows of ids, of which each is a window. Of an encoder-decoder, pairs of a source and a
    target, or lines with a tab between the two; where a line has no tab, the target is what the model writes.
    Every window of a text has the signs around it that the model expects, such as [CLS].

    Raises PromptError where there is nothing to read, or what is no text to the model.
    """
    if isinstance(text, bytes | bytearray | memoryview):
        raise PromptError("The text is made of bytes. Decode it first, such as by text.decode().")
    if model.has_source:
        return [_pair(model, *pair, place) for place, pair in _spread(_pairs(text), most)]
    rows = _rows(text)
    if rows is not None:
        return [Window(_tokens(model, row), None, 0) for _, row in _spread(rows, most)]
    before, after = _around(model) if isinstance(text, str) else ((), ())
    inner = length - len(before) - len(after)
    if inner < 1:
        raise VizError(f"A window of {length} tokens has no room for a text. Choose longer windows.")
    whole = _whole(model, text)
    starts = range(0, len(whole), inner)
    windows = []
    for _, start in _spread(starts, most):
        ids = (*before, *whole.ids[start : start + inner], *after)
        pieces = (*model.token_bytes(before), *whole.pieces[start : start + inner], *model.token_bytes(after))
        windows.append(Window(Tokens(ids, pieces), None, start))
    return windows


def repeats(model: Model, rows: int, half: int, seed: int = SEED) -> list[list[int]]:
    """Random tokens, each row repeated once: so many rows of 2·half ids, of tokens that stand for a piece of a text."""
    tokens = np.setdiff1d(np.arange(model.config.vocab_size), [*model.signs, *filter(None, [model.mask_token])])
    segments = tokens[np.random.default_rng(seed).integers(0, len(tokens), (rows, half))]
    return np.concatenate((segments, segments), 1).tolist()


def shuffled_batches(windows: Sequence[Window], at_once: int) -> list[list[Window]]:
    """Windows of equal sizes together, at most so many; in a random order, so that the first ones are a fair sample."""
    by_sizes: dict[tuple[int, int], list[Window]] = {}
    order = random.Random(SEED)
    for window in order.sample(windows, len(windows)):
        by_sizes.setdefault(window.sizes, []).append(window)
    batches = [same[at : at + at_once] for same in by_sizes.values() for at in range(0, len(same), at_once)]
    return order.sample(batches, len(batches))


def _spread(things: Sequence, most: int) -> list[tuple[int, object]]:
    """At most so many of them, evenly spread, each with its place; all where there are no more."""
    count = min(most, len(things))
    places = [at * len(things) // count for at in range(count)] if count else []
    return [(place, things[place]) for place in places]


def _whole(model: Model, text: Prompt) -> Tokens:
    ids = model.ids(text, special=False)
    if not ids:
        raise empty_prompt("The text")
    return Tokens(tuple(ids), tuple(model.pieces(text, special=False)))


def _around(model: Model) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The signs that stand before and behind a text."""
    whole, inner = (model.ids("a" if model.tokenizer else "0", special=special) for special in (True, False))
    places = [at for at in range(len(whole)) if whole[at : at + len(inner)] == inner]
    return (tuple(whole[: places[0]]), tuple(whole[places[0] + len(inner) :])) if places else ((), ())


def _tokens(model: Model, prompt: Prompt) -> Tokens:
    ids = model.encode(prompt)
    return Tokens(tuple(ids), tuple(model.pieces(prompt)))


def _rows(text: object) -> list | None:
    """Rows of ids, where the text is made of such."""
    if isinstance(text, Tensor | np.ndarray):
        return text.tolist() if text.ndim == 2 else None
    if isinstance(text, list | tuple) and text and all(isinstance(row, list | tuple | Tokens) for row in text):
        return list(text)
    return None


def _pairs(text: object) -> list[tuple[Prompt, Prompt | None]]:
    """Sources with their targets, None where the model shall write it."""
    if isinstance(text, str):
        lines = [line.split("\t", 1) for line in text.split("\n") if line.strip()]
        if not lines:
            raise empty_prompt("The text")
        return [(line[0], line[1] if len(line) > 1 else None) for line in lines]
    wanted = "An encoder-decoder reads pairs of a source and a target, such as [('the 3rd of May 2024', '2024-05-03')]"
    try:
        pairs = [tuple(islice(pair, 3)) for pair in islice(_not_text(text), MOST_IDS + 1)]
    except Exception:  # what cannot be gone through
        raise PromptError(f"{wanted}, or lines with a tab between the two, not {said(text)}.") from None
    if not 0 < len(pairs) <= MOST_IDS or any(len(pair) != 2 or isinstance(pair[0], int) for pair in pairs):
        raise PromptError(f"{wanted}, or lines with a tab between the two.")
    return pairs


def _not_text(thing: object) -> Iterable:
    return of_type("The text", thing, Iterable, "pairs")


def _pair(model: Model, source: Prompt, target: Prompt | None, place: int) -> Window:
    ids = model.written(source) if target is None else model.encode_target(target)
    return Window(Tokens(tuple(ids), tuple(model.target_pieces(target, ids))), _tokens(model, source), place)
