"""Jobs on screen: how far they are, their place in the queue, and a button that stops them."""

from collections.abc import Callable, Hashable
from typing import TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

import viz_model as vm
from viz_model.jobs import PASSES, PLACES, Job, Tell, Turns, Visitor, untold

POLL_SECONDS = 0.1
UNDER_WAY = "job_under_way"

Result = TypeVar("Result")


class Stopped(vm.VizError):
    """The visitor stopped work that a page waits for; where it was shown stands a button that lets it go on."""


@st.cache_resource(show_spinner=False)
def turns(kind: str) -> Turns:
    """The queue for one kind of work, of `PLACES`, shared by all visitors of this server."""
    return Turns(PLACES[kind])


@st.cache_resource(scope="session", show_spinner=False, on_release=Visitor.leave)
def visitor() -> Visitor:
    """Who looks at this page; when their session ends, their jobs end."""
    return Visitor()


def draw_bar(job: Job, words: str) -> None:
    """How far a job is; while it waits for its turn, its place in the queue. words: what it does, as Markdown."""
    st.progress(job.progress.share, job_words(job, words))


def job_words(job: Job, words: str) -> str:
    if job.has_begun:
        return f"{words} …"
    return f"{words}: waits for its turn, " + (f"{job.ahead} before it …" if job.ahead else "next in the queue …")


def finished(
    work: Callable[[Job], Result],
    *,
    words: str,
    name: str,
    of: Hashable,
    can_stop: bool = True,
    watch: Callable[[], None] | None = None,
) -> Result:
    """What `work` gives, which the page waits for: the run of the page shows how far it is until it has ended.

    A click meanwhile is answered at once, and the work goes on beside it: the run that follows finds it under way. It
    ends when the page waits for other work, or for none any more.

    words: what is done, as Markdown. work: called with its job, see `Job`; it touches nothing of the page. name: of
    the widgets, one for each place; of: what is worked on, so that a stop of one thing stops no other. can_stop: with
    a button; not within a fragment, where a click waits for the run that it is part of. watch: called again and again
    meanwhile, to draw what is done so far.
    Raises Stopped after a click on it, until the visitor lets the work go on.
    """
    stopped, place = f"{name}_stopped", st.empty()
    if not can_stop or st.session_state.get(stopped) != of:
        with place.container(horizontal=True, vertical_alignment="center"):
            bar = st.progress(0.0, f"{words} …")
            # A click ends this run, not the work. The next run stops what it is about to do: that is what the reader
            # saw begin, or, chosen just before the click, what they have not seen yet.
            stops = can_stop and st.button("Stop", key=f"{name}_stop", icon=":material/stop:")
        if not stops:
            job = _under_way((name, of), work)
            while not job.wait(POLL_SECONDS):
                bar.progress(job.progress.share, job_words(job, words))
                if watch is not None:
                    watch()
            place.empty()
            st.session_state.pop(UNDER_WAY, None)
            return job.result()
        st.session_state[stopped] = of
    end_unwatched()
    with place.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"Not finished: {words}.", width="content")
        st.button("Go on", key=f"{name}_again", icon=":material/play_arrow:", on_click=_note, args=(stopped, None))
    raise Stopped(f"This was stopped: {words}. Press “Go on”, or change something.")


def kept_result(work: Callable[[Tell], Result], *, words: str, name: str, of: Hashable, at_once: bool) -> Result:
    """What `work` gives, or gave before for the same `of`: of each name the latest result is kept for this visitor.

    work: called with the function that it tells how far it is. at_once: within this run and without a bar, because it
    takes less than about a second. The other choices, and what is raised after a stop, are those of `finished`.
    """
    place = f"{name}_result"
    kept = st.session_state.get(place)
    if kept is None or kept[0] != of:
        if at_once:
            kept = of, work(untold)
        else:
            kept = of, finished(lambda job: work(job.tell), words=words, name=name, of=of)
        st.session_state[place] = kept
    return kept[1]


def end_unwatched(but: Hashable = None) -> None:
    """End the work that this visitor's page waited for, unless it is of `but`: nobody waits for it any more."""
    job = st.session_state.get(UNDER_WAY)
    if job is not None and job.of != but:
        del st.session_state[UNDER_WAY]
        job.stop()


def is_run_of_fragment() -> bool:
    """Whether only a fragment of the page runs: no other click is answered before it has ended."""
    context = get_script_run_ctx()
    return bool(context and context.fragment_ids_this_run)


def _under_way(of: Hashable, work: Callable[[Job], Result]) -> Job[Result]:
    """The job that does this work, begun where it is not under way."""
    end_unwatched(but=of)
    job = st.session_state.get(UNDER_WAY)
    if job is None:
        job = st.session_state[UNDER_WAY] = Job(work, of=of)
        visitor().start(job, turns(PASSES))
    return job


def _note(stopped: str, of: Hashable) -> None:
    st.session_state[stopped] = of
