"""The report of a text: read beside the page, drawn as it grows, and kept whole or in part; that of the text that ships
is kept for all visitors."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import streamlit as st

import viz_model as vm
from pages.over_a_text.texts import ChosenText
from viz_model.heads.report import HeadReport, growing_report
from viz_model.jobs import Job
from viz_model.latest import Latest, LatestOfEach
from viz_ui.frame.jobs import Stopped, finished
from viz_ui.frame.view import View
from viz_ui.look.text import plain

MOST_KEPT, MOST_SHARED = 3, 2
MOST_BYTES = 32 * 2**20  # of a report that is shared: it stays as long as its model is loaded
SECONDS_BETWEEN = 1.0  # of what is drawn meanwhile: a browser that is sent more paints nothing


@dataclass
class ReportSoFar:
    """What is known of a text so far."""

    report: HeadReport | None = None

    @property
    def is_whole(self) -> bool:
        return self.report is not None and not self.report.is_partial


def reading_key(view: View, text: ChosenText, windows: int) -> tuple:
    """What a report is of; not the head that is looked at."""
    edits = tuple(edit.written for edit in view.edits)
    return view.name, view.part, view.trace.mask_name, edits, text.key, windows


@st.cache_resource(show_spinner=False)
def _shared() -> LatestOfEach[vm.Model, tuple, HeadReport]:
    """Whole reports of a model as it is, without the model: they go when it goes."""
    return LatestOfEach(MOST_SHARED)


def _gone() -> HeadReport:
    raise LookupError


def report(view: View, text: ChosenText, windows: int, watch: Callable[[HeadReport], None]) -> HeadReport | None:
    """The report of a text, kept for this visitor; partial after a stop, None where there is nothing yet.

    watch: draws what is known so far, while the rest is read.
    """
    kept: Latest[tuple, ReportSoFar] = st.session_state.setdefault("readings", Latest(MOST_KEPT))
    key = reading_key(view, text, windows)
    reading, model = kept.get(key, ReportSoFar), view.model
    asked = {"part": view.part, "mask": view.trace.mask_name, "windows": windows}
    is_for_all = text.is_shipped and not view.edits
    if is_for_all and reading.report is None and _shared().holds(model, key):
        with suppress(LookupError):  # it may go at this moment
            reading.report = replace(_shared().get(model, key, _gone), model=model)
    if reading.is_whole:
        return reading.report
    drawn = [0.0, 0]  # when, and after how many windows

    def work(job: Job) -> None:
        for grown in growing_report(model, text.read(windows), tell=job.tell, begun=reading.report, **asked):
            reading.report = grown

    def watched() -> None:
        now, so_far = time.monotonic(), reading.report
        if so_far is not None and len(so_far.windows) > drawn[1] and now - drawn[0] >= SECONDS_BETWEEN:
            drawn[:] = now, len(so_far.windows)
            watch(so_far)

    words = f"{plain(model.name)} reads the text, window by window"
    try:
        finished(work, words=words, name="over_a_text", of=key, watch=watched)
    except Stopped:
        pass  # where the work was shown, it is said
    except vm.VizError:
        kept.forget(key)
        raise
    if is_for_all and reading.is_whole and reading.report.nbytes <= MOST_BYTES:
        _shared().get(model, key, lambda: replace(reading.report, model=None))
    return reading.report
