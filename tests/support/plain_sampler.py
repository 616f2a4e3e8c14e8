"""Sampling written out in plain numpy, one token at a time, in the order of the papers."""

import numpy as np


def plain_sampler(logits, temperature, top_k, top_p):
    """What is drawn from: (V,); ties go to the smaller id."""
    logits = np.asarray(logits, np.float64)
    if temperature == 0:
        best = int(np.argmax(logits))
        return np.eye(len(logits))[best]
    order = likeliest_first(logits)[:top_k]
    exponentials = [np.exp((logits[token] - logits.max()) / temperature) for token in order]
    kept, mass = {}, 0.0
    for token, exponential in zip(order, exponentials, strict=True):
        if top_p < 1 and mass >= top_p:
            break
        kept[token] = exponential / sum(exponentials)
        mass += kept[token]
    result = np.zeros(len(logits))
    for token, share in kept.items():
        result[token] = share / sum(kept.values())
    return result


def plain_draw(logits, probabilities, draw):
    """The first token, from the likeliest on, at which the running sum exceeds `draw`."""
    running, last = 0.0, None
    for token in likeliest_first(np.asarray(logits)):
        if probabilities[token] > 0:
            running, last = running + probabilities[token], token
            if running > draw:
                break
    return last


def likeliest_first(logits):
    return sorted(range(len(logits)), key=lambda token: (-logits[token], token))
