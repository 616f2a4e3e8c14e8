"""A matrix of words on coloured grounds."""

from viz_ui.components.word_matrix.word_matrix import OPEN, TURN, WordMatrix, checked_pick, pack_words, word_matrix

__all__ = ["OPEN", "TURN", "WordMatrix", "checked_pick", "pack_words", "word_matrix"]
