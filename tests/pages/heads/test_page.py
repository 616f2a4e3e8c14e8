"""What the page Heads draws of a head and of all of them, against numpy; and what heads were found to do."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import softmax

import viz_model as vm
from pages.heads.head_values import DRAWN
from tests.support.head_measures import loops
from tests.support.page_parts import Noted, page_module, view_of
from tests.support.small_models import small_model
from viz_model.heads.names import HeadName, HeadNames
from viz_ui.parts.special_tokens import shown_tokens
from viz_ui.parts.weight_colours import WeightColours

LAYER, HEAD, QUERY, KEY = 1, 3, 4, 2
NAMES = HeadNames(
    "of a text",
    16,
    4096,
    tuple(
        tuple(HeadName(("induction",), "induction", 0.5 + (4 * layer + head) / 100, 0.4, 0.6) for head in range(4))
        for layer in range(2)
    ),
)
IDS = (5, 9, 11, 9, 4, 20, 8)


@pytest.fixture(scope="module")
def view():
    """Four heads that share two key/value heads."""
    model = vm.Model("small", small_model(context_length=64))
    return view_of(model, IDS, layer=LAYER, head=HEAD, query=QUERY, key=KEY)


@pytest.fixture
def drawn(monkeypatch):
    """The page's module, and what it drew."""
    page, noted = page_module("heads"), Noted()
    for name in ("panels", "head_grid", "open_noted_matrix", "say_hidden", "st", "grid_pictures", "measured"):
        monkeypatch.setattr(page, name, noted if name == "st" else getattr(noted, name), raising=True)
    return page, noted


def expected(view):
    q, k, v = view.trace.q(LAYER)[HEAD].numpy(), view.trace.k(LAYER)[1].numpy(), view.trace.v(LAYER)[1].numpy()
    raw, mask = q @ k.T, np.tri(len(q), dtype=bool)
    scores = raw / np.sqrt(q.shape[1])
    masked = np.where(mask, scores, -np.inf)
    weights = softmax(masked, axis=1)
    lengths = np.linalg.norm(v, axis=1)
    names = ("raw scores", "scaled scores", "scores + mask", "weights", "value-weighted")
    return dict(zip(names, (raw, scores, masked, weights, weights * lengths), strict=True))


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("name", DRAWN)
def test_a_head_is_drawn_as_what_is_chosen_with_its_own_mask_and_scale(view, drawn, name, full):
    page, noted = drawn
    values, full = expected(view)[name], full and name == "weights"
    colours = WeightColours("linear", is_own=not full)
    page.draw_head(view, DRAWN[name], colours, shown_tokens(view.model, view.trace, "shown"))
    [((matrix, lines, bars),), options] = noted.of("panels")[0]
    np.testing.assert_allclose(matrix.values, values, atol=1e-5)
    is_hatched = name not in ("raw scores", "scaled scores")
    assert (matrix.allowed is not None) == is_hatched
    assert options["selected"] == (QUERY, KEY)
    assert lines.of == bars.of == matrix.name == name
    # the first query has one key to read: its weight is 1 in every head, and counts for nothing
    largest = values[1:].max() if name == "weights" else np.abs(values[np.isfinite(values)]).max()
    low = 0 if name in ("weights", "value-weighted") else -largest
    assert (matrix.low, matrix.high) == pytest.approx((0, 1) if full else (low, largest), abs=1e-5)
    formulas = {"raw scores": "QKᵀ", "scaled scores": "QKᵀ/√D", "scores + mask": "QKᵀ/√D + M",
                "weights": "softmax(QKᵀ/√D + M)", "value-weighted": "‖a·v‖"}  # fmt: skip
    assert matrix.caption.removeprefix("A = ").startswith(formulas[name])
    assert matrix.caption.endswith(f"(T, S) = {values.shape}")


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(7, 7), (5, 40)], ids=str)
def test_the_grid_says_its_scale_and_where_pixels_stand_for_several_cells(view, drawn, full, shape):
    page, noted = drawn
    queries, keys = (np.arange(length) for length in shape)
    pictures = np.zeros((2, 4, min(shape[0], 32), min(shape[1], 32)), np.uint8)
    page.grid_pictures = lambda *_: (pictures, None)
    colours = WeightColours("linear", is_own=not full)
    shown = SimpleNamespace(queries=queries, keys=keys, hiding="shown")
    page.draw_grid(view, DRAWN["weights"], colours, shown, None)
    [(_, options)] = noted.of("head_grid")
    assert (options["labels"], options["labels_from"]) == (None, "")
    assert (options["layer"], options["head"], options["key_heads"]) == (LAYER, HEAD, [0, 0, 1, 1])
    assert ("share one scale, from 0 to 1" in noted.words) == full
    assert ("pixel" in noted.words) == (max(shape) > 32)
    assert "4 heads" in noted.words
    assert "2 key/value heads" in noted.words


