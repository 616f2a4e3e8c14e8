"""What a checkpoint reached, measured anew: one module for each kind of model, and the command that prints it."""
