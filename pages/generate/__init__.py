"""The page Generate: a token a step, the growing cache, and how the next token is drawn."""
