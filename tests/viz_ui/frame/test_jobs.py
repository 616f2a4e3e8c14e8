"""Work that a page waits for: its progress, its Stop button, its place in the queue, and how it is taken up again."""

import threading

import pytest
from streamlit.runtime.scriptrunner import StopException
from streamlit.testing.v1 import AppTest

import viz_model as vm
from tests.support.screen import Screen
from tests.support.waiting import PATIENCE
from viz_model.jobs import Job, Turns, Visitor
from viz_ui.frame import jobs


def page():
    import streamlit as st

    from viz_ui.frame.jobs import Stopped, finished

    made = st.session_state.setdefault("made", [])

    def work(job):
        for step in range(1, 4):
            job.tell(step, 3)
            made.append(step)
        return "the result"

    try:
        st.text(finished(work, words="Counting", name="count", of=st.session_state.get("thing", "first")))
    except Stopped as stopped:
        st.text(str(stopped))


STOPPED = "This was stopped: Counting. Press “Go on”, or change something."


def texts(test):
    return [text.value for text in test.text]


def test_work_that_is_not_stopped_gives_its_result_and_leaves_nothing_behind():
    test = AppTest.from_function(page, default_timeout=120).run()
    assert texts(test) == ["the result"]
    assert test.session_state["made"] == [1, 2, 3]
    assert not test.button
    assert "job_under_way" not in test.session_state


def test_what_was_stopped_is_not_begun_again_until_asked_for():
    test = AppTest.from_function(page, default_timeout=120)
    test.session_state["count_stopped"] = "first"  # as the Stop button notes it
    for _ in range(2):
        test.run()
        assert texts(test) == [STOPPED]
    assert test.session_state["made"] == []
    assert "Counting" in test.markdown[0].value
    [button] = test.button
    button.click().run()
    assert texts(test) == ["the result"]


def test_a_stop_is_of_one_thing_only():
    test = AppTest.from_function(page, default_timeout=120)
    test.session_state["count_stopped"] = "first"
    test.session_state["thing"] = "second"
    assert texts(test.run()) == ["the result"]


class Held:
    """Work that tells one step and stands still until it is let go."""

    def __init__(self):
        self.calls, self.begun, self.let_go = 0, threading.Event(), threading.Event()

    def __call__(self, job):
        self.calls += 1
        job.tell(1, 4)
        self.begun.set()
        assert self.let_go.wait(PATIENCE)
        job.tell(2, 4)
        return "the result"


@pytest.fixture
def screen(monkeypatch):
    """A screen, a visitor and a queue of their own."""
    made, visitor, turns = Screen(), Visitor(), Turns()
    monkeypatch.setattr(jobs, "st", made)
    monkeypatch.setattr(jobs, "visitor", lambda: visitor)
    monkeypatch.setattr(jobs, "turns", lambda kind: turns)
    yield made
    visitor.leave()


def wait_for(work, of="first"):
    return jobs.finished(work, words="Counting", name="count", of=of)


def cut_off(screen, work, of="first"):
    """A run that a click cuts off after the work has begun."""

    def click():
        if len(screen.bars) > 1 and work.begun.wait(PATIENCE):
            raise StopException

    screen.bars, screen.click = [], click
    with pytest.raises(StopException):
        wait_for(work, of)
    screen.click = lambda: None


def test_a_click_leaves_the_work_be_and_the_next_run_waits_for_the_same(screen):
    held = Held()
    cut_off(screen, held)
    cut_off(screen, held)
    assert (0.25, "Counting …") in screen.bars
    held.let_go.set()
    assert wait_for(held) == "the result"
    assert held.calls == 1
    assert screen.session_state == {}


def test_a_stop_ends_the_work_and_it_is_begun_anew_when_it_goes_on(screen):
    held = Held()
    cut_off(screen, held)
    job = screen.session_state["job_under_way"]
    screen.stops = True
    with pytest.raises(jobs.Stopped):
        wait_for(held)
    screen.stops = False
    assert screen.session_state == {"count_stopped": "first"}
    held.let_go.set()
    assert job.wait(PATIENCE)
    assert job.was_stopped
    with pytest.raises(jobs.Stopped):
        wait_for(held)
    assert held.calls == 1
    assert "Go on" in screen.buttons
    jobs._note("count_stopped", None)
    assert wait_for(held) == "the result"
    assert held.calls == 2


