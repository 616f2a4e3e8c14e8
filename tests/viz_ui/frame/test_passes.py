"""Passes that show how far they are: what they give, what a click leaves be, and what ends them."""

import threading

import pytest
import torch
from streamlit.runtime.scriptrunner import StopException

import viz_model as vm
from tests.support.app import address_of, blobs_of, opened
from tests.support.screen import Screen
from tests.support.waiting import PATIENCE
from viz_model.jobs import Job, Turns, Visitor
from viz_ui.frame import jobs, passes

PROMPT = "The red fox met a grey goose."
MODEL = vm.load("tiny-gpt")


@pytest.fixture
def screen(monkeypatch):
    """A screen on which every pass is a long one."""
    made, turns = Screen(), Turns(places=2)
    for module in (jobs, passes):
        monkeypatch.setattr(module, "st", made)
    monkeypatch.setattr(jobs, "visitor", Visitor)
    monkeypatch.setattr(jobs, "turns", lambda kind: turns)
    monkeypatch.setattr(passes, "A_SECOND_OF_OPERATIONS", 0)
    return made


class Held:
    """Work that stands still at the first attention of a real pass until it is let go."""

    def __init__(self):
        self.calls, self.begun, self.let_go = 0, threading.Event(), threading.Event()

    def __call__(self):
        self.calls += 1
        with vm.edit({"blocks.0.attn.mixed": self._hold}):
            return MODEL.trace(PROMPT)

    def _hold(self, mixed):
        self.begun.set()
        assert self.let_go.wait(PATIENCE)
        return mixed


def cut_off(screen, work):
    """A run that a click cuts off while it waits for the pass, which has begun."""

    def click():
        if len(screen.bars) > 1 and work.begun.wait(PATIENCE):
            raise StopException  # a click stops the run that is on its way, and begins another

    screen.bars, screen.click = [], click
    with pytest.raises(StopException):
        passes.shown_pass("kind", "a", MODEL, PROMPT, work)
    screen.click = lambda: None


@pytest.mark.parametrize("tokens", [1, 5, 6])
def test_a_pass_is_shown_from_about_a_second_on(tokens, screen, monkeypatch):
    """Two operations a parameter and token (Kaplan et al. 2020, “Scaling Laws”, §2.1)."""
    five = 2 * sum(weight.numel() for weight in MODEL.transformer.parameters()) * 5
    monkeypatch.setattr(passes, "A_SECOND_OF_OPERATIONS", five)
    ran_in = passes.shown_pass("kind", "a", MODEL, (7,) * tokens, threading.current_thread)
    assert (ran_in is threading.current_thread()) == (tokens < 5)
    assert set(screen.bars) == ({(0, "tiny\\-gpt reads the prompt …")} if tokens >= 5 else set())


def test_what_comes_back_is_the_pass_and_edits_around_it_reach_it(screen):
    edits = {"blocks.1.attn.weights": lambda weights: weights.flip(-1)}
    with vm.edit(edits):
        expected = MODEL.trace(PROMPT).weights(3, 0)
        shown = passes.shown_pass("kind", "a", MODEL, PROMPT, lambda: MODEL.trace(PROMPT))
    assert torch.equal(shown.weights(3, 0), expected)
    assert not torch.equal(MODEL.trace(PROMPT).weights(3, 0), expected)
    assert "job_under_way" not in screen.session_state


def test_the_bar_says_how_many_layers_have_been_passed(screen):
    held = Held()
    cut_off(screen, held)
    job = screen.session_state["job_under_way"]
    assert (job.progress.done, job.progress.total) == (1, 4)
    held.let_go.set()
    assert passes.shown_pass("kind", "a", MODEL, PROMPT, held).read.ids == MODEL.trace(PROMPT).read.ids
    assert (job.progress.done, job.progress.total) == (4, 4)
    assert held.calls == 1


def test_a_pass_ends_when_another_is_asked_for_and_can_be_begun_again(screen):
    held = Held()
    cut_off(screen, held)
    first = screen.session_state["job_under_way"]
    assert passes.shown_pass("kind", "b", MODEL, PROMPT, lambda: "the other") == "the other"
    held.let_go.set()
    assert first.wait(PATIENCE)
    assert first.progress.done <= 1, "it went on after its first layer"
    assert passes.shown_pass("kind", "a", MODEL, PROMPT, held).read.ids
    assert held.calls == 2


def test_a_pass_that_is_stopped_ends_at_the_next_site_and_goes_on_when_asked(screen):
    held = Held()
    cut_off(screen, held)
    job = screen.session_state["job_under_way"]
    screen.stops = True
    with pytest.raises(jobs.Stopped, match="reads the prompt"):
        passes.shown_pass("kind", "a", MODEL, PROMPT, held, can_stop=True)
    held.let_go.set()
    assert job.wait(PATIENCE)
    assert job.progress.done <= 1, "it went on after the stop"
    screen.stops = False
    screen.session_state.clear()  # as the button “Go on” does
    assert passes.shown_pass("kind", "a", MODEL, PROMPT, held, can_stop=True).read.ids


