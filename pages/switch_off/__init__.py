"""The page Switch off: what the model predicts without a head."""
