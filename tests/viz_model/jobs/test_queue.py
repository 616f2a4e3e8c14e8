"""Turns: who begins when, the place in the queue, and what a visitor who leaves gives back."""

import threading

from tests.support.waiting import PATIENCE
from viz_model.jobs import Job, Turns, Visitor


class Desk:
    """Jobs by name, which note when they begin and end when they are told to."""

    def __init__(self, places=1):
        self.turns, self.begun, self.jobs, self._let_go = Turns(places), [], {}, {}

    def ask(self, visitor, name):
        let_go = self._let_go[name] = threading.Event()

        def work(job):
            self.begun.append(name)
            assert let_go.wait(PATIENCE)
            job.tell()

        self.jobs[name] = visitor.start(Job(work, of=name), self.turns)

    def end(self, name):
        self._let_go[name].set()
        assert self.jobs[name].wait(PATIENCE)

    @property
    def queue(self):
        return [job.of for job in self.turns.jobs]


def test_visitors_take_turns_and_the_jobs_of_one_come_in_their_order():
    desk, anna, ben, cleo = Desk(), Visitor(), Visitor(), Visitor()
    for name in ("a1", "a2", "a3"):
        desk.ask(anna, name)
    for name in ("b1", "b2"):
        desk.ask(ben, name)
    desk.ask(cleo, "c1")
    assert desk.queue == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert [desk.jobs[name].ahead for name in desk.queue] == [0, 0, 1, 2, 3, 4]
    assert [desk.jobs[name].has_begun for name in desk.queue] == [True] + [False] * 5
    for name in list(desk.queue):
        desk.end(name)
    assert desk.begun[:2] == ["a1", "b1"]
    assert sorted(desk.begun) == ["a1", "a2", "a3", "b1", "b2", "c1"]
    assert desk.turns.jobs == ()


def test_so_many_work_at_a_time():
    desk, visitors = Desk(places=2), [Visitor() for _ in range(3)]
    for name, visitor in zip("abc", visitors, strict=True):
        desk.ask(visitor, name)
    assert [desk.jobs[name].has_begun for name in "abc"] == [True, True, False]
    desk.end("b")
    assert desk.jobs["c"].has_begun
    for name in "ac":
        desk.end(name)


def test_who_leaves_gives_their_place_back_and_the_next_begins():
    desk, anna, ben = Desk(), Visitor(), Visitor()
    for name in ("a1", "a2"):
        desk.ask(anna, name)
    desk.ask(ben, "b1")
    anna.leave()
    assert not desk.jobs["a2"].is_under_way
    desk.end("a1")  # it ends where it tells
    assert desk.jobs["a1"].was_stopped
    assert desk.jobs["b1"].has_begun
    assert not desk.jobs["b1"].was_stopped
    desk.end("b1")


def test_who_has_left_begins_nothing_more():
    desk, anna = Desk(), Visitor()
    anna.leave()
    desk.ask(anna, "late")
    assert desk.jobs["late"].was_stopped
    desk.end("late")


def test_a_job_that_fails_frees_its_place():
    desk, visitor = Desk(), Visitor()
    failing = visitor.start(Job(lambda job: 1 / 0), desk.turns)
    assert failing.wait(PATIENCE)
    desk.ask(visitor, "next")
    assert desk.jobs["next"].has_begun
    desk.end("next")
