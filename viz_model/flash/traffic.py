"""What moves between slow and fast memory while one head computes its attention, in numbers.

Dao et al. 2022, "FlashAttention", counts these moves (§2.1 "GPU Memory Hierarchy", §3.2 "IO Complexity"): a slow memory
holds Q, K, V and O, a fast one of M numbers is where all is computed. Here every number that an algorithm of that paper
loads or stores counts once a load or store, nothing else does: `written_out` is its Algorithm 0, `tiled` its
Algorithm 1, or Algorithm 1 of Dao 2023, "FlashAttention-2", which has the two loops the other way round.

T queries, S keys, D head width. Nothing is skipped here; a run that skips masked tiles counts its own (`tiled.py`).
"""

from dataclasses import dataclass
from math import ceil

from viz_model.errors import VizError

QUERIES_OUTSIDE, KEYS_OUTSIDE = "queries outside", "keys outside"
ORDERS = (QUERIES_OUTSIDE, KEYS_OUTSIDE)


@dataclass(frozen=True)
class Traffic:
    """Numbers read from slow memory, and written to it."""

    read: int = 0
    written: int = 0

    @property
    def total(self) -> int:
        return self.read + self.written

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.read + other.read, self.written + other.written)


def written_out(queries: int, keys: int, width: int, value_width: int | None = None) -> Traffic:
    """Algorithm 0: Q, K in and QKᵀ out; QKᵀ in and softmax A out; A, V in and O out. Θ(T·D + T·S) numbers.

    value_width: D of V and O, where it is another one than that of Q and K.
    """
    value_width = value_width or width
    cells = queries * keys
    return Traffic(
        read=(queries + keys) * width + cells + cells + keys * value_width,
        written=cells + cells + queries * value_width,
    )


def tiled(
    queries: int,
    keys: int,
    width: int,
    rows: int,
    columns: int,
    order: str = QUERIES_OUTSIDE,
    value_width: int | None = None,
) -> Traffic:
    """Tiles of `rows` queries × `columns` keys, all of them read; Θ(T·S·D²/M) numbers when they fill M (Theorem 2).

    queries outside (2023): each query block is read once and written once, with the log of its sum; K and V are read
    for every one of them. keys outside (2022): K and V are read once; for each of their blocks all of Q, O and the
    running maxima and sums are read, and O, maxima and sums are written.
    """
    value_width = value_width or width
    keys_and_values = keys * (width + value_width)
    if _checked(order) == QUERIES_OUTSIDE:
        blocks = ceil(queries / rows)
        return Traffic(read=queries * width + blocks * keys_and_values, written=queries * (value_width + 1))
    blocks, carried = ceil(keys / columns), queries * (value_width + 2)  # carried: O, maxima and sums
    return Traffic(read=keys_and_values + blocks * (queries * width + carried), written=(1 + blocks) * carried)


def tile_sizes(fast_numbers: int, width: int, order: str = QUERIES_OUTSIDE) -> tuple[int, int]:
    """Rows and columns of the tiles that fill a fast memory of M numbers: line 1 of Algorithm 1 (2022).

    keys outside: C = ⌈M/4D⌉, R = min(⌈M/4D⌉, D), a quarter of M each for blocks of Q, K, V and O. queries outside: the
    two the other way round, for there the rows say how often K and V are read; Dao 2023, §3.3, chooses 64 or 128 by
    hand. Raises VizError below M = D, where not one row fits, and the theorem does not hold.
    """
    if fast_numbers < width:
        raise VizError(
            f"A fast memory of {fast_numbers:,} numbers does not hold one row of D = {width}. Make it larger."
        )
    outer = ceil(fast_numbers / (4 * width))
    inner = min(outer, width)
    return (outer, inner) if _checked(order) == QUERIES_OUTSIDE else (inner, outer)


def matrix_flops(cells: int, width: int, value_width: int | None = None) -> int:
    """QKᵀ and A·V over so many cells, a multiplication and an addition being two: 4·D a cell, tiled or not.

    So Dao 2023, §4.1, counts them: 4·T²·D a head, half of that where the causal mask lets half of it be skipped.
    """
    return 2 * cells * (width + (value_width or width))


def written_out_bytes(queries: int, keys: int, d_head: int, number_bytes: int = 4) -> int:
    """Bytes that one head moves when scores and weights are written out."""
    return number_bytes * written_out(queries, keys, d_head).total


def tiled_bytes(
    queries: int, keys: int, d_head: int, fast_bytes: int, number_bytes: int = 4, order: str = QUERIES_OUTSIDE
) -> int:
    """Bytes that one head moves with the tiles that fill a fast memory of `fast_bytes`; see `tile_sizes`."""
    rows, columns = tile_sizes(fast_bytes // number_bytes, d_head, order)
    return number_bytes * tiled(queries, keys, d_head, min(rows, queries), min(columns, keys), order).total


def _checked(order: str) -> str:
    if order not in ORDERS:
        raise VizError(f"There is no order of loops '{order}'. Choose one of: {', '.join(ORDERS)}.")
    return order
