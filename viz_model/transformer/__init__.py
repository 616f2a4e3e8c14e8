"""Our own Transformer: small, every tensor visible, readable in one sitting."""

from viz_model.transformer.config import TransformerConfig
from viz_model.transformer.transformer import Transformer

__all__ = ["Transformer", "TransformerConfig"]
