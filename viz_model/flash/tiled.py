"""Exact attention of one head, tile by tile: the scores of a tile exist only while it is worked on.

The softmax of a row is put together from its parts: a running maximum m, a running sum l of exponentials, and an
output O that is rescaled whenever m grows (Milakov & Gimelshein 2018, "Online normalizer calculation for softmax",
Algorithm 3; Dao et al. 2022, "FlashAttention", Algorithm 1). As in Dao 2023, "FlashAttention-2", §3.1, O is divided by
l once, after the last tile of a row, and tiles in which every cell is masked are skipped.

T queries, S keys, D head width; a tile has R rows (queries) and C columns (keys).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, compress, product
from operator import not_

import torch
from torch import Tensor

from viz_model.errors import VizError
from viz_model.flash.traffic import QUERIES_OUTSIDE, Traffic
from viz_model.model.trace import Trace
from viz_model.transformer.attention import attention_weights, softmax_input


@dataclass(frozen=True, eq=False)
class OneHead:
    """What one head computes its attention from: query (T,D), key (S,D), value (S,D), allowed (T,S) booleans.

    softcap: scores are squeezed into ±softcap (Gemma 2). bias (T,S): numbers added to them. sink: one more score in
    every row, which takes weight and carries no value. None where the model has none of it.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    allowed: Tensor
    scale: float
    softcap: float | None = None
    bias: Tensor | None = None
    sink: float | None = None

    @classmethod
    def of(cls, trace: Trace, layer: int, head: int) -> "OneHead":
        """That head of a pass, in the part that the trace is seen through."""
        group, equation, sink = trace.config.kv_head(head), trace.equation(layer), trace.sink(layer, head)
        return cls(
            trace.q(layer)[head],
            trace.k(layer)[group],
            trace.v(layer)[group],
            trace.mask(layer),
            equation.scale,
            equation.softcap,
            trace.bias(layer, head),
            None if sink is None else sink.item(),
        )

    def scores(self, rows: slice, columns: slice) -> Tensor:
        """What goes into the softmax, before the mask, of some queries and keys: (R,C)."""
        bias = None if self.bias is None else self.bias[rows, columns]
        return softmax_input(self.query[rows] @ self.key[columns].T * self.scale, bias, self.softcap)

    def double(self) -> "OneHead":
        """The same in float64."""
        bias = None if self.bias is None else self.bias.double()
        wide = {"query": self.query.double(), "key": self.key.double(), "value": self.value.double(), "bias": bias}
        return replace(self, **wide)


@dataclass(frozen=True, eq=False)
class Tile:
    """One tile, and what it makes of the running numbers of its rows.

    scores (R,C): QKᵀ·scale, before the mask. allowed (R,C): booleans. exponentials (R,C): exp(scores − maximum), 0
    where masked. maximum, total (R,): m and l after this tile; rescaling (R,): exp(m before − m), what l and O of
    before are multiplied with. output (R,D): O after this tile, not divided by l.
    traffic: numbers moved so far, those of this tile included.
    """

    rows: range
    columns: range
    scores: Tensor
    allowed: Tensor
    exponentials: Tensor
    maximum: Tensor
    total: Tensor
    rescaling: Tensor
    output: Tensor
    traffic: Traffic


@dataclass(frozen=True, eq=False)
class TiledRun:
    """All tiles in the order in which they were worked on, those that were skipped, and the result (T,D)."""

    tiles: tuple[Tile, ...]
    skipped: tuple[tuple[range, range], ...]
    output: Tensor
    traffic: Traffic

    @property
    def cells(self) -> int:
        """Cells of the tiles that were worked on."""
        return sum(tile.scores.numel() for tile in self.tiles)


@dataclass(frozen=True)
class Agreement:
    """Largest differences over (T,D): tiled from written out, and of both from the same softmax in float64."""

    difference: float
    tiled_error: float
    written_out_error: float


