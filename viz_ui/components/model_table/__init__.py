"""The table of models."""

from viz_ui.components.model_table.model_table import Act, Row, checked_act, model_table, pack_table

__all__ = ["Act", "Row", "checked_act", "model_table", "pack_table"]
