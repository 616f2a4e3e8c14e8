"""Intervals of a mean over windows, by drawing the windows again.

Expanded percentile intervals: Hesterberg 2015, "What Teachers Should Know About the Bootstrap". With few windows, plain
percentiles lie too close together.
"""

import math
from statistics import NormalDist

import numpy as np

FEWEST = 8  # windows: from fewer, no interval is told
DRAWS, SEED = 1000, 0
CONFIDENCE = 0.95


def interval(sums: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where Σ sums / Σ counts of the text would lie in 95 % of such samples: (N,…), (N,…) -> low and high (…).

    NaN where there are less than `FEWEST` windows with a count.
    """
    windows = len(sums)
    counts = np.broadcast_to(counts, sums.shape)
    few = (counts > 0).sum(0) < FEWEST
    if windows < FEWEST:
        return np.full(sums.shape[1:], np.nan), np.full(sums.shape[1:], np.nan)
    drawn = np.random.default_rng(SEED).multinomial(windows, [1 / windows] * windows, DRAWS).astype(float)
    tops, bottoms = (np.tensordot(drawn, numbers.astype(float), 1) for numbers in (sums, counts))
    with np.errstate(divide="ignore", invalid="ignore"):
        means = np.where(bottoms > 0, tops / bottoms, np.nan)
    tail = _tail(windows)
    low, high = np.nanquantile(means, (tail, 1 - tail), axis=0) if not few.all() else (means[0], means[0])
    return np.where(few, np.nan, low), np.where(few, np.nan, high)


def _tail(windows: int) -> float:
    """The share of draws that is left out on each side."""
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    return NormalDist().cdf(-math.sqrt(windows / (windows - 1)) * _student(z, windows - 1))


def _student(z: float, freedom: int) -> float:
    """The quantile of Student's t that the normal one z belongs to (Abramowitz and Stegun 1964, 26.7.5)."""
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))
