"""FlashAttention: the same attention tile by tile, the bytes that it moves between two memories, and the time."""

import numpy as np
import streamlit as st

import viz_model as vm
from pages.flash_attention.measured import draw_measured
from pages.flash_attention.run import (
    MOST_TILES,
    NUMBER_BYTES,
    Tiling,
    agreement_words,
    counts_table,
    counts_words,
    current_run,
    pictures,
    refusal,
    set_weights_words,
    sizes,
    telling_tile,
    traffic_curves,
    usual_side,
)
from viz_model.flash import traffic
from viz_model.flash.timing import Shapes
from viz_model.model.formula import AttentionFormula
from viz_ui.components.tiles import tiles
from viz_ui.frame.address import bring_sidebar_along, choose, chosen_value, held, linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.forms import Whole
from viz_ui.frame.view import View, choose_cell, current_view
from viz_ui.look.formulas import coloured
from viz_ui.look.glossary import explained
from viz_ui.look.growth_figure import growth_figure
from viz_ui.look.text import counted

ONLINE_SOFTMAX = (
    r"m' = \max(m, \max S)",
    r"l' = e^{m-m'}\, l + \textstyle\sum e^{S-m'}",
    r"O' = e^{m-m'}\, O + e^{S-m'}\, V",
    r"\text{at the end } O / l",
)
A100_KILOBYTES = 192  # of each of its streaming multiprocessors (Dao et al. 2022, §2.1)
MOST_KILOBYTES = 100_000

SOURCES = (
    "The full-matrix method computes whole matrices, as the other pages show them. The fused function is "
    "scaled_dot_product_attention of torch, which chooses its own tiles. A time is the shortest of up to nine calls. "
    "Memory is the peak memory of torch, including the result. “Bytes moved” adds up the bytes of every load and "
    "every store, repeated ones included. Papers: Milakov and Gimelshein 2018, Algorithm 3 (online softmax); Dao et "
    "al. 2022, “FlashAttention”, Algorithms 0 and 1, Theorem 2 (with full matrices the bytes grow like "
    "T·D + T²; with tiles they grow like T²·D² divided by the size of the fast memory); Dao 2023, “FlashAttention-2”, "
    "Algorithm 1 and §3.1 (queries outside, one division, skipped tiles)."
)


def draw() -> None:
    view = current_view()
    st.title("FlashAttention")
    st.markdown(
        "**How can attention work without storing its whole matrix?** It goes tile by tile. A query keeps its "
        "maximum **m**, sum **l** and output **O**.",  # one line at 1280 pixels: the map below ends on the first screen
        help="A tile is a small block of the matrix. Each query keeps three things: its largest score so far (**m**), "
        "the sum of its exponentials so far (**l**) and its output so far (**O**). m′, l′ and O′ are the values "
        "after a tile. When m grows, l and O are rescaled to match.\n\n"
        + explained("score", "softmax", "value", "attention weight"),
    )
    with st.container(horizontal=True, horizontal_alignment="center", gap="large"):
        for formula in ONLINE_SOFTMAX:
            st.latex(coloured(formula), width="content")
    trace = view.trace
    tiling = choose_tiling(trace)
    problem = refusal(view, tiling)
    with main_picture():
        if words := set_weights_words(view):
            st.markdown(words)
        if problem:
            st.info(problem, icon=":material/grid_on:")
        elif trace.mask(view.layer).any():
            draw_tiles(tiling)
        else:
            st.info("Under this mask no query may read a key, so there is nothing to show.", icon=":material/grid_off:")
    draw_traffic(view, tiling, stepped=not problem)
    st.subheader("Time and memory on this machine")
    config = view.model.config
    causal = trace.mask_name == "causal"
    draw_measured(Shapes(config.n_heads, config.n_kv_heads, config.d_head, causal), trace.length)
    st.caption(SOURCES)


