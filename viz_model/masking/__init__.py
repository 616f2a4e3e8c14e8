"""Masks that a reader chooses or draws, and how they are written into an address."""