def test_what_the_pass_refuses_is_said_where_it_was_asked_for(screen):
    with pytest.raises(vm.PromptError, match="The prompt is empty"):
        passes.shown_pass("kind", "a", MODEL, PROMPT, lambda: MODEL.trace(""))
    assert passes.shown_pass("kind", "a", MODEL, PROMPT, lambda: 1) == 1


def test_the_last_used_are_kept(screen):
    made = []

    def ask(of):
        return passes.kept_pass("kind", of, MODEL, PROMPT, lambda: made.append(of) or of, most=2)

    assert [ask(of) for of in "abacab"] == [*"abacab"]
    assert made == [*"abcb"]  # a was used again before c came, so b had to go
    passes.kept_pass("another kind", "x", MODEL, PROMPT, lambda: 1, most=2)
    ask("a")
    assert made == [*"abcb"]


def test_passes_of_one_page_are_one_piece_of_work_and_those_that_are_done_stay(screen):
    """Two masks side by side: one bar over both, and after a stop within the second the first is not made again."""
    held, made = Held(), []

    def first():
        made.append("first")
        return MODEL.trace(PROMPT)

    def ask():
        return passes.kept_passes("kind", {"a": first, "b": held}, MODEL, PROMPT, most=2)

    def click():
        if len(screen.bars) > 1 and held.begun.wait(PATIENCE):
            raise StopException

    screen.click = click
    with pytest.raises(StopException):
        ask()
    screen.click = lambda: None
    job = screen.session_state["job_under_way"]
    assert (job.progress.done, job.progress.total) == (5, 8)
    held.let_go.set()
    one, other = ask()
    assert made == ["first"]
    assert held.calls == 1
    assert torch.equal(one.logits, other.logits)


@pytest.mark.parametrize("page", ["heads", "masks", "generate", "shape_reference"])
def test_a_page_whose_passes_are_shown_is_the_same_page(page, monkeypatch):
    address = {"model": "tiny-gpt", "prompt": PROMPT, "layer": "1", "head": "2"}
    quick = opened(page, **address)
    monkeypatch.setattr(passes, "A_SECOND_OF_OPERATIONS", 0)
    shown = opened(page, **address)
    assert not shown.exception
    assert [text.value for text in shown.markdown] == [text.value for text in quick.markdown]
    pictures = [blobs_of(test) for test in (quick, shown)]
    assert page == "generate" or pictures[0] == pictures[1]  # steps are timed


CHOSEN = {"head": "1.2", "cell": "3.1"}
OTHER = "A king had three daughters."


def chosen(test) -> dict[str, str]:
    """What of the choice stands in the address."""
    return {name: address_of(test)[name] for name in CHOSEN}


def test_after_a_stop_the_address_keeps_the_head_and_the_cell_and_the_pass_can_go_on(monkeypatch):
    monkeypatch.setattr(passes, "A_SECOND_OF_OPERATIONS", 0)
    test = opened("heads", model="tiny-gpt", prompt=PROMPT, **CHOSEN)
    test.session_state["trace_pass_stopped"] = (
        ("tiny-gpt", OTHER, "causal", None, None, ()),
    )  # as the button notes it
    test.sidebar.text_area(key="prompt").set_value(OTHER).run()
    assert not test.exception
    assert "This was stopped: tiny-gpt reads the prompt." in test.info[0].value.replace("\\", "")
    assert chosen(test) == CHOSEN
    test.sidebar.button(key="trace_pass_again").click().run()
    assert not test.exception
    assert not test.info
    assert chosen(test) == CHOSEN


def test_passes_under_masks_can_be_stopped_and_the_page_says_so(monkeypatch):
    """They are made before the fragment that draws them: a click within a fragment would wait for its run."""
    monkeypatch.setattr(passes, "A_SECOND_OF_OPERATIONS", 0)
    seen, stopped = [], []

    def noted(work, *, name, can_stop, **options):
        seen.append((name, can_stop))
        if name in stopped:
            raise jobs.Stopped("This was stopped.")
        return jobs.finished(work, name=name, can_stop=can_stop, **options)

    monkeypatch.setattr(passes, "finished", noted)
    test = opened("masks", model="tiny-gpt", prompt=PROMPT, **CHOSEN)
    assert seen == [("trace_pass", True), ("masked_pass", True), ("changed_pass", True)]
    stopped.append("masked_pass")
    test.selectbox(key="mask_b").set_value("padding").run()
    assert not test.exception
    assert test.selectbox(key="mask_b").value == "padding"
    assert not [blob for blob in blobs_of(test) if b"weights A" in blob]


def test_a_page_that_waits_for_nothing_ends_what_another_one_waited_for():
    test = opened("heads", model="tiny-gpt", prompt=PROMPT, **CHOSEN)
    let_go, ended = threading.Event(), threading.Event()

    def work(job):
        assert let_go.wait(PATIENCE)
        try:
            job.tell()
        finally:
            ended.set()

    job = test.session_state["job_under_way"] = Job(work, of="another page").start()
    test.run()
    assert "job_under_way" not in test.session_state
    let_go.set()
    assert ended.wait(PATIENCE)
    assert job.was_stopped
