"""What the browser gets of a matrix of a long text: pooled, in parts, and the strongest keys, against numpy."""

import numpy as np
import pytest

import viz_model as vm
from tests.support.small_models import small_model
from viz_ui.components.panels import Bars, Lines, Matrix, checked_pick, pack_items
from viz_ui.components.panels.long_matrix import (
    BARS,
    KEYS_EACH,
    LINES_OF,
    MOST_CELLS,
    Part,
    around,
    fitted,
    is_long,
    layer,
    strongest,
    whole,
)
from viz_ui.components.panels.panels import checked_part, pack_part
from viz_ui.components.shared.packing import unpack

rng = np.random.default_rng(0)


def matrix(rows, columns=None, *, causal=True, values=None, **more):
    columns = columns or rows
    values = rng.normal(size=(rows, columns)).astype(np.float32) if values is None else values
    return Matrix(
        *("weights", "A", values, [f"{i} q" for i in range(rows)], [f"{j} k" for j in range(columns)]),
        rows_are_queries=True,
        columns_are_keys=True,
        allowed=np.tri(rows, columns, dtype=bool) if causal else None,
        **{"low": 0.0, "high": 4.0} | more,
    )


def received_layer(header, body, sent):
    """A layer's values, NaN where masked, read apart from the code that packs it."""
    at, values = 0, {}
    for half in (False, True):
        for number, entry in enumerate(header["values"]):
            if entry["half"] == half:
                raw = np.frombuffer(body, "<f2" if half else "<f4", entry["count"], at)
                values[number], at = raw.astype(float) * entry.get("unit", 1), at + raw.nbytes
    whole_shape, found = sent["shape"], values[sent["values"]]
    if sent["mask"] is None:
        return found.reshape(whole_shape)
    at += sum(-(-entry["cells"] // 8) for entry in header["masks"][: sent["mask"]])
    bits = np.unpackbits(np.frombuffer(body, np.uint8, -(-np.prod(whole_shape) // 8), at))[: np.prod(whole_shape)]
    result = np.full(whole_shape, np.nan)
    result[bits.reshape(whole_shape).astype(bool)] = found
    return result


@pytest.mark.parametrize("scale", ["sequential", "diverging"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("shape", [(500, 500), (300, 1000)], ids=str)
def test_the_whole_is_sent_as_the_strongest_cell_of_each_block(shape, causal, scale):
    ends = {"low": -9.0, "high": 9.0} if scale == "diverging" else {}
    long = matrix(*shape, causal=causal, scale=scale, **ends)
    header, body = unpack(pack_items([long], long=long))
    [item] = header["items"]
    sent = item["overview"]
    block = -(-max(shape) // MOST_CELLS)
    assert (sent["row"], sent["column"], sent["block"]) == (0, 0, block)
    assert max(sent["shape"]) <= MOST_CELLS
    got = received_layer(header, body, sent)
    allowed = np.ones(shape, bool) if long.allowed is None else long.allowed
    for down, right in rng.integers(0, sent["shape"], (400, 2)):
        cells = np.s_[down * block : (down + 1) * block, right * block : (right + 1) * block]
        permitted = long.values[cells][allowed[cells]]
        if not len(permitted):
            assert np.isnan(got[down, right])
            continue
        best = permitted[np.abs(permitted).argmax()] if scale == "diverging" else permitted.max()
        assert got[down, right] == pytest.approx(best, rel=6e-4)


@pytest.mark.parametrize(("size", "tolerance"), [(20, 0), (128, 0), (200, 6e-4)])
def test_a_part_of_few_tokens_has_its_own_cells(size, tolerance):
    """As float32 up to the size from which a short text's matrix travels as float16 too."""
    long = matrix(1000)
    part = fitted(Part(780, 590, size), long)
    header, body = unpack(pack_part(long, part, name="n", stamp="s"))
    sent, got = header["part"], received_layer(header, body, header["part"])
    cells = np.s_[sent["row"] : sent["row"] + size, sent["column"] : sent["column"] + size]
    assert (sent["block"], sent["row"], sent["column"]) == (1, 780, 590)
    wanted = np.where(long.allowed[cells], long.values[cells], np.nan)
    np.testing.assert_allclose(got, wanted, rtol=tolerance)


def test_blocks_of_a_part_begin_where_those_of_the_whole_do_and_the_whole_needs_no_part():
    long = matrix(2000)
    found = layer(long, Part(333, 777, 660))
    assert found.block == 3
    assert (found.row % 3, found.column % 3) == (0, 0)
    assert found.row <= 333 < found.row + 3
    assert found.row + 3 * found.values.shape[0] >= 333 + 660
    header, body = unpack(pack_part(long, whole(long), name="n", stamp="s"))
    assert (header["part"], body) == (None, b"")


@pytest.mark.parametrize("given", [(-5, 3, 50), (990, 990, 50), (0, 0, 10**9), (7, 7, -1), (2**70, 0, 1)])
def test_a_part_that_a_browser_asks_for_is_brought_into_the_matrix(given):
    long = matrix(1000)
    part = fitted(checked_part(list(given)), long)
    assert 1 <= part.size <= 1000
    assert 0 <= part.row <= 1000 - part.size
    assert 0 <= part.column <= 1000 - part.size
    assert min(layer(long, part).values.shape) >= 1


@pytest.mark.parametrize("value", [None, {}, [1, 2], [1, 2, 3.0], [True, 0, 1], ["0", 0, 1], [0, 0, 1, 1]])
def test_what_is_no_part_is_not_believed(value):
    assert checked_part(value) is None


def test_bars_and_lines_have_the_strongest_keys_and_say_what_is_left_out():
    weights = rng.dirichlet(np.full(600, 0.05), size=600).astype(np.float32)
    long = matrix(600, values=weights, causal=False, low=0.0, high=1.0)
    header, body = unpack(pack_items([long, Lines("lines", "l"), Bars("bars", "b")], long=long, selected=(300, 2)))
    values = np.frombuffer(body, "<f4")[: sum(e["count"] for e in header["values"] if not e["half"])]
    lines, bars = header["items"][1]["strongest"], header["items"][2]["strongest"]
    [row] = bars["rows"]
    wanted = np.sort(np.argsort(-weights[300], kind="stable")[:BARS])
    assert (row["query"], row["keys"]) == (300, wanted.tolist())
    np.testing.assert_array_equal(values[-BARS:], weights[300][wanted])
    assert row["rest"]["count"] == 500
    assert row["rest"]["total"] + weights[300][wanted].sum(dtype=float) == pytest.approx(1, abs=1e-6)
    assert row["rest"]["largest"] == np.sort(weights[300])[-BARS - 1]
    assert [row["query"] for row in lines["rows"]] == list(range(276, 276 + LINES_OF))
    for row in lines["rows"]:
        least = np.sort(weights[row["query"]])[-KEYS_EACH]
        strong = np.flatnonzero(weights[row["query"]] >= max(least, 0.01))
        assert row["keys"] == strong.tolist()
        rest = np.delete(weights[row["query"]], strong)
        assert row["rest"]["total"] == pytest.approx(rest.sum(dtype=float), abs=1e-6)


def test_masked_keys_are_never_among_the_strongest_and_a_query_that_reads_nothing_has_none():
    values = np.full((400, 400), -np.inf, np.float32)
    allowed = np.zeros((400, 400), bool)
    allowed[5, [7, 3]], values[5, [7, 3]] = True, (-2.0, 1.0)
    long = Matrix(
        "scores", "s", values, ["q"] * 400, ["k"] * 400, scale="diverging", allowed=allowed,
        rows_are_queries=True, columns_are_keys=True,
    )  # fmt: skip
    found = strongest(long, 5, 1)
    assert (found.keys.tolist(), found.values.tolist(), found.count, found.largest) == ([7], [-2.0], 1, 1.0)
    assert strongest(long, 6, 9).keys.tolist() == []


def test_lines_are_of_queries_around_the_chosen_one_that_are_there():
    assert list(around(0, 300))[:2] == [0, 1]
    assert around(299, 300)[-1] == around(None, 300)[-1] == 299
    assert len(around(150, 300)) == LINES_OF
    assert list(around(2, 5)) == [0, 1, 2, 3, 4]


def test_a_click_on_a_block_means_the_cell_that_it_shows():
    long = matrix(1000)
    value = {"panel": "weights", "row": 500, "column": 20, "block": 5}
    cells = long.values[500:505, 20:25]
    down, right = np.unravel_index(cells.argmax(), cells.shape)
    assert checked_pick(value, [long], {"weights": long}) == {
        "panel": "weights", "row": 500 + down, "column": 20 + right, "query": 500 + down, "key": 20 + right,
    }  # fmt: skip
    corner = {"panel": "weights", "row": 0, "column": 995, "block": 10**9}  # a forged one is cut at the matrix' end
    assert checked_pick(corner, [long], {"weights": long})["row"] >= 995
    masked = checked_pick(value | {"row": 0, "column": 995}, [long], {"weights": long})
    assert (masked["row"], masked["column"]) == (0, 995)


@pytest.mark.parametrize(
    ("length", "causal", "of_the_whole", "of_a_part"),
    [(256, True, 36_000, 36_000), (256, False, 56_000, 66_000), (2048, True, 100_000, 36_000),
     (4096, False, 200_000, 66_000)],
)  # fmt: skip
def test_a_head_of_any_length_stays_small(length, causal, of_the_whole, of_a_part):
    tokens = [f"{i} ·token" for i in range(length)]
    values = np.broadcast_to(np.float32(1 / length), (length, length))
    allowed = np.tri(length, dtype=bool) if causal else None
    long = Matrix("weights", "A", values, tokens, tokens, rows_are_queries=True, columns_are_keys=True, allowed=allowed)
    assert is_long(long)
    items = [long, Lines("lines", "l"), Bars("bars", "b")]
    assert len(pack_items(items, long=long, selected=(40, 30))) <= of_the_whole
    assert len(pack_part(long, fitted(Part(40, 40, 128), long), name="n", stamp="s")) <= of_a_part


@pytest.mark.parametrize("length", [64, 1024])
def test_numbers_are_those_of_the_stored_pass(length):
    """A long prompt's weights are derived when they are asked for; what is shown of both is the same."""
    model = vm.Model("small", small_model(context_length=1024, position="rotary"))
    ids = rng.integers(0, model.config.vocab_size, length).tolist()
    shown = []
    for stored in (1 << 30, 0):
        trace = model.trace(ids, stored_weights_bytes=stored)
        assert trace.stored == bool(stored)
        weights, allowed = trace.weights(0, 1).numpy(), trace.mask(0).numpy()
        item = Matrix("weights", "A", weights, ["q"] * length, ["k"] * length, allowed=allowed,
                      rows_are_queries=True, columns_are_keys=True)  # fmt: skip
        assert is_long(item) == (length > MOST_CELLS)
        if length > MOST_CELLS:
            header, body = unpack(pack_part(item, Part(length - 100, length - 100, 100), name="n", stamp="s"))
            shown.append((received_layer(header, body, header["part"]), strongest(item, length - 1, 100).values))
        else:
            header, body = unpack(pack_items([item]))
            shown.append((np.frombuffer(body, "<f4", header["values"][0]["count"]),))
    for of_stored, of_derived in zip(*shown, strict=True):
        np.testing.assert_allclose(of_derived, of_stored, atol=1e-6)
