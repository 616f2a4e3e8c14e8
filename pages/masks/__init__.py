"""The page Masks: one prompt and one head under two masks."""