def n_tiles(queries: int, keys: int, rows: int, columns: int) -> int:
    """How many tiles cover (T,S)."""
    return -(-queries // rows) * -(-keys // columns)


@torch.inference_mode()
def tiled_attention(head: OneHead, rows: int, columns: int, order: str = QUERIES_OUTSIDE) -> TiledRun:
    """softmax(QKᵀ·scale + M)·V of one head in tiles of `rows` × `columns`.

    order: which loop is the outer one (`traffic.ORDERS`). A row that may attend to nothing has m = −∞, l = 0 and
    output 0. Raises VizError for tiles without rows or columns.
    """
    if rows < 1 or columns < 1:
        raise VizError(f"A tile of {rows} × {columns} has no cells. Make it at least 1 × 1.")
    queries, keys = head.allowed.shape
    blocks = list(_blocks(queries, keys, rows, columns, order))
    read = [bool(head.allowed[_slice(own_rows), _slice(own_columns)].any()) for own_rows, own_columns in blocks]
    kept, skipped = list(compress(blocks, read)), tuple(compress(blocks, map(not_, read)))
    meter = _Meter(kept, head, order)
    running = _Running(head)
    tiles = tuple(running.take(*block, meter.after(at)) for at, block in enumerate(kept))
    return TiledRun(tiles, skipped, running.mixed(), meter.all)


@torch.inference_mode()
def agreement(run: TiledRun, written_out: Tensor, head: OneHead) -> Agreement:
    """How far a tiled run is from the A·V (T,D) of the written-out way, and each from float64."""
    wide, everything = head.double(), slice(None)
    sinks = None if head.sink is None else wide.query.new_tensor(head.sink)
    exact = attention_weights(wide.scores(everything, everything), head.allowed, sinks=sinks) @ wide.value
    return Agreement(
        difference=(run.output - written_out).abs().max().item(),
        tiled_error=(run.output - exact).abs().max().item(),
        written_out_error=(written_out - exact).abs().max().item(),
    )


class _Running:
    """m (T,), l (T,) and O (T,D) of all queries, while tiles come."""

    def __init__(self, head: OneHead):
        queries, width = len(head.query), head.value.shape[1]
        self.head = head
        self.maximum = head.query.new_full((queries,), -torch.inf if head.sink is None else head.sink)
        self.total = head.query.new_full((queries,), 0.0 if head.sink is None else 1.0)
        self.output = head.query.new_zeros(queries, width)

    def take(self, rows: range, columns: range, traffic: Traffic) -> Tile:
        """Work on one tile: new maxima, what was before rescaled to them, and the tile's own part added."""
        r, c = _slice(rows), _slice(columns)
        scores, allowed = self.head.scores(r, c), self.head.allowed[r, c]  # (R,C)
        permitted = scores.masked_fill(~allowed, -torch.inf)
        maximum = torch.maximum(self.maximum[r], permitted.amax(-1))  # (R,)
        shift = maximum.masked_fill(maximum == -torch.inf, 0.0)  # nothing permitted so far: −∞ − −∞ is no number
        rescaling = (self.maximum[r] - shift).exp()
        exponentials = (permitted - shift[:, None]).exp()
        total = rescaling * self.total[r] + exponentials.sum(-1)
        output = rescaling[:, None] * self.output[r] + exponentials @ self.head.value[c]  # (R,D)
        self.maximum[r], self.total[r], self.output[r] = maximum, total, output
        return Tile(rows, columns, scores, allowed, exponentials, maximum, total, rescaling, output, traffic)

    def mixed(self) -> Tensor:
        """O / l, 0 where nothing may be read: (T,D)."""
        return self.output / self.total.masked_fill(self.total == 0, 1.0)[:, None]


class _Meter:
    """Counts what each tile of a run moves; see `traffic.tiled` for what is counted in which order."""

    def __init__(self, kept: list[tuple[range, range]], head: OneHead, order: str):
        queries, self._width = head.query.shape
        self._value_width, self._by_queries = head.value.shape[1], order == QUERIES_OUTSIDE
        begun = Traffic(written=0 if self._by_queries else queries * (self._value_width + 2))  # O, m and l, still empty
        places = zip([None, *kept], kept, [*kept[1:], None], strict=False)
        self._after = list(accumulate((self._of(*near) for near in places), initial=begun))
        untouched = queries - sum(len(rows) for rows in {rows for rows, _ in kept})
        self.all = self._after[-1] + Traffic(written=self._by_queries * untouched * (self._value_width + 1))

    def after(self, tile: int) -> Traffic:
        return self._after[tile + 1]

    def _of(self, before, block, following) -> Traffic:
        rows, columns = block
        query, keys_and_values = len(rows) * self._width, len(columns) * (self._width + self._value_width)
        if self._by_queries:
            first, last = before is None or before[0] != rows, following is None or following[0] != rows
            return Traffic(first * query + keys_and_values, last * len(rows) * (self._value_width + 1))
        fresh, carried = before is None or before[1] != columns, len(rows) * (self._value_width + 2)
        return Traffic(fresh * keys_and_values + query + carried, carried)


def _blocks(queries: int, keys: int, rows: int, columns: int, order: str) -> Iterator[tuple[range, range]]:
    """All tiles as ranges of queries and keys; the last ones of a side may be smaller."""
    of_rows = [range(at, min(at + rows, queries)) for at in range(0, queries, rows)]
    of_columns = [range(at, min(at + columns, keys)) for at in range(0, keys, columns)]
    if order == QUERIES_OUTSIDE:
        return product(of_rows, of_columns)
    return ((own_rows, own_columns) for own_columns, own_rows in product(of_columns, of_rows))


def _slice(part: range) -> slice:
    return slice(part.start, part.stop)
