"""The page FlashAttention: a head worked out in tiles, kept while the reader steps, and its counts as texts."""

from dataclasses import dataclass
from math import ceil

import numpy as np
import streamlit as st
import torch
from torch import Tensor

from viz_model.flash import traffic
from viz_model.flash.tiled import Agreement, OneHead, TiledRun, agreement, n_tiles, tiled_attention
from viz_model.transformer.attention import attention_weights, mix
from viz_ui.components.tiles import TilePicture
from viz_ui.frame.edits import queries_with_set_weights
from viz_ui.frame.view import View
from viz_ui.look.text import counted, number

NUMBER_BYTES = 4  # float32, as the pass computes here
MOST_TILES = 1024  # steps that somebody would go through
MOST_NUMBERS = 4_000_000  # that travel to the browser at once


@dataclass(frozen=True)
class Tiling:
    """What the reader chose of the tiles."""

    rows: int
    columns: int
    order: str


def usual_side(length: int) -> int:
    """Rows or columns of a tile unless the reader says otherwise: at most eight tiles a side, none far below 4."""
    return ceil(length / max(1, min(8, length // 4)))


def refusal(view: View, tiling: Tiling) -> str:
    """Why these tiles cannot be stepped through, as a sentence; "" when they can."""
    queries, keys, _, width = sizes(view)
    count = n_tiles(queries, keys, tiling.rows, tiling.columns)
    if count > MOST_TILES:
        return (
            f"Tiles of {tiling.rows} × {tiling.columns} would take {count:,} steps; this page can show {MOST_TILES:,}. "
            "Make the tiles larger."
        )
    outputs = ceil(keys / tiling.columns) * queries * width
    if 2 * queries * keys + outputs > MOST_NUMBERS:
        return (
            f"The tiles of {queries:,} queries × {keys:,} keys have more numbers than a browser can take. "
            "Shorten the prompt, or give the tiles more columns."
        )
    return ""


def current_run(view: View, tiling: Tiling) -> tuple[TiledRun, Agreement]:
    """The head in these tiles, and how far it is from the full softmax; kept until another one is asked for."""
    trace, layer, head = view.trace, view.layer, view.head
    asked = (trace.tensors, trace.part, layer, head, tiling)
    kept = st.session_state.get("tiled_run")
    if kept is None or kept[0][0] is not asked[0] or kept[0][1:] != asked[1:]:
        one = OneHead.of(trace, layer, head)
        run = tiled_attention(one, tiling.rows, tiling.columns, tiling.order)
        written_out = mix(softmax_weights(view)[None], one.value[None])[0]
        kept = st.session_state.tiled_run = (asked, run, agreement(run, written_out, one))
    return kept[1:]


def softmax_weights(view: View) -> Tensor:
    """The softmax (T,S) that the tiles are compared with: the weights of the pass, but for those that an edit set."""
    trace, layer, head = view.trace, view.layer, view.head
    if not queries_with_set_weights(view.edits, trace.part, layer, head):
        return trace.weights(layer, head)
    with torch.inference_mode():
        scores = trace.softmax_input(layer, head)
        return attention_weights(scores, trace.mask(layer), sinks=trace.sink(layer, head))


def set_weights_words(view: View) -> str:
    """That tiles have no place for weights that an edit set; "" where it set none in this head."""
    queries = queries_with_set_weights(view.edits, view.part, view.layer, view.head)
    if not queries:
        return ""
    rows = f"{'query' if len(queries) == 1 else 'queries'} {', '.join(map(str, queries))}"
    return (
        f":orange-badge[not in the tiles] An edit sets weights of {rows} in this head. A tiled softmax never stores "
        "its weights, so none of them can be set. This page shows the head without the set weights. All other edits "
        "are made: Q, K and V are those of the edited pass."
    )


def telling_tile(run: TiledRun) -> int:
    """The tile to begin with: the one that rescales earlier tiles most, but not to nothing; else the last."""

    def smallest(tile) -> float:
        factors = tile.rescaling[(tile.rescaling > 0) & (tile.rescaling < 1)]
        return factors.min().item() if len(factors) else 1.0

    factors = [smallest(tile) for tile in run.tiles]
    return factors.index(min(factors)) if min(factors) < 1 else len(factors) - 1


def pictures(run: TiledRun) -> list[TilePicture]:
    """The tiles of a run in plain values."""
    return [
        TilePicture(
            rows=tile.rows,
            columns=tile.columns,
            scores=tile.scores.numpy(),
            allowed=tile.allowed.numpy(),
            exponentials=tile.exponentials.numpy(),
            maximum=tile.maximum.numpy(),
            total=tile.total.numpy(),
            rescaling=tile.rescaling.numpy(),
            output=tile.output.numpy(),
            read=NUMBER_BYTES * tile.traffic.read,
            written=NUMBER_BYTES * tile.traffic.written,
        )
        for tile in run.tiles
    ]


def agreement_words(found: Agreement) -> str:
    """A sentence that says, in numbers, that both ways compute the same."""
    return (
        f"**The same result.** In A·V, the tiled and the full-matrix method differ by at most "
        f"**{number(found.difference, 2)}**. Compared with a computation in 64 bits, the tiled method is off by "
        f"{number(found.tiled_error, 2)} and the full-matrix method by {number(found.written_out_error, 2)}. Both "
        "compute the same formula; only the rounding to 32 bits differs."
    )


def counts_table(view: View, run: TiledRun) -> str:
    """A table of what both ways move, keep and compute for this head, as Markdown."""
    queries, keys, *widths = sizes(view)
    cells, written = queries * keys, traffic.written_out(queries, keys, *widths)
    rows = (
        ("bytes read from slow memory", NUMBER_BYTES * written.read, NUMBER_BYTES * run.traffic.read),
        ("bytes written to slow memory", NUMBER_BYTES * written.written, NUMBER_BYTES * run.traffic.written),
        ("**bytes moved**", NUMBER_BYTES * written.total, NUMBER_BYTES * run.traffic.total),
        ("bytes of QKᵀ and A kept in slow memory", 2 * NUMBER_BYTES * cells, 0),
        ("FLOPs of QKᵀ and A·V", traffic.matrix_flops(cells, *widths), traffic.matrix_flops(run.cells, *widths)),
        ("exponentials", cells, run.cells + sum(len(tile.rows) for tile in run.tiles)),
    )
    head = f"| this head: T = {queries:,}, S = {keys:,}, D = {widths[0]} | full matrix | tiled |"
    lines = [f"| {words} | {without:,} | {tiled:,} |" for words, without, tiled in rows]
    return "\n".join([head, "|--|--:|--:|", *lines])


def counts_words(view: View, run: TiledRun, tiling: Tiling) -> str:
    """What the table means: arithmetic, traffic, and what larger tiles would change."""
    queries, keys, *widths = sizes(view)
    formula = "4·T·S·D" if len(set(widths)) == 1 else "2·T·S·(D + the width of a value)"
    flops = f"{formula} = {traffic.matrix_flops(queries * keys, *widths):,}"
    if run.skipped:
        count = len(run.skipped) + len(run.tiles)
        have, them = ("has", "this tile") if len(run.skipped) == 1 else ("have", "these tiles")
        words = (
            "**Tiles do not change the arithmetic of a cell**: if every cell were computed, each method would take "
            f"{flops} FLOPs. Here {len(run.skipped):,} of {counted(count, 'tile')} {have} only masked cells. "
            f"The tiled method skips {them} and takes only {traffic.matrix_flops(run.cells, *widths):,} FLOPs. "
        )
    else:
        words = f"**Tiles do not change the arithmetic**: each method takes {flops} FLOPs. "
    tiled, full = (each.total for each in (run.traffic, traffic.written_out(queries, keys, *widths)))
    words += (
        f"**Tiles change the traffic**: the tiled method moves {NUMBER_BYTES * tiled:,} bytes instead of "
        f"{NUMBER_BYTES * full:,}. "
    )
    if tiled > full:
        words += "Tiles as small as these save no traffic. "
    if tiling.order == traffic.QUERIES_OUTSIDE:
        rows = every(tiling.rows, "query", "queries")
        return words + f"K and V are read once for every {rows}, so with more rows in a tile, fewer bytes are moved."
    columns = every(tiling.columns, "key")
    return (
        words
        + f"Q, O, m and l are moved once for every {columns}, so with more columns in a tile, fewer bytes are moved."
    )


def every(count: int, noun: str, nouns: str = "") -> str:
    """The words after "every": "query", "12 queries"."""
    return noun if count == 1 else counted(count, noun, nouns)


def sizes(view: View) -> tuple[int, int, int, int]:
    """T, S, D, and the D of the values, of the chosen head."""
    trace = view.trace
    return trace.length, trace.key_length, trace.q(view.layer).shape[-1], trace.v(view.layer).shape[-1]


def traffic_curves(width: int, fast_bytes: int, lengths: np.ndarray) -> dict[str, np.ndarray]:
    """Bytes that a head moves over T = S, written out and in the tiles that fill the fast memory."""
    curves = {"full matrix": [traffic.written_out_bytes(n, n, width, NUMBER_BYTES) for n in lengths.tolist()]}
    for order in traffic.ORDERS:
        curves[f"tiled, {order}"] = [
            traffic.tiled_bytes(n, n, width, fast_bytes, NUMBER_BYTES, order) for n in lengths.tolist()
        ]
    return {name: np.array(values, dtype=float) for name, values in curves.items()}
