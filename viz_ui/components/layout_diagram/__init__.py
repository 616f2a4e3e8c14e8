"""Blocks of one or two stacks as a diagram."""

from viz_ui.components.layout_diagram.layout_diagram import (
    Block,
    Box,
    Half,
    Layout,
    Picture,
    Stack,
    boxes,
    layout_diagram,
    pack_layouts,
)

__all__ = ["Block", "Box", "Half", "Layout", "Picture", "Stack", "boxes", "layout_diagram", "pack_layouts"]
