"""Curves of a training, with a step that is chosen."""

from viz_ui.components.training_curves.training_curves import Line, Plot, checked_step, pack_curves, training_curves

__all__ = ["Line", "Plot", "checked_step", "pack_curves", "training_curves"]
