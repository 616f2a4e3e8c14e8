"""Live trainings that a reader can ask for: random repeats, or a text of their own, and a model of a chosen size."""

from dataclasses import dataclass, replace

import numpy as np

from viz_model.errors import TrainingError
from viz_model.model.tokenizer import Tokenizer
from viz_model.training.data import LETTERS, encode_books
from viz_model.training.live import Plan
from viz_model.training.recipes import INDUCTION, Recipe, Stage
from viz_model.transformer import TransformerConfig

LONGEST_TEXT = 200_000  # characters

TEXT_STAGE = replace(INDUCTION.stages[0], objective="text", rows=16, length=64)


@dataclass(frozen=True)
class Size:
    """L, H, C of a model, and whether its blocks have a feed-forward half."""

    n_layers: int = INDUCTION.config.n_layers
    n_heads: int = INDUCTION.config.n_heads
    d_model: int = INDUCTION.config.d_model
    feed_forward: bool = False

    def config(self) -> TransformerConfig:
        """The config of the bundled `induction`, in this size; raises ConfigError where it contradicts itself."""
        d_ff = 4 * self.d_model if self.feed_forward else 0
        sizes = {"n_layers": self.n_layers, "n_heads": self.n_heads, "n_kv_heads": None, "d_model": self.d_model}
        return replace(INDUCTION.config, **sizes, d_ff=d_ff)


def repeats_plan(size: Size, steps: int, seed: int, watched: str) -> Plan:
    """Learn to continue random segments that come again, as the bundled `induction` did."""
    return _plan(size, INDUCTION.stages[0], steps, seed, watched, np.zeros(0, np.uint16), LETTERS)


def text_plan(size: Size, steps: int, seed: int, watched: str, text: str) -> Plan:
    """Learn the next characters of a text, byte by byte. Raises TrainingError where it is too long or too short."""
    if len(text) > LONGEST_TEXT:
        raise TrainingError(
            f"The text has {len(text):,} characters, but a live training reads at most {LONGEST_TEXT:,}. Shorten it."
        )
    stream = encode_books([text], Tokenizer.of_bytes())
    if len(stream) <= TEXT_STAGE.length:
        raise TrainingError(
            f"The text has only {len(stream) - 1:,} bytes, but one row of the training needs {TEXT_STAGE.length}. "
            "Paste a longer text, a page or more."
        )
    return _plan(size, TEXT_STAGE, steps, seed, watched, stream, np.unique(stream[1:]).astype(np.int64))


def _plan(size: Size, stage: Stage, steps: int, seed: int, watched: str, stream: np.ndarray, characters) -> Plan:
    ids = tuple(Tokenizer.of_bytes().encode(watched))
    if not 2 <= len(ids) <= stage.length:
        raise TrainingError(
            f"The text to watch has {len(ids)} byte{'s' * (len(ids) != 1)}. It must have 2 to {stage.length}, "
            f"because a row of the training has {stage.length}."
        )
    recipe = Recipe(size.config(), (replace(stage, steps=steps),), seed=seed)
    return Plan(recipe, stream, ids, characters)
