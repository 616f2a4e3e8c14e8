"""What tells encoders from decoders: words left out and guessed, and norms through the depth."""
