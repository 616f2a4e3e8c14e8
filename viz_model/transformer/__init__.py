"""Our own Transformer: small, every tensor visible, readable in one sitting."""

from viz_model.transformer.config import TransformerConfig
from viz_model.transformer.encoder_decoder import EncoderDecoder
from viz_model.transformer.transformer import Transformer

__all__ = ["EncoderDecoder", "Transformer", "TransformerConfig", "make_transformer"]


def make_transformer(config: TransformerConfig) -> Transformer | EncoderDecoder:
    """The model of a configuration, with fresh weights."""
    return (EncoderDecoder if config.layout == "encoder-decoder" else Transformer)(config)
