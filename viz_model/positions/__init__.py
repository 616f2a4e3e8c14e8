"""Experiments with positions: other schemes, their tables, rotation, texts past the trained length."""
