"""A mask that is drawn by hand."""

from viz_ui.components.mask_editor.mask_editor import checked_drawing, mask_editor, pack_editor

__all__ = ["checked_drawing", "mask_editor", "pack_editor"]
