"""The page Positions: where a model gets the order of its tokens from."""
