"""The shapes of a pass: every tensor with its letters, its line of PyTorch, its cost."""
