"""The page Prediction: what the stream would predict after each layer, and what adds to a logit."""
