"""Pieces of a page that several pages show."""
