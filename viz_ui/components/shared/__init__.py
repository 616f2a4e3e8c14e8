"""What several components share."""
