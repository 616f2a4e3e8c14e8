"""Linked pictures of one head: matrix, lines, bars."""

from viz_ui.components.panels.panels import (
    EXACT_CELLS,
    Bars,
    Lines,
    Matrix,
    Symbol,
    checked_open,
    checked_pick,
    pack_items,
    panels,
)

__all__ = ["EXACT_CELLS", "Bars", "Lines", "Matrix", "Symbol", "checked_open", "checked_pick", "pack_items", "panels"]
