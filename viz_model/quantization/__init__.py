"""Weights on few levels: their codes, products with them, and the quantized twin of a model."""
