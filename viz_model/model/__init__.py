"""The face that pages know: a model with its tokenizer, the trace of a pass, a generation."""

from viz_model.model.model import MOST_WRITTEN, Model

__all__ = ["MOST_WRITTEN", "Model"]
