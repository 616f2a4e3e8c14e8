"""The page Inside a head: every matrix from Q, K and V to the mixed values."""
