"""A job: what it tells, its stop, its error, and that it never begins twice or ends unnoticed."""

import contextvars
import threading

import pytest

from tests.support.waiting import PATIENCE
from viz_model.errors import JobStopped, VizError
from viz_model.jobs import Job, Progress, Turns, untold


class Held:
    """Work that tells one step, and then stands still until it is let go."""

    def __init__(self):
        self.calls, self.begun, self.let_go = 0, threading.Event(), threading.Event()

    def __call__(self, job):
        self.calls += 1
        job.parts.append("the first half")
        job.tell(1, 2, "halfway")
        self.begun.set()
        assert self.let_go.wait(PATIENCE)
        job.tell(2, 2)
        return "the result"


def test_progress_and_parts_can_be_read_while_it_works_and_the_result_after():
    held = Held()
    job = Job(held, of="a thing", words="starting")
    assert (job.has_begun, job.is_under_way, job.seconds) == (False, True, 0.0)
    assert job.progress == Progress(0, None, "starting")
    job.start()
    assert held.begun.wait(PATIENCE)
    assert job.progress == Progress(1, 2, "halfway")
    assert job.progress.share == 0.5
    assert job.parts == ["the first half"]
    assert not job.wait(0)
    held.let_go.set()
    assert job.result() == "the result"
    assert job.progress == Progress(2, 2, "halfway"), "without words it still does the same"
    assert (job.is_under_way, job.was_stopped, job.problem) == (False, False, "")
    job.stop()
    assert not job.was_stopped, "a job that has ended stays as it is"
    job.begin()
    assert held.calls == 1


@pytest.mark.parametrize(("done", "total", "share"), [(0, None, 0), (7, None, 0), (0, 0, 0), (3, 4, 0.75), (5, 4, 1)])
def test_a_share_is_from_0_to_1(done, total, share):
    assert Progress(done, total).share == share


def test_a_stop_ends_the_work_where_it_next_tells_and_its_parts_stay():
    held = Held()
    job = Job(held).start()
    assert held.begun.wait(PATIENCE)
    job.stop()
    assert job.is_under_way
    held.let_go.set()
    assert job.wait(PATIENCE)
    assert job.was_stopped
    assert job.problem == "", "a stop is nothing that went wrong"
    assert job.parts == ["the first half"]
    with pytest.raises(JobStopped):
        job.result()


def test_a_stop_reaches_work_that_waits_and_cannot_tell():
    let_go = threading.Event()
    begun = threading.Event()

    def work(job):
        job.at_stop(let_go.set)
        begun.set()
        assert let_go.wait(PATIENCE)
        return "what there was"

    job = Job(work).start()
    assert begun.wait(PATIENCE)
    job.stop(PATIENCE)
    assert not job.is_under_way
    assert job.was_stopped
    assert job.result() == "what there was"


def test_what_is_asked_for_after_a_stop_is_done_at_once():
    called, begun, let_go = [], threading.Event(), threading.Event()

    def work(job):
        begun.set()
        assert let_go.wait(PATIENCE)
        job.at_stop(lambda: called.append(1))

    job = Job(work).start()
    assert begun.wait(PATIENCE)
    job.stop()
    let_go.set()
    assert job.wait(PATIENCE)
    assert called == [1]


@pytest.mark.parametrize(
    ("error", "problem"),
    [(VizError("The disk is full."), "The disk is full."), (KeyError("x"), "KeyError: 'x'")],
    ids=["said", "a fault"],
)
def test_what_goes_wrong_is_said_and_raised_where_the_result_is_asked_for(error, problem):
    def work(job):
        raise error

    job = Job(work).start()
    assert job.wait(PATIENCE)
    assert job.problem == problem
    with pytest.raises(type(error)):
        job.result()


def test_the_work_is_done_in_the_context_that_the_job_was_made_in():
    """So that edits and captures around a pass reach it, see `transformer.hooks`."""
    variable = contextvars.ContextVar("variable", default="outside")
    variable.set("inside")
    job = Job(lambda job: variable.get())
    variable.set("later")
    assert job.start().result() == "inside"


def test_a_job_that_is_stopped_while_it_waits_never_begins_and_frees_its_place():
    turns, first, second, third = Turns(), Held(), Held(), Held()
    jobs = [Job(work).start(turns) for work in (first, second, third)]
    assert first.begun.wait(PATIENCE)
    jobs[1].stop()
    assert not jobs[1].is_under_way
    with pytest.raises(JobStopped):
        jobs[1].result()
    first.let_go.set()
    assert third.begun.wait(PATIENCE)
    assert second.calls == 0
    third.let_go.set()
    assert jobs[2].wait(PATIENCE)


def test_an_ended_job_holds_nothing_of_its_work():
    import gc
    import weakref

    class Large:
        def __call__(self, job):
            return 1

    work = Large()
    gone = weakref.ref(work)
    job = Job(work).start()
    assert job.result() == 1
    del work
    gc.collect()
    assert gone() is None


def test_untold_takes_what_a_job_takes():
    assert untold(1, 2, "words") is untold() is None
