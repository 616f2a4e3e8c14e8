"""The page Heads: all heads as thumbnails and numbers, and the chosen one large."""
