"""The page Models: what is there, and what can be fetched."""
