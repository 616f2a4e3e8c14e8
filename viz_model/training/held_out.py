"""Rows of the text that was held out from a model's training, where it lies beside the model."""

import re
from functools import lru_cache

import numpy as np
from torch import Tensor

from viz_model.checkpoints import FOLDER, catalogue
from viz_model.errors import TrainingError, VizError
from viz_model.heads.windows import Text, repeats
from viz_model.model import Model
from viz_model.training.data import encode_books
from viz_model.training.dates import in_turn, split_days
from viz_model.training.figures.report import books_of
from viz_model.training.loss import windows
from viz_model.training.recipes import RECIPES

MOST_HALF = 40  # random tokens that come again, as in the figures of the bundled models
WINDOWS, WINDOW = 4, 256  # so many stretches of so many tokens, evenly spread
TALES = "tiny-gpt"  # whose held-out text is read by models that have none of their own


def held_out_rows(model: Model, name: str) -> Tensor | None:
    """Ids (n,T) of stretches of the held-out text of the model called `name` in the catalogue; None without one."""
    if model.has_source or model.tokenizer is None:
        return None
    books = _books_beside(name)
    if not books:
        return None
    return windows(encode_books(books, model.tokenizer), min(WINDOW, model.config.context_length), WINDOWS)


def long_rows(model: Model, name: str, length: int, count: int) -> tuple[Tensor, bool]:
    """Ids (n,length) of stretches of any length, and whether they were held out from this model's training.

    Of a model without a held-out text they are the tales that were held out from tiny-gpt's. Raises VizError for a
    model without a tokenizer, which reads no text.
    """
    _refuse_without_tokenizer(model)
    books = _books_beside(name)
    if books:
        return windows(encode_books(books, model.tokenizer), length, count), True
    tales = "\n\n".join(books_of(FOLDER / TALES, None))
    return windows(np.array(model.tokenizer.encode(tales, special=False)), length, count), False


def held_out_text(model: Model, name: str) -> tuple[str, bool]:
    """A text that ships with the project for this model to read, and whether it was held out from its training.

    Of an encoder-decoder, lines with a tab between source and target: dates, where it was made for them; else sentences
    without a target. Raises VizError for a model without a tokenizer, which reads no text.
    """
    _refuse_without_tokenizer(model)
    if model.has_source:
        return _pairs_beside(name)
    books = _books_beside(name)
    return "\n\n".join(books or books_of(FOLDER / TALES, None)), bool(books)


def shipped_text(model: Model, name: str, rows: int) -> tuple[Text, str]:
    """The text by which heads of this model are named, and whose windows these are, as the end of a sentence.

    Of a model without a tokenizer, so many rows of random repeats; of all others, `held_out_text`.
    """
    if model.tokenizer is None:
        return text_of_repeats(model, rows)
    text, is_held_out = held_out_text(model, name)
    if model.has_source:
        return text, "of dates that were kept out of training" if is_held_out else "of sentences of fairy tales"
    return text, "of fairy tales" + (" that were kept out of training" if is_held_out else "")


def text_of_repeats(model: Model, rows: int) -> tuple[Text, str]:
    """Rows of random tokens that come again at once, and what they are, as `shipped_text`; an encoder-decoder reads the
    same tokens on both sides."""
    half = min(MOST_HALF, model.config.context_length // 2)
    made = repeats(model, rows, half)
    text = [(row[:half], row[:half]) for row in made] if model.has_source else made
    return text, f"of {half} random tokens and the same {half} tokens again"


@lru_cache(4)
def _pairs_beside(name: str) -> tuple[str, bool]:
    recipe = RECIPES.get(name)
    if recipe is not None and recipe.config.layout == "encoder-decoder":
        return "\n".join(f"{source.text}\t{day.isoformat()}" for day, source in in_turn(split_days()[1])), True
    sentences = re.findall(r"[^.!?\n]{20,200}[.!?]", "\n".join(books_of(FOLDER / TALES, None)))
    return "\n".join(sentence.strip() for sentence in sentences), False


def _refuse_without_tokenizer(model: Model) -> None:
    if model.tokenizer is None:
        raise VizError(f"{model.name} has no tokenizer, so it reads no text. Choose a model with one.")


def _books_beside(name: str) -> list[str]:
    """Books of the held-out text of a model of the catalogue; none where there is no such text."""
    folders = [entry.folder for entry in catalogue() if entry.name == name and entry.folder]
    try:
        return books_of(folders[0], None) if folders else []
    except TrainingError:
        return []
