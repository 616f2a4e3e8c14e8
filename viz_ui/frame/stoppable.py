"""Work that takes more than a moment: with its progress, and a button that stops it."""

from collections.abc import Callable, Hashable
from typing import TypeVar

import streamlit as st

Result = TypeVar("Result")
Progress = Callable[[float], None]


def stoppable(words: str, work: Callable[[Progress], Result], *, name: str, of: Hashable) -> Result | None:
    """What `work` gives, or None when the reader stopped it; then there is a button to take it up again.

    Not within a fragment: a click in one does not interrupt the run that it is part of.

    words: what is done, as Markdown. work: called with a function that takes the share that is done; any click of the
    reader ends it there. name: of the widgets, one for each place; of: what is worked on, so that a stop of one thing
    stops no other.
    """
    stopped, place = f"{name}_stopped", st.empty()
    if st.session_state.get(stopped) != of:
        with place.container(horizontal=True, vertical_alignment="center"):
            bar = st.progress(0.0, f"{words} …")
            # A click interrupts the run at its next sign of progress. The next run stops what it is about to do: that
            # is what the reader saw begin, or, chosen just before the click, what they have not seen yet.
            stops = st.button("Stop", key=f"{name}_stop", icon=":material/stop:")
        if not stops:
            result = work(lambda done: bar.progress(min(done, 1.0), f"{words} …"))
            place.empty()
            return result
        st.session_state[stopped] = of
    with place.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"Not finished: {words}.", width="content")
        st.button("Go on", key=f"{name}_again", icon=":material/play_arrow:", on_click=_note, args=(stopped, None))
    return None


def _note(stopped: str, of: Hashable) -> None:
    st.session_state[stopped] = of
