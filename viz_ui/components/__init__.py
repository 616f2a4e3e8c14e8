"""Components v2 of the explorer: arrays and strings in, events out. None of them knows a model."""
