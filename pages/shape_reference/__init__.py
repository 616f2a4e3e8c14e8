"""The page Shape reference: every tensor with its letters, formula and numbers."""