def test_a_stop_ends_what_was_chosen_just_before_the_click_too(screen):
    """One run hears of both, as when the page had not drawn the choice yet."""
    first, second = Held(), Held()
    cut_off(screen, first)
    job = screen.session_state["job_under_way"]
    screen.stops = True
    with pytest.raises(jobs.Stopped):
        wait_for(second, of="second")
    assert second.calls == 0
    assert job.was_stopped
    assert screen.session_state == {"count_stopped": "second"}
    first.let_go.set()


def test_other_work_ends_the_former_and_so_does_a_page_that_waits_for_none(screen):
    first, second = Held(), Held()
    cut_off(screen, first)
    former = screen.session_state["job_under_way"]
    first.let_go.set()
    cut_off(screen, second, of="second")
    assert former.was_stopped
    former = screen.session_state["job_under_way"]
    jobs.end_unwatched(but=("count", "second"))
    assert not former.was_stopped
    jobs.end_unwatched()
    assert former.was_stopped
    assert screen.session_state == {}
    second.let_go.set()


def test_the_place_in_the_queue_is_said_and_who_leaves_frees_it(screen):
    """Three others came before: one works, two wait."""
    others, works = [Visitor() for _ in range(3)], [Held() for _ in range(3)]
    for other, work in zip(others, works, strict=True):
        other.start(Job(work), jobs.turns("passes"))
    mine = Held()
    mine.let_go.set()
    said = []

    def click():  # the others go, one after the other
        if screen.bars[-1][1] not in said:
            said.append(screen.bars[-1][1])
            if len(said) > 1 and others:
                works[0].let_go.set()
                others.pop(0).leave()
                works.pop(0)

    screen.click = click
    assert wait_for(mine) == "the result"
    assert said[:3] == [
        "Counting …",
        "Counting: waits for its turn, 2 before it …",
        "Counting: waits for its turn, 1 before it …",
    ]


def test_what_went_wrong_is_raised_where_the_page_waits(screen):
    def work(job):
        raise vm.PromptError("The prompt is empty.")

    with pytest.raises(vm.PromptError, match="empty"):
        wait_for(work)
    assert screen.session_state == {}


def test_a_closed_tab_ends_what_it_waited_for(screen):
    held = Held()
    cut_off(screen, held)
    job = screen.session_state["job_under_way"]
    jobs.visitor().leave()
    held.let_go.set()
    assert job.wait(PATIENCE)
    assert job.was_stopped


@pytest.mark.parametrize("at_once", [True, False])
def test_a_result_is_kept_until_another_thing_is_asked_for(screen, at_once):
    made = []

    def kept(of, result):
        def work(tell):
            tell(1, 2)
            made.append(of)
            return result

        return jobs.kept_result(work, words="Counting", name="count", of=of, at_once=at_once)

    assert [kept("first", None), kept("first", 1), kept("second", 2), kept("second", 3)] == [None, None, 2, 2]
    assert made == ["first", "second"]
    assert kept("first", 4) == 4, "only the latest is kept"
    assert bool(screen.bars) != at_once


def test_a_result_that_was_stopped_is_not_kept(screen):
    screen.stops = True
    with pytest.raises(jobs.Stopped):
        jobs.kept_result(lambda tell: "all of it", words="Counting", name="count", of="it", at_once=False)
    assert "count_result" not in screen.session_state


def test_what_is_done_so_far_can_be_watched_meanwhile(screen):
    held, seen = Held(), []

    def watch():
        if held.begun.is_set():
            seen.append(held.calls)
            held.let_go.set()

    assert jobs.finished(held, words="Counting", name="count", of="first", watch=watch) == "the result"
    assert set(seen) == {1}
