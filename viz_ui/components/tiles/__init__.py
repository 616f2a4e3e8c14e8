"""Attention in tiles: the map and the ledger of running maximum and sum."""

from viz_ui.components.tiles.tiles import TilePicture, checked_rest, pack_tiles, tiles

__all__ = ["TilePicture", "checked_rest", "pack_tiles", "tiles"]
