"""The tensors of a block around the residual stream."""

from viz_ui.components.shape_diagram.shape_diagram import (
    Add,
    Axis,
    Card,
    Diagram,
    Edge,
    Letter,
    Tensor,
    checked_pick,
    shape_diagram,
)

__all__ = ["Add", "Axis", "Card", "Diagram", "Edge", "Letter", "Tensor", "checked_pick", "shape_diagram"]
