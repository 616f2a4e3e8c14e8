"""A pass taken apart: what each component of the residual stream adds to a score or to a logit."""
