"""The page Over a text: what every head does on a whole text, pattern by pattern."""
