"""Passes of the model: kept for the visitor; and those that take a second or more, shown while they run."""

import contextvars
import threading
from collections.abc import Callable, Hashable
from typing import TypeVar

import streamlit as st

import viz_model as vm
from viz_model.transformer.hooks import follow
from viz_ui.frame.stoppable import Progress, stoppable
from viz_ui.look.text import plain

A_SECOND_OF_OPERATIONS = 20e9  # multiplications and additions, on two busy cores of a laptop
POLL_SECONDS = 0.1
UNDER_WAY = "pass_under_way"

Prompt = str | tuple[int, ...]
Result = TypeVar("Result")


class Stopped(vm.VizError):
    """The visitor stopped a pass; where it was shown stands a button that lets it go on."""


class _Ended(Exception):
    """Nobody waits for this pass any more."""


class Pass(threading.Thread):
    """Work that sends a text through a model, in a thread of its own: a click cuts a page's run off, but not this.

    attentions: how many of them have been passed so far.
    """

    def __init__(self, of: Hashable, work: Callable[[], Result]):
        super().__init__(daemon=True)
        self.of = of
        self.attentions = 0
        self._context = contextvars.copy_context()
        self._work = work
        self._is_wanted = True
        self._result: Result | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            self._result = self._context.run(self._followed)
        except Exception as error:
            self._error = error

    def _followed(self) -> Result:
        with follow(self._told):
            return self._work()

    def _told(self, site: str) -> None:
        self.attentions += site.endswith(".mixed")
        if not self._is_wanted:
            raise _Ended

    def end(self) -> None:
        """Let it stop at the next site that it comes to."""
        self._is_wanted = False

    def result(self) -> Result:
        """What the work gave, after it has ended; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._result


def kept_pass(
    kind: str,
    of: Hashable,
    model: vm.Model,
    prompt: Prompt,
    work: Callable[[], Result],
    *,
    most: int,
    can_stop: bool = False,
) -> Result:
    """What `work` gives, or gave before for the same `of`: of each kind the `most` last used are kept for this visitor.

    See `shown_pass`.
    """
    kept = st.session_state.setdefault("passes", {}).setdefault(kind, {})
    result = kept.pop(of) if of in kept else shown_pass(kind, of, model, prompt, work, can_stop=can_stop)
    kept[of] = result  # the last used stand last
    while len(kept) > most:
        del kept[next(iter(kept))]
    return result


def shown_pass(
    kind: str, of: Hashable, model: vm.Model, prompt: Prompt, work: Callable[[], Result], *, can_stop: bool = False
) -> Result:
    """What `work` gives, which sends `prompt` through `model` once.

    Where that takes about a second or more, a bar says how far it is (a shorter one would only flash). A click
    meanwhile is answered at once, and the pass goes on beside it; it ends when the visitor asks for another one.

    kind, of: what the pass is of; two with the same are the same one. can_stop: with a button; not within a fragment
    (see `stoppable`). Raises Stopped after a click on it, until the visitor lets the pass go on.
    """
    of = (kind, of)
    former = st.session_state.get(UNDER_WAY)
    if former is not None and former.of != of:
        _end_pass()
    if not takes_a_second(model, prompt):
        return work()
    words = f"{plain(model.name)} reads the prompt"

    def watched(progress: Progress) -> Pass:
        return _watched(of, work, progress, sum(map(model.config.layers_of, model.config.parts)))

    if can_stop:
        ended = stoppable(words, watched, name=f"{kind}_pass", of=of)
    else:
        place = st.empty()
        ended = watched(lambda done: place.progress(done, f"{words} …"))
        place.empty()
    if ended is None:
        _end_pass()
        raise Stopped(f"{model.name} was stopped while it read the prompt. Let it go on, or change the prompt.")
    return ended.result()


def takes_a_second(model: vm.Model, prompt: Prompt) -> bool:
    """Two operations a parameter and token: Kaplan et al. 2020, "Scaling Laws for Neural Language Models", §2.1."""
    return 2 * model.transformer.n_parameters() * len(model.ids(prompt)) >= A_SECOND_OF_OPERATIONS


def _end_pass() -> None:
    if (under_way := st.session_state.pop(UNDER_WAY, None)) is not None:
        under_way.end()


def _watched(of: Hashable, work: Callable[[], Result], progress: Progress, attentions: int) -> Pass:
    """Begin the pass, or find it under way, and draw how far it is until it has ended."""
    running = st.session_state.get(UNDER_WAY)
    if running is None or running.of != of:
        running = st.session_state[UNDER_WAY] = Pass(of, work)
    # A click cuts this run off where it draws, not before it is noted that the pass is under way: what begins is found.
    progress(0)
    if not running.ident:
        running.start()
    while running.is_alive():
        progress(running.attentions / attentions)
        running.join(POLL_SECONDS)
    st.session_state.pop(UNDER_WAY, None)
    return running
