"""Training: recipes, objectives, the loop, a training that one watches, and figures of what came out."""
