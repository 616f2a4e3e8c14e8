"""What the components of the page Positions believe of a browser, orders in the address, and merged lists of sites."""

import pytest

from pages.positions.where_they_enter import merged
from pages.positions.word_order import read_order
from viz_ui.components.rotary_pairs import Moved, Reach, checked_move
from viz_ui.components.tokens.token_order import checked_order

REACH = Reach(least=0, most=100, furthest=50)


def test_an_honest_move_is_taken():
    assert checked_move([7, -5, 2, 1], 5, 3, REACH) == (Moved(7, -5, 2), 1)


@pytest.mark.parametrize(
    "value",
    [None, "x", [1, 2, 3], [1, 2, 3, 0], [51, 0, 0, 1], [0, -6, 0, 1], [0, 96, 0, 1], [0, 0, 3, 1], [0.5, 0, 0, 1]],
    ids=repr,
)
def test_a_forged_move_is_none(value):
    assert checked_move(value, 5, 3, REACH) is None


def test_what_an_address_asks_for_is_brought_into_reach():
    assert REACH.fitting(Moved(999, 999, 99), own=5, pairs=3) == Moved(50, 95, 2)
    assert REACH.fitting(Moved(-1, -999, -1), own=5, pairs=3) == Moved(0, -5, 0)


def test_an_honest_order_is_taken():
    assert checked_order([[2, 0, 1], 4], 3) == ((2, 0, 1), 4)


@pytest.mark.parametrize(
    "value",
    [None, [[0, 1, 2]], [[0, 1], 1], [[0, 1, 1], 1], [[0, 1, 3], 1], [[0, 1, 2], 0], [[0, 1, 2.0], 1], ["012", 1]],
)
def test_a_forged_order_is_none(value):
    assert checked_order(value, 3) is None


@pytest.mark.parametrize(
    ("text", "order"),
    [("2-0-1", (2, 0, 1)), ("", None), (None, None), ("2-0", None), ("0-0-1", None), ("2-0-1-", None), ("²-0-1", None)],
)
def test_orders_in_the_address(text, order):
    assert read_order(text, 3) == order


def test_what_only_one_list_has_stands_after_what_it_follows():
    assert merged([["a", "b", "d"], ["a", "c", "b", "d", "e"], ["x", "a"]]) == ["x", "a", "c", "b", "d", "e"]
