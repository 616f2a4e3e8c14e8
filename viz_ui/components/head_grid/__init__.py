"""All heads of all layers as thumbnails."""

from viz_ui.components.head_grid.head_grid import checked_pick, head_grid, pack_grid

__all__ = ["checked_pick", "head_grid", "pack_grid"]
