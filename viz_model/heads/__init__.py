"""What can be said of one attention head: its matrices, its numbers, the arithmetic of a cell."""
