"""Rows of the text that was held out from a model's training, where it lies beside the model."""

import numpy as np
from torch import Tensor

from viz_model.checkpoints import FOLDER, catalogue
from viz_model.errors import TrainingError, VizError
from viz_model.model import Model
from viz_model.training.data import encode_books
from viz_model.training.figures.report import books_of
from viz_model.training.loss import windows

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
    if model.tokenizer is None:
        raise VizError(f"{model.name} has no tokenizer, so it reads no text. Choose a model with one.")
    books = _books_beside(name)
    if books:
        return windows(encode_books(books, model.tokenizer), length, count), True
    tales = "\n\n".join(books_of(FOLDER / TALES, None))
    return windows(np.array(model.tokenizer.encode(tales, special=False)), length, count), False


def _books_beside(name: str) -> list[str]:
    """Books of the held-out text of a model of the catalogue; none where there is no such text."""
    folders = [entry.folder for entry in catalogue() if entry.name == name and entry.folder]
    try:
        return books_of(folders[0], None) if folders else []
    except TrainingError:
        return []
