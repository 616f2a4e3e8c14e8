"""What is measured of a head, written out."""

import numpy as np


def loops(weights):
    """The measures of one (T,T) matrix, cell by cell."""
    length = len(weights)
    rows = [[float(a) for a in row] for row in weights]
    return {
        "entropy": sum(-a * np.log2(a) for row in rows for a in row if a > 0) / length,
        "first": sum(row[0] for row in rows) / length,
        "itself": sum(rows[i][i] for i in range(length)) / length,
        "previous": sum(rows[i][i - 1] for i in range(1, length)) / (length - 1) if length > 1 else np.nan,
    }
