"""The page Layouts: encoder-only, decoder-only and encoder-decoder models."""
