"""Puts the browser's address right without a step of Back."""

from viz_ui.components.address_bar.address_bar import address_bar

__all__ = ["address_bar"]
