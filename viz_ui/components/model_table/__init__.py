"""The table of models."""

from viz_ui.components.model_table.model_table import Act, ModelRow, checked_act, model_table, pack_table

__all__ = ["Act", "ModelRow", "checked_act", "model_table", "pack_table"]