def choose_tiling(trace: vm.Trace) -> Tiling:
    """Rows, columns and the order of the loops; empty numbers are the usual ones."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        rows = tile_side("row", "Rows of a tile (queries)", "tile_rows", trace.length)
        columns = tile_side("column", "Columns of a tile (keys)", "tile_columns", trace.key_length)
        order = linked(
            st.segmented_control,
            "Loops",
            traffic.ORDERS,
            default=traffic.QUERIES_OUTSIDE,
            required=True,
            key="loops",
            help="- **queries outside**: the outer loop goes over the queries, the inner loop over the keys. So m, l "
            "and O of a query stay in fast memory until the query is done. This is the order of FlashAttention-2.\n"
            "- **keys outside**: the outer loop goes over the keys, the inner loop over the queries. So K and V are "
            "read once, and m, l and O go to slow memory and back. This is the order of the first FlashAttention.",
        )
    held("tile", Whole(0, MOST_TILES - 1))
    return Tiling(rows, columns, order)


def tile_side(noun: str, label: str, name: str, length: int) -> int:
    """Rows or columns of a tile, from 1 to all."""
    usual = usual_side(length)
    side = linked(
        st.number_input,
        label,
        1,
        length,
        value=None,
        key=name,
        placeholder=f"{usual}",
        help=f"If the box is empty, a tile has {counted(usual, noun)}. With this default, the matrix is cut into at "
        "most eight tiles in each direction.",
        width=190,
    )
    return side or usual


@st.fragment
def draw_tiles(tiling: Tiling) -> None:
    """Player, map and arithmetic: a fragment, so that stepping runs nothing else."""
    view = current_view()
    run, agrees = current_run(view, tiling)
    tile, sink = chosen_value("tile"), view.trace.sink(view.layer, view.head)
    tiles(
        pictures(run),
        run.skipped,
        view.labels,
        view.key_labels,
        moved=(NUMBER_BYTES * run.traffic.read, NUMBER_BYTES * run.traffic.written),
        tile=telling_tile(run) if tile is None else min(tile, len(run.tiles) - 1),
        query=view.query,
        start=(-np.inf, 0.0) if sink is None else (sink.item(), 1.0),
        score_formula=AttentionFormula.of(view.trace, view.layer).softmax_input,
        key="tiles",
        on_rest=look_at,
    )
    st.markdown(agreement_words(agrees))
    bring_sidebar_along()


def look_at(tile: int, query: int) -> None:
    choose(tile=tile)
    choose_cell(query=query)


def draw_traffic(view: View, tiling: Tiling, *, stepped: bool) -> None:
    """Bytes between the two memories: counted in the run above, and by formula over T."""
    st.subheader(
        "What moves between slow and fast memory",
        help="A GPU has a large slow memory, which holds whole matrices, and a small fast memory next to its "
        "arithmetic units. Numbers must be moved from one to the other.\n\n" + explained("FLOP"),
    )
    with st.container(horizontal=True, gap="medium"):
        if stepped:
            with st.container(key="flash_side_table"):
                run, _ = current_run(view, tiling)
                st.markdown(counts_table(view, run))
                st.markdown(counts_words(view, run, tiling))
        with st.container(key="flash_side_curves"):
            draw_curves(view)


def draw_curves(view: View) -> None:
    """Bytes over T for a fast memory of the reader's."""
    kilobytes = linked(
        st.number_input,
        "Fast memory in KB of 1,024 bytes",
        1,
        MOST_KILOBYTES,
        A100_KILOBYTES,
        key="fast_memory",
        help="Each processor of an A100 GPU has 192 KB of fast memory (Dao et al. 2022, §2.1).",
        width=250,
    )
    fast_numbers, (length, _, width, _) = 1024 * kilobytes // NUMBER_BYTES, sizes(view)
    lengths = np.unique(np.geomspace(min(16, length), 2**16, 60).round().astype(int))
    try:
        rows, columns = traffic.tile_sizes(fast_numbers, width, traffic.QUERIES_OUTSIDE)
        curves = traffic_curves(width, 1024 * kilobytes, lengths)
    except vm.VizError as error:
        st.info(str(error), icon=":material/memory:")
        return
    figure = growth_figure(lengths, curves, length=length, unit="bytes moved, one head")
    st.plotly_chart(figure, key="traffic", config={"displaylogo": False})
    st.caption(
        f"The curves are for T = S and D = {width}, and no tile is skipped. The fast memory holds N = {fast_numbers:,} "
        f"numbers. With “{traffic.QUERIES_OUTSIDE}”, a tile has ⌈N/4D⌉ = {rows:,} rows and min(⌈N/4D⌉, D) = "
        f"{columns:,} columns. With “{traffic.KEYS_OUTSIDE}”, a tile has {columns:,} rows and {rows:,} columns."
    )


draw()
