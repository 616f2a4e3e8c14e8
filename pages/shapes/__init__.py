"""The page Shapes: the running model as a diagram of its tensors."""
