"""Rows of the text that was held out from a model's training, where it lies beside the model."""

from torch import Tensor

from viz_model.checkpoints import catalogue
from viz_model.errors import TrainingError
from viz_model.evaluation import windows
from viz_model.model import Model
from viz_model.training.data import encode_books
from viz_model.training.figures.report import books_of

WINDOWS, WINDOW = 4, 256  # so many stretches of so many tokens, evenly spread


def held_out_rows(model: Model, name: str) -> Tensor | None:
    """Ids (n,T) of stretches of the held-out text of the model called `name` in the catalogue; None without one."""
    if model.has_source or model.tokenizer is None:
        return None
    folders = [entry.folder for entry in catalogue() if entry.name == name and entry.folder]
    try:
        books = books_of(folders[0], None) if folders else []
    except TrainingError:
        return None
    return (
        windows(encode_books(books, model.tokenizer), min(WINDOW, model.config.context_length), WINDOWS)
        if books
        else None
    )
