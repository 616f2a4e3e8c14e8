"""What a model would say otherwise: it runs again with something changed, and both passes are compared."""
