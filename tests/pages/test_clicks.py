"""What a click on a page chooses: of a cell that is drawn elsewhere than its place, of a row of a table, of a box."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pages.layouts import cross_attention
from pages.masks import sides
from pages.patching import prompts
from pages.patching.examples import PromptPair
from pages.positions import rotation, tables, word_order
from pages.prediction import sources
from pages.quantization import weights
from pages.training import targets, watched
from tests.support.page_parts import Noted, page_module
from viz_model.attribution.components import Component
from viz_model.masking.drawn_mask import encode_mask
from viz_ui.components.rotary_pairs import Moved
from viz_ui.frame import sidebar

CHOOSERS = ("choose", "choose_cell", "choose_head", "choose_head_to_read", "choose_pair", "choose_picked_cell")


@pytest.fixture
def clicked(monkeypatch):
    """Calls one function of a module; gives what was chosen by it, as (chooser, arguments, options)."""

    def click(module, function, *arguments, **session):
        noted = Noted()
        noted.session_state.update(session)
        for name in CHOOSERS:
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(noted, name))
        monkeypatch.setattr(module, "st", noted)
        (function if callable(function) else getattr(module, function))(*arguments)
        return noted.calls

    return click


@pytest.mark.parametrize(("event", "cell"), [((0, 2), (2, 1)), ((1, None), (0, None)), ((None, 0), (None, 2))], ids=str)
def test_a_cell_of_the_shuffled_matrix_is_the_tokens_that_stand_there(clicked, event, cell):
    query, key = event
    chosen = clicked(word_order, "_choose_moved", {"query": query, "key": key}, (2, 0, 1))
    assert chosen == [("choose_cell", cell, {})]


def test_only_positions_of_the_prompt_are_chosen_in_the_tables(clicked):
    shown = SimpleNamespace(query=0, key=0, ids=(5, 6, 7, 8))
    inside, row, outside = {"query": 3, "key": 2}, {"query": 2, "key": None}, {"query": 1, "key": 4}
    for event, told in ((inside, 1), (row, 1), (outside, 0)):
        assert len(clicked(tables, lambda event=event: tables._shared(shown)["on_pick"](event))) == told
    assert tables._shared(SimpleNamespace(query=3, key=1, ids=()))["selected"] == (3, 1)


@pytest.mark.parametrize(("event", "pair"), [((3, 7), (11, 71)), ((3, None), (11, None)), ((None, 7), (None, 71))])
def test_a_weight_is_counted_from_the_corner_of_its_matrix_not_of_what_is_drawn(clicked, event, pair):
    chosen = clicked(weights, "take_cell", dict(zip(("row", "column"), event, strict=True)), 8, 64)
    assert chosen == [("choose_pair", ("matrix_cell", *pair), {})]


def test_a_row_of_a_table_is_the_head_or_the_matrix_that_stands_in_it(clicked, monkeypatch):
    heads = page_module("heads")
    monkeypatch.setattr(heads, "marked_rows", lambda: [5])
    table = pd.DataFrame({"layer": [0, 0, 0, 1, 1, 1], "head": [0, 1, 2, 0, 1, 2]})
    assert clicked(heads, "take_row", table) == [("choose_head_to_read", (1, 2), {})]
    places = [SimpleNamespace(place=SimpleNamespace(local=f"matrix {n}", layer=10 + n)) for n in range(3)]
    assert clicked(weights, "take_row", places, matrices={"selection": {"rows": [2]}}) == [
        ("choose_head", (), {"layer": 12})
    ]
    assert weights.st.session_state.matrix == "matrix 2"


def test_a_digit_and_a_letter_are_a_cell_of_cross_attention(clicked):
    chosen = clicked(cross_attention, "_pick_cell", {"query": 3, "key": 1})
    assert chosen == [("choose_pair", ("cross_cell", 3, 1), {"instead": (cross_attention.FIRST_DIGIT, None)})]
    assert clicked(cross_attention, "_pick_head", 1, 3) == [("choose", (), {"cross_head": (1, 3)})]
    assert clicked(cross_attention, "_take", "3 May") == [("choose", (), {"source": "3 May", "cross_cell": None})]
    assert clicked(watched, "_pick_head", 1, 3) == [("choose", (), {"live_head": (1, 3)})]


def test_another_text_begins_with_a_cell_of_its_own(clicked):
    """The former cell says nothing of it."""
    examples = {"one": "a text", "two": "another text"}
    chosen = clicked(sidebar, "_take_example", examples=examples, example="two")
    assert chosen == [("choose", (), {"prompt": "another text", "cell": None})]
    model = SimpleNamespace(name="m", tokenizer=True, has_source=True, examples=examples)
    chosen = clicked(sidebar, "_begin_with_its_kind", model, prompt="of the former", examples={"": "of the former"})
    assert chosen == [("choose", (), {"prompt": "a text", "cell": None})]
    pair = PromptPair("words", "clean", "corrupted", (1, 0), (12, 2))
    answers = {"clean_answer": "", "corrupted_answer": ""}
    assert clicked(prompts, "_take", pair) == [
        ("choose", (), {"prompt": "clean", "other": "corrupted", "head": (1, 0), "cell": (12, 2)} | answers)
    ]


def test_a_target_is_a_query_of_the_stack_that_is_asked(clicked):
    assert clicked(targets, "pick_position", SimpleNamespace(part="self"), 4) == [("choose_cell", (), {"query": 4})]
    chosen = clicked(targets, "pick_position", SimpleNamespace(part="encoder"), 4)
    assert chosen == [("choose_cell", (), {"query": 4}), ("choose", (), {"part": "decoder"})]


def test_what_is_moved_or_drawn_is_kept_as_it_was_told(clicked):
    assert clicked(rotation, "_keep", Moved(1, -2, 3)) == [("choose", (), {"shift": 1, "apart": -2, "pair": 3})]
    assert clicked(word_order, "_keep_order", (2, 0, 1)) == [("choose", (), {"order": "2-0-1"})]
    assert clicked(word_order, "_shuffle", 7) == [("choose", (), {"shuffle": 7, "order": ""})]
    assert clicked(page_module("flash_attention"), "look_at", 5, 2) == [
        ("choose", (), {"tile": 5}), ("choose_cell", (), {"query": 2}),
    ]  # fmt: skip
    allowed = np.tri(3, dtype=bool)
    assert clicked(sides, lambda: sides.keep_drawing("B")(allowed)) == [
        ("choose", (), {"cells_b": encode_mask(allowed)})
    ]


def test_a_box_or_a_block_of_the_diagram_is_a_tensor_or_a_layer(clicked):
    shapes = page_module("shapes")
    assert clicked(shapes, "pick", "block", 2) == [("choose_head", (), {"layer": 2})]
    assert clicked(shapes, "pick", "tensor", "attn.q") == []
    assert shapes.st.session_state.node == "attn.q"


@pytest.mark.parametrize(
    ("cell", "chosen"),
    [
        ((0, 1), {"head": (1, 0), "cell": (5, 3)}),
        ((1, None), {"head": (0, 1)}),
        ((None, 0), {"cell": (5, 0)}),
        ((2, 0), {"cell": (5, 0)}),
        ((0, 3), {"head": (1, 0)}),
        ((0, 2), {"head": (1, 0)}),
    ],
)
def test_a_share_is_of_the_head_and_the_token_in_whose_place_it_stands(clicked, cell, chosen):
    """Rows go by size, columns are a choice; the last ones are of what is left, and the eighth column of no token."""
    found = SimpleNamespace(components=[Component("head", layer, head) for layer in (0, 1) for head in (0, 1)])
    cut = sources.Strongest(np.zeros((3, 4)), rows=(2, 1), columns=(0, 3, 7))
    view = SimpleNamespace(query=5, trace=SimpleNamespace(key_length=7))
    event = dict(zip(("row", "column"), cell, strict=True))
    assert clicked(sources, "take_cell", view, found, cut, event) == [("choose", (), chosen)]