def test_the_table_has_a_row_for_each_head_with_its_own_numbers(view, drawn):
    page, noted = drawn
    measures = {name: np.arange(8).reshape(2, 4) + 100 * n for n, name in enumerate(loops(view.trace.weights(0, 0)))}
    page.measured = lambda _: measures
    page.draw_table(view, NAMES)
    [((table,), options)] = noted.of("dataframe")
    assert table["name"].tolist() == [str(NAMES.name(*place)) for place in np.ndindex(2, 4)]
    assert table["layer"].tolist() == [0] * 4 + [1] * 4
    assert table["head"].tolist() == [*range(4)] * 2
    for name, values in measures.items():
        assert table[name].tolist() == values.ravel().tolist()
    weights = [view.trace.weights(*place)[QUERY, KEY] for place in np.ndindex(2, 4)]
    np.testing.assert_allclose(table["cell"], weights, atol=1e-6)
    assert options["column_config"].pop("name")
    helps = {name: column["help"] for name, column in options["column_config"].items()}
    for name, word in {"entropy": "bits", "first": "first", "itself": "itself", "previous": "before"}.items():
        assert word in helps[name]
        assert sum(word in words for words in helps.values()) == 1 + (name == "first")  # the first query is left out


def test_a_head_has_the_notes_of_its_own_figures_from_three_tenths_on():
    page = page_module("heads")
    tables = {"previous_text": [[0.31, 0.29], [0.05, 0.72]], "induction": [[0.1, 0.9], [0.3, 0.02]]}
    model = SimpleNamespace(measured_heads=tables)
    found = {place: page.note(model, *place) for place in ((0, 0), (0, 1), (1, 0), (1, 1))}
    numbers = {
        place: [part for part in words.replace(",", "").split() if part[:2] == "0."] for place, words in found.items()
    }
    assert numbers == {(0, 0): ["0.31"], (0, 1): ["0.90"], (1, 0): ["0.30"], (1, 1): ["0.72"]}
    assert "previous token" in found[0, 0]
    assert "previous token" not in found[0, 1]


def test_notes_are_of_the_attention_that_was_measured():
    """An encoder-decoder has figures of its cross-attention alone."""
    page, config = page_module("heads"), SimpleNamespace(n_heads=2)
    model = SimpleNamespace(measured_heads={"year_letters": [[0.5, 0.1]]})
    for part in ("self", "cross", "encoder", "decoder"):
        seen = SimpleNamespace(model=model, part=part, trace=SimpleNamespace(config=config, n_layers=1))
        assert (page.notes(seen, None) is not None) == (part in ("self", "cross"))
        [[one, other]] = page.notes(seen, NAMES)
        assert one.startswith("induction (50.0%)")
        assert ("characters of the year" in one) == (part in ("self", "cross"))
        assert other == "induction (51.0%)"
    assert page.notes(SimpleNamespace(model=SimpleNamespace(measured_heads={}), part="self", trace=None), None) is None


def test_the_grid_says_where_its_names_come_from(view, drawn):
    page, noted = drawn
    page.grid_pictures = lambda *_: (np.zeros((2, 4, 3, 3), np.uint8), None)
    shown = SimpleNamespace(queries=np.arange(3), keys=np.arange(3), hiding="shown")
    page.draw_grid(view, DRAWN["weights"], WeightColours("linear", True), shown, NAMES)
    [(_, options)] = noted.of("head_grid")
    assert options["labels"][1] == [f"induction ({54 + head}.0%)" for head in range(4)]
    assert options["labels_from"] == "name from 16 windows (4,096 tokens) of a text"
