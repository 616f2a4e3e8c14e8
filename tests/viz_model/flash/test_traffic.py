"""The counts by formula against the published algorithms, run line by line over a memory that counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.properties import examples
from tests.support.published_attention import algorithm_0, algorithm_1_of_2022, algorithm_1_of_2023
from viz_model.errors import VizError
from viz_model.flash.traffic import (
    KEYS_OUTSIDE,
    QUERIES_OUTSIDE,
    matrix_flops,
    tile_sizes,
    tiled,
    tiled_bytes,
    written_out,
    written_out_bytes,
)

SIZE = st.integers(1, 12)


@given(numbers=st.integers(16, 5000), width=st.integers(1, 16))
def test_tiles_are_those_of_line_1_of_algorithm_1_also_where_nothing_divides(numbers, width):
    quarter = -(-numbers // (4 * width))  # ⌈M/4D⌉
    assert tile_sizes(numbers, width, KEYS_OUTSIDE) == (min(quarter, width), quarter)
    assert tile_sizes(numbers, width, QUERIES_OUTSIDE) == (quarter, min(quarter, width))


@examples(80)
@given(queries=SIZE, keys=SIZE, width=SIZE, value_width=SIZE, rows=SIZE, columns=SIZE)
def test_every_formula_is_the_count_of_its_algorithm(queries, keys, width, value_width, rows, columns):
    random = np.random.default_rng(0)
    sizes = ((queries, width), (keys, width), (keys, value_width))
    query, key, value = (random.normal(size=size) for size in sizes)
    everything = np.ones((queries, keys), bool)
    for memory, formula in (
        (algorithm_0(query, key, value, everything), written_out(queries, keys, width, value_width)),
        (
            algorithm_1_of_2022(query, key, value, everything, rows, columns),
            tiled(queries, keys, width, rows, columns, KEYS_OUTSIDE, value_width),
        ),
        (
            algorithm_1_of_2023(query, key, value, everything, rows, columns),
            tiled(queries, keys, width, rows, columns, QUERIES_OUTSIDE, value_width),
        ),
    ):
        assert (formula.read, formula.written) == (memory.read, memory.written)


def test_theorem_2_at_the_sizes_of_the_paper():
    """GPT-2 medium's heads on an A100 (Dao et al. 2022, Figure 2 and §2.1): D = 64, 192 KB, numbers of two bytes."""
    fast_numbers = 192 * 1024 // 2
    assert tile_sizes(fast_numbers, 64, KEYS_OUTSIDE) == (64, 384)
    assert tile_sizes(fast_numbers, 64, QUERIES_OUTSIDE) == (384, 64)
    for order in (KEYS_OUTSIDE, QUERIES_OUTSIDE):
        # Θ(N²d²/M): twice the tokens, four times the traffic; half the memory, twice the traffic (while D < M/4D)
        at = [tiled_bytes(n, n, 64, 192 * 1024, 2, order) for n in (2**16, 2**17)]
        assert at[1] / at[0] == pytest.approx(4, rel=0.02)
        halved = tiled_bytes(2**17, 2**17, 64, 96 * 1024, 2, order)
        assert halved / at[1] == pytest.approx(2, rel=0.02)
        assert at[1] < written_out_bytes(2**17, 2**17, 64, 2) / 3


def test_the_largest_terms_are_those_of_the_theorem():
    """Θ(Nd + N²) written out; N²d²/M times 12 with keys outside (Q and O in, O out, a little for l and m), else 8."""
    tokens, width, fast_numbers = 2**20, 64, 2**16
    assert written_out(tokens, tokens, width).total / tokens**2 == pytest.approx(4, rel=1e-3)
    for order, factor in ((KEYS_OUTSIDE, 12 * (1 + 4 / (3 * width))), (QUERIES_OUTSIDE, 8)):
        found = tiled(tokens, tokens, width, *tile_sizes(fast_numbers, width, order), order).total
        assert found / (tokens**2 * width**2 / fast_numbers) == pytest.approx(factor, rel=1e-3)


def test_flops_are_those_that_flash_attention_2_reports_by():
    """§4.1: 4 · seqlen² · head dimension · number of heads, forward."""
    assert 16 * matrix_flops(2048**2, 64) == 4 * 2048**2 * 64 * 16


def test_a_memory_without_room_for_a_row_is_refused():
    with pytest.raises(VizError, match="does not hold one row of D = 64"):
        tile_sizes(63, 64)
    with pytest.raises(VizError, match="no order of loops 'inside out'"):
        tiled(4, 4, 4, 2, 2, "inside out")
