"""Blocks of one or two stacks as a diagram."""

from viz_ui.components.layout_diagram.layout_diagram import (
    Box,
    DiagramBlock,
    DiagramStack,
    Half,
    Layout,
    Picture,
    boxes,
    layout_diagram,
    pack_layouts,
)

__all__ = [
    "Box",
    "DiagramBlock",
    "DiagramStack",
    "Half",
    "Layout",
    "Picture",
    "boxes",
    "layout_diagram",
    "pack_layouts",
]
