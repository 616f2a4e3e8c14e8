"""Passes that show how far they are: what they give, what a click leaves be, and what ends them."""

import threading

import pytest
import torch
from streamlit.runtime.scriptrunner import StopException
from streamlit.testing.v1 import AppTest

import viz_model as vm
from tests.support.app import opened
from viz_ui.frame import passes

PROMPT = "The red fox met a grey goose."
MODEL = vm.load("tiny-gpt")


class Screen:
    """What of Streamlit a pass touches. click: called at each drawing of the bar."""

    def __init__(self):
        self.session_state, self.bars, self.click = {}, [], lambda: None

    def progress(self, share, words):
        self.bars.append((share, words))
        self.click()

    def empty(self, *_):
        return self


@pytest.fixture
def screen(monkeypatch):
    """A screen on which every pass is a long one."""
    made = Screen()
    monkeypatch.setattr(passes, "st", made)
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
        assert self.let_go.wait(30)
        return mixed


def cut_off(screen, work, *, begun=True):
    """A run that a click cuts off while it waits for the pass, which has `begun`, or not yet."""

    def click():
        if not begun or (len(screen.bars) > 1 and work.begun.wait(30)):
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
    assert "pass_under_way" not in screen.session_state


def test_the_bar_says_how_many_layers_have_been_passed(screen):
    held = Held()
    threading.Timer(0.3, held.let_go.set).start()
    seen = []

    def work():
        trace = held()
        seen.append(threading.current_thread().attentions)
        return trace

    passes.shown_pass("kind", "a", MODEL, PROMPT, work)
    assert seen == [4]
    assert 0.25 in [share for share, _ in screen.bars]  # while it stood still


def test_a_click_leaves_the_pass_be_and_the_next_run_waits_for_the_same(screen):
    held = Held()
    cut_off(screen, held, begun=False)
    assert held.calls == 0
    cut_off(screen, held)
    cut_off(screen, held)
    held.let_go.set()
    trace = passes.shown_pass("kind", "a", MODEL, PROMPT, held)
    assert held.calls == 1
    assert trace.read.ids == MODEL.trace(PROMPT).read.ids


def test_a_pass_ends_when_another_is_asked_for_and_can_be_begun_again(screen):
    held = Held()
    cut_off(screen, held)
    first = screen.session_state["pass_under_way"]
    assert passes.shown_pass("kind", "b", MODEL, PROMPT, lambda: "the other") == "the other"
    held.let_go.set()
    first.join(30)
    assert not first.is_alive()
    assert first.attentions == 1, "it went on after its first layer"
    assert passes.shown_pass("kind", "a", MODEL, PROMPT, held).read.ids
    assert held.calls == 2


def page_that_can_be_stopped():
    import streamlit as st

    import viz_model as vm
    from viz_ui.frame import passes

    passes.A_SECOND_OF_OPERATIONS = 0
    model = vm.load("tiny-gpt")
    try:
        trace = passes.shown_pass("kind", "a", model, "A red fox", lambda: model.trace("A red fox"), can_stop=True)
    except passes.Stopped as stopped:
        st.text(str(stopped))
    else:
        st.text(trace.length)


def test_a_pass_that_is_stopped_ends_and_goes_on_by_a_button(screen, monkeypatch):
    held = Held()
    cut_off(screen, held)
    running = screen.session_state["pass_under_way"]
    monkeypatch.undo()
    monkeypatch.setattr(passes, "A_SECOND_OF_OPERATIONS", 0)
    test = AppTest.from_function(page_that_can_be_stopped, default_timeout=120)
    test.session_state["pass_under_way"] = running
    test.session_state["kind_pass_stopped"] = ("kind", "a")  # as the button notes it
    for _ in range(2):
        test.run()
        assert [text.value for text in test.text] == [
            "tiny-gpt was stopped while it read the prompt. Let it go on, or change the prompt."
        ]
    held.let_go.set()
    running.join(30)
    assert running.attentions == 1, "it went on after the stop"
    [button] = test.button
    button.click().run()
    assert [text.value for text in test.text] == [str(len(MODEL.ids("A red fox")))]
    assert not test.exception


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


@pytest.mark.parametrize("page", ["heads", "masks", "generate", "shape_reference"])
def test_a_page_whose_passes_are_shown_is_the_same_page(page, monkeypatch):
    address = {"model": "tiny-gpt", "prompt": PROMPT, "layer": "1", "head": "2"}
    quick = opened(page, **address)
    monkeypatch.setattr(passes, "A_SECOND_OF_OPERATIONS", 0)
    shown = opened(page, **address)
    assert not shown.exception
    assert [text.value for text in shown.markdown] == [text.value for text in quick.markdown]
    pictures = [[element.proto.bytes for element in test.get("bidi_component")] for test in (quick, shown)]
    assert page == "generate" or pictures[0] == pictures[1]  # steps are timed
