"""What the command prints of a checkpoint, and where the text lies that was held out from its training."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from viz_model.checkpoints import FOLDER
from viz_model.errors import TrainingError
from viz_model.training.data import split_books
from viz_model.training.recipes import RECIPES

HELD_OUT_FILE = "held-out.txt"

Table = list[list[float]]


@dataclass(frozen=True)
class Report:
    """Lines to print, and what was measured of each head: (L,H) tables."""

    lines: list[str]
    heads: dict[str, Table]


def table(values: Tensor) -> Table:
    """Figures of heads (L,H) as plain numbers with four decimals."""
    return np.round(values.numpy().astype(float), 4).tolist()


def best_heads(heads: dict[str, Table]) -> list[str]:
    """For each figure the head that reaches most, and the whole table."""
    lines = []
    for name, rows in heads.items():
        values = np.array(rows)
        layer, head = np.unravel_index(values.argmax(), values.shape)
        lines += [f"{name:<24} best {values.max():.3f}, layer {layer}, head {head}", str(values.round(2))]
    return lines


def books_of(folder: Path, text: Path | None) -> list[str]:
    """The held-out ends of a text's books, or those that lie beside the checkpoint.

    A bundled model that began with the weights of another was trained on the same text, which lies there only.
    Raises TrainingError where there is none.
    """
    if text is not None:
        return split_books(text.read_text("utf-8"))[1]
    recipe = RECIPES.get(folder.name)
    for place in (folder, FOLDER / recipe.begins_with if recipe and recipe.begins_with else folder):
        if (place / HELD_OUT_FILE).exists():
            return (place / HELD_OUT_FILE).read_text("utf-8").strip("\n").split("\n\n")
    raise TrainingError(f"There is no {HELD_OUT_FILE} in {folder}. Give the whole text: --text FILE")
