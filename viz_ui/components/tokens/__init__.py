"""Tokens to point at: in a row, in another order, with their targets."""
