"""Pairs of q and k that turn (RoPE)."""

from viz_ui.components.rotary_pairs.rotary_pairs import Moved, Pair, Reach, Token, checked_move, rotary_pairs

__all__ = ["Moved", "Pair", "Reach", "Token", "checked_move", "rotary_pairs"]
