"""The page Training: what each position is asked for, and a model that learns while one watches."""
