"""The page Quantization: weights on few levels, and what that changes."""
