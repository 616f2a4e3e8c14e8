"""What heads are built to do, from the weights alone: no text is read."""
