"""The page Circuits: what heads are built to do, from the weights alone."""
