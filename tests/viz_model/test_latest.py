"""Keeping the latest: how many stay, which goes first, how often a value is made, and who waits for whom."""

import gc
import threading
import weakref

import pytest

from tests.support.waiting import PATIENCE
from viz_model.latest import Latest, LatestOfEach


def test_the_one_longest_unused_goes_first_and_room_is_made_before_the_next_is_made():
    latest, made, held = Latest(2), [], []

    def ask(key):
        def make():
            held.append(len(latest.keys))
            made.append(key)
            return key.upper()

        return latest.get(key, make)

    assert [ask(key) for key in "abaca"] == [*"ABACA"]
    assert made == [*"abc"]  # a was used again before c came, so b had to go
    assert max(held) == 1
    assert latest.keys == ("c", "a")
    assert "b" not in latest
    latest.forget("c")
    latest.forget("never kept")
    assert latest.keys == ("a",)


def test_the_bytes_are_bounded_and_the_newest_stays_however_large_it_is():
    latest = Latest(9, most_bytes=10, nbytes=len)
    for size in (4, 5, 3):
        latest.get(size, lambda size=size: "x" * size)
    assert latest.keys == (5, 3)
    latest.get(99, lambda: "x" * 99)
    assert latest.keys == (99,)


def test_what_cannot_be_made_is_tried_again():
    latest = Latest(1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            latest.get("a", lambda: 1 / 0)
    assert latest.get("a", lambda: None) is None
    assert latest.get("a", lambda: "made again") is None, "None is a value too"


def test_a_value_is_made_once_for_all_who_ask_and_what_is_kept_can_be_had_meanwhile():
    latest, begun, let_go, made, got = Latest(2), threading.Event(), threading.Event(), [], []
    latest.get("kept", lambda: "at once")

    def make():
        made.append(1)
        begun.set()
        assert let_go.wait(PATIENCE)
        return object()

    threads = [threading.Thread(target=lambda: got.append(latest.get("slow", make))) for _ in range(5)]
    for thread in threads:
        thread.start()
    assert begun.wait(PATIENCE)
    assert latest.get("kept", lambda: 1 / 0) == "at once"
    let_go.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(made) == 1
    assert len(got) == 5
    assert len(set(map(id, got))) == 1


def test_values_of_each_owner_are_kept_apart_and_go_with_it():
    class Thing:
        pass

    kept, one, other = LatestOfEach(2), Thing(), Thing()
    assert kept.get(one, "a", lambda: 1) == 1
    assert kept.get(other, "a", lambda: 2) == 2
    assert kept.get(one, "a", pytest.fail) == 1
    assert [kept.holds(owner, "a") for owner in (one, other)] == [True, True]
    kept.get(one, "b", lambda: 3)
    kept.get(one, "c", lambda: 4)
    assert [kept.holds(one, key) for key in "abc"] == [False, True, True]
    assert kept.holds(other, "a")
    gone = []
    weakref.finalize(kept.get(other, "b", Thing), gone.append, "gone")
    del other
    gc.collect()
    assert gone == ["gone"]
