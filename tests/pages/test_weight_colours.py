"""The scale of the weights: one choice for all pages that draw a head, and one that shows something to begin with."""

import numpy as np
import pytest

from tests.support.app import address_of, at, blobs_of, ids, opened
from viz_ui.components.shared.packing import unpack
from viz_ui.look.colours import colour_places
from viz_ui.parts import open_matrix

STORY = (
    "Once upon a time there was a king who had three daughters. They lived in a castle by the sea, and every day the "
    "youngest went to the well to fetch water for her father. One day she met an old woman, who asked her for a drink. "
) * 3
NAMES = {"heads": ["weights"], "inside_a_head": ["weights"], "masks": ["weights A", "weights B", "difference"]}


def drawn_items(test):
    """What is said of every matrix on the page, by its name."""
    headers = [unpack(blob)[0] for blob in blobs_of(test)]
    return {item["name"]: item for header in headers for item in header.get("items", []) if item["kind"] == "matrix"}


@pytest.mark.parametrize("page", NAMES)
def test_a_long_text_is_not_all_in_the_first_colour(page):
    assert len(ids(STORY)) > 120
    test = opened(page, **at(prompt=STORY, layer=3, head=1))
    items = drawn_items(test)
    assert {items[name]["law"] for name in NAMES[page]} == {"logarithmic"}
    weights = test.session_state.view.trace.weights(3, 1).numpy()[np.tri(len(ids(STORY)), dtype=bool)]
    seen = {law: (colour_places(weights, 0, 1, law) > 1 / 16).mean() for law in ("linear", "logarithmic")}
    assert seen["linear"] < 0.1, "what this is for"
    assert seen["logarithmic"] > 0.4
    for name, item in items.items():
        if name not in NAMES[page]:
            assert item["law"] == "linear", name


@pytest.mark.parametrize(("choice", "law", "high"), [
    ("linear", "linear", 1), ("square+root", "square root", 1), ("0 to 1", "linear", 1),
    ("logarithmic", "logarithmic", 1), ("own range", "linear", None),
])  # fmt: skip
def test_the_choice_is_the_same_on_all_pages_and_old_words_still_open(choice, law, high):
    choice = choice.replace("+", " ")
    for page, names in NAMES.items():
        test = opened(page, **at(prompt=STORY, layer=3, head=1), colours=choice)
        items = drawn_items(test)
        weights = test.session_state.view.trace.weights(3, 1).numpy()
        assert items[names[0]]["law"] == law
        # the first query has one key to read, whose weight is 1 in every head
        assert items[names[0]]["high"] == pytest.approx(high or weights[1:].max(), rel=1e-6)
        assert address_of(test)["colours"] == test.selectbox(key="colours").value


def test_a_short_text_keeps_the_even_scale():
    assert drawn_items(opened("heads"))["weights"]["law"] == "linear"


@pytest.mark.parametrize("page", NAMES)
def test_what_is_opened_large_has_the_scale_the_true_weights_and_says_of_what_it_is(page, monkeypatch):
    seen = []
    monkeypatch.setattr(open_matrix, "matrix_dialog", lambda values, *_, **named: seen.append((values, named)))
    test = opened(page, **at(prompt=STORY, layer=3, head=1), colours="square root")
    test.session_state["matrix_to_open"] = NAMES[page][0]
    test.run()
    assert not test.exception, test.exception
    [(values, named)] = seen
    np.testing.assert_array_equal(values, test.session_state.view.trace.weights(3, 1).numpy())
    assert named["law"] == "square root"
    assert named["caption"].startswith("Mask: causal. Text: Once upon a time")
    assert "drink." in named["caption"]
    assert "tiny-gpt, layer 3, head 1" in named["title"]
