"""A button that takes a text file."""

from viz_ui.components.text_file.text_file import FileText, checked_file, text_file

__all__ = ["FileText", "checked_file", "text_file"]
