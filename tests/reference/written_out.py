"""Attention and rotation written out in numpy float64, straight from the papers, one row at a time."""

import numpy as np


def attention(query, key, value, mask=None, bias=None, scale=None, softcap=None, sinks=None):
    """(raw, scores, weights, mixed) of Vaswani et al. 2017, eq. 1, as loops over batch, head and query.

    A row without a permitted key has weights 0. Head h reads key head h // (H // G) (GQA, §2.2). softcap: as Gemma 2
    writes it, logits ← soft_cap · tanh(logits / soft_cap). sinks: one number a head in each row's denominator.
    """
    query, key, value = (np.asarray(x, dtype=np.float64) for x in (query, key, value))
    (batch, heads, queries, width), (_, groups, keys, _) = query.shape, key.shape
    shape = (batch, heads, queries, keys)
    mask = np.broadcast_to(True if mask is None else np.asarray(mask), shape)
    bias = np.broadcast_to(0.0 if bias is None else np.asarray(bias, dtype=np.float64), shape)
    scale = 1 / np.sqrt(width) if scale is None else scale
    sinks = None if sinks is None else np.asarray(sinks, dtype=np.float64)
    raw, weights, mixed = np.zeros(shape), np.zeros(shape), np.zeros(query.shape)
    for b, h, t in np.ndindex(batch, heads, queries):
        g = h // (heads // groups)
        raw[b, h, t] = [query[b, h, t] @ key[b, g, s] for s in range(keys)]
        permitted = np.flatnonzero(mask[b, h, t])
        if len(permitted):
            row = raw[b, h, t, permitted] * scale
            row = (row if softcap is None else softcap * np.tanh(row / softcap)) + bias[b, h, t, permitted]
            largest = row.max() if sinks is None else max(row.max(), sinks[h])
            exponentials = np.exp(row - largest)
            of_sink = 0.0 if sinks is None else np.exp(sinks[h] - largest)
            weights[b, h, t, permitted] = exponentials / (exponentials.sum() + of_sink)
        mixed[b, h, t] = sum(weights[b, h, t, s] * value[b, g, s] for s in range(keys))
    return raw, raw * scale, weights, mixed


def rotated(x, positions, base, pairs):
    """RoFormer (Su et al. 2021), §3.2.2: each pair of numbers is a complex number times e^{i·m·theta}."""
    x = np.asarray(x, dtype=np.float64)
    width = x.shape[-1]
    theta = np.array([base ** (-2 * i / width) for i in range(width // 2)])
    first = [2 * i for i in range(width // 2)] if pairs == "neighbours" else list(range(width // 2))
    second = [i + 1 for i in first] if pairs == "neighbours" else [i + width // 2 for i in first]
    turned = (x[..., first] + 1j * x[..., second]) * np.exp(1j * np.outer(positions, theta))
    result = np.empty_like(x)
    result[..., first], result[..., second] = turned.real, turned.imag
    return result
