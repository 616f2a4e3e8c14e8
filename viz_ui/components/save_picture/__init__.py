"""A button that saves a picture of the page."""

from viz_ui.components.save_picture.save_picture import save_picture

__all__ = ["save_picture"]
