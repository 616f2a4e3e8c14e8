"""What the component `panels` sends, refuses and believes; tests/browser looks at what it draws."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.blobs import received
from viz_ui.components.panels import EXACT_CELLS, checked_open, checked_pick, pack_items
from viz_ui.components.panels.panel_items import Bars, Lines, Matrix, Symbol, check_items
from viz_ui.components.shared.packing import pack, unpack
from viz_ui.look.colours import ROLES, diverging_lut, sequential_lut

TOKENS = ("0 Once", "1 ·upon", "2 ·a")


def square(name="weights", values=None, tokens=TOKENS, **more):
    values = np.full((len(tokens), len(tokens)), 0.25) if values is None else values
    given = {"rows_are_queries": True, "columns_are_keys": True} | more
    return Matrix(name, name, values, tokens, tokens, **given)


@given(
    st.dictionaries(st.text(), st.text()),
    st.lists(st.floats(width=32, allow_nan=False), max_size=9),
    st.binary(max_size=5),
)
def test_pack_gives_back_header_and_arrays_and_aligns_them(header, floats, raw):
    floats, raw = np.array(floats, np.float32), np.frombuffer(raw, np.uint8)
    header = json.loads(json.dumps(header).encode().decode())
    blob = pack(header, floats, raw)
    length = int.from_bytes(blob[:4], "little")
    assert length % 4 == 0
    assert blob[4 + length :] == floats.tobytes() + raw.tobytes()
    text = blob[4 : 4 + length].decode()
    assert json.loads(text) == json.loads(json.dumps(header, ensure_ascii=False).encode(errors="replace"))


def test_pack_refuses_what_json_cannot_say():
    with pytest.raises(ValueError, match="JSON"):
        pack({"low": float("nan")})


def test_values_travel_exactly_up_to_the_limit_and_in_three_digits_above():
    rng = np.random.default_rng(0)
    for length, tolerance in ((128, 0), (129, 5e-4)):
        size = 10.0 ** rng.integers(-4, 4, (length, length))
        values = (rng.choice([-1, 1], size.shape) * rng.uniform(1, 9, size.shape) * size).astype("f4")
        tokens = [f"{i} x" for i in range(length)]
        got, _ = received(pack_items([square("raw", values, tokens, scale="diverging")]))["raw"]
        assert (length * length > EXACT_CELLS) == (tolerance > 0)
        np.testing.assert_allclose(got, values, rtol=tolerance, atol=0)


def test_masked_cells_do_not_travel_and_may_be_minus_infinity():
    allowed = np.tril(np.ones((3, 3), bool))
    values = np.where(allowed, [[1.0, 2, 3], [4, 5, 6], [7, 8, 9]], -np.inf)
    blob = pack_items([square("scores", values, scale="diverging", allowed=allowed)])
    got, mask = received(blob)["scores"]
    np.testing.assert_array_equal(mask, allowed)
    np.testing.assert_array_equal(got, np.where(allowed, values, 0))
    header, _ = unpack(blob)
    assert header["values"][0]["count"] == 6
    assert (header["items"][0]["low"], header["items"][0]["high"]) == (-9, 9)


def test_what_several_panels_share_travels_once():
    allowed = np.tril(np.ones((3, 3), bool))
    raw = np.arange(9.0).reshape(3, 3)
    items = [
        square("raw", raw, scale="diverging"),
        Symbol("÷ √D"),
        Matrix("scores", "s", None, TOKENS, TOKENS, same_as="raw", factor=0.5, allowed=allowed),
        square(allowed=allowed.copy()),
        Lines("lines", "l"),
    ]
    header, _ = unpack(blob := pack_items(items))
    assert (len(header["values"]), len(header["masks"]), len(header["labels"])) == (2, 1, 1)
    np.testing.assert_array_equal(received(blob)["scores"][0], raw / 2)
    assert header["items"][3]["mask"] == header["items"][2]["mask"] == 0


def test_zeros_are_told_from_what_float16_rounds_to_zero():
    tokens = [str(i) for i in range(200)]  # more cells than travel as float32
    values = np.zeros((200, 200))
    values[0, :3] = 1.0, 1e-14, 0.0
    allowed = np.ones((200, 200), bool)
    blob = pack_items([square("change", values, tokens, scale="diverging", allowed=allowed, mark_zeros=True)])
    header, body = unpack(blob)
    np.testing.assert_array_equal(received(blob)["change"][0][0, :3], [1, 0, 0])  # the numbers alone cannot say it
    sizes = [-(-entry["cells"] // 8) for entry in header["masks"]]
    start = len(body) - 2 * 768 - sum(sizes) + sum(sizes[: header["items"][0]["nonzero"]])
    bits = np.unpackbits(np.frombuffer(body, np.uint8, sizes[0], start))[: values.size].reshape(values.shape)
    np.testing.assert_array_equal(bits.astype(bool), values != 0)
    assert unpack(pack_items([square()]))[0]["items"][0]["nonzero"] is None


def test_two_hundred_and_fifty_six_tokens_stay_under_400_kilobytes():
    tokens = [f"{i} ·token" for i in range(256)]
    dims = [str(d) for d in range(32)]
    square_values, allowed = np.zeros((256, 256)), np.tril(np.ones((256, 256), bool))
    items = [Matrix(n, n, np.zeros((256, 32)), tokens, dims, rows_are_keys=True) for n in "qkv"]
    items += [square("raw", square_values, tokens), square("weights", square_values, tokens, allowed=allowed)]
    assert len(pack_items(items)) <= 400_000


@pytest.mark.parametrize(
    ("faulty", "words"),
    [
        ({"values": np.array([[0, np.nan, 0], [0, 0, 0], [0, 0, 0]])}, r"nan in the permitted cell \(0, 1\)"),
        ({"values": np.full((3, 3), -np.inf)}, "-inf"),
        ({"values": np.full((3, 3), np.inf), "allowed": np.zeros((3, 3), bool)}, "inf"),
        ({"values": np.zeros((3, 4))}, r"\(3, 4\)"),
        ({"values": np.zeros((0, 0)), "tokens": ()}, "no cells"),
        ({"allowed": np.ones((3, 2), bool)}, "allowed"),
        ({"allowed": np.ones((3, 3))}, "allowed"),
        ({"role": "colourful"}, "colourful"),
        ({"scale": "rainbow"}, "rainbow"),
        ({"same_as": "raw"}, "either"),
        ({"rows_are_keys": True}, "at once"),
        ({"factor": float("inf")}, "factor"),
    ],
)
def test_a_matrix_that_cannot_be_drawn_is_refused(faulty, words):
    with pytest.raises(ValueError, match=words):
        square(**faulty)


@pytest.mark.parametrize(
    ("items", "words"),
    [
        ([square(), square()], "same name"),
        ([square("scores"), Lines("lines", "l")], "'weights'"),
        ([Matrix("weights", "w", np.zeros((3, 1)), TOKENS, ["0"]), Bars("b", "b")], "queries by keys"),
        ([Matrix("m", "m", None, TOKENS, TOKENS, same_as="gone")], "gone"),
        ([square(), Matrix("m", "m", None, TOKENS, ["0"], same_as="weights")], "shape"),
        ([square(allowed=np.eye(3, dtype=bool)), Matrix("m", "m", None, TOKENS, TOKENS, same_as="weights")],
         "masked"),
        ([square(low=2, high=1)], "scale from"),
        ([square(scale="diverging", low=-1, high=2)], "centre"),
    ],
)  # fmt: skip
def test_items_that_do_not_fit_together_are_refused(items, words):
    with pytest.raises(ValueError, match=words):
        pack_items(items)


ITEMS = [
    Matrix("q", "Q", np.zeros((3, 2)), TOKENS, ("0", "1"), rows_are_queries=True),
    Matrix("k", "K", np.zeros((3, 2)), TOKENS, ("0", "1"), rows_are_keys=True),
    square(),
    Bars("bars", "b"),
]


@pytest.mark.parametrize(
    ("panel", "row", "column", "query", "key"),
    [
        ("weights", 2, 1, 2, 1),
        ("weights", 2, None, 2, None),
        ("weights", None, 1, None, 1),
        ("q", 2, 1, 2, None),
        ("k", 2, 1, None, 2),
        ("bars", 0, 2, 0, 2),
    ],
)
def test_a_pick_says_what_it_means(panel, row, column, query, key):
    lie = {"query": 99, "key": "DROP"}  # what the browser claims of these is not asked
    value = {"panel": panel, "row": row, "column": column} | lie
    assert checked_pick(value, ITEMS, check_items(ITEMS)) == {
        "panel": panel, "row": row, "column": column, "query": query, "key": key,
    }  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"panel": "gone", "row": 0, "column": 0},
        {"panel": ["weights"], "row": 0, "column": 0},
        {"panel": "weights", "row": 3, "column": 0},
        {"panel": "weights", "row": -1, "column": 0},
        {"panel": "weights", "row": 0, "column": 1.5},
        {"panel": "weights", "row": True, "column": 0},
        {"panel": "weights", "row": None, "column": None},
        {"panel": "q", "row": 0, "column": 2},
    ],
)
def test_a_pick_that_cannot_be_is_not_believed(value):
    assert checked_pick(value, ITEMS, check_items(ITEMS)) is None


def test_only_a_matrix_can_be_opened():
    matrices = check_items(ITEMS)
    assert checked_open({"panel": "q", "more": 1}, ITEMS, matrices) == {"panel": "q"}
    assert checked_open({"panel": "bars"}, ITEMS, matrices) is None
    assert checked_open({"panel": "gone"}, ITEMS, matrices) is None


def contrast(one, other):
    """WCAG 2 contrast of two #rrggbb colours, 1 to 21."""

    def luminance(colour):
        channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", ROLES)
def test_role_colours_can_be_read_on_both_themes(name):
    role = ROLES[name]
    assert min(contrast(role.on_light, page) for page in ("#ffffff", "#f0f2f6")) >= 4.5
    assert min(contrast(role.on_dark, page) for page in ("#0e1117", "#262730")) >= 4.5
    assert contrast(role.hue, "#ffffff") >= 3  # frames and fills (WCAG 1.4.11)


def test_scales_end_and_middle_where_they_should():
    lightness = sequential_lut().astype(float) @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(lightness) > -1).all()  # brighter is more, all along
    assert lightness[-1] - lightness[0] > 150
    low, middle, high = diverging_lut()[[0, 128, 255]].astype(int)
    assert low[2] > low[0] + 100  # blue below
    assert high[0] > high[2] + 100  # red above
    assert np.ptp(middle) <= 2  # and no hue at all between
