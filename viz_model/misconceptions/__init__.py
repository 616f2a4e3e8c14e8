"""Experiments behind common claims on Transformers: one module a claim, each giving the numbers that answer it."""
