"""What the heads of a model are named: worked out once over the text that ships, kept, and said with that text."""

import threading
from contextlib import suppress

import streamlit as st

import viz_model as vm
from viz_model.checkpoints.head_names import head_names, keep_head_names
from viz_model.heads.names import HeadName, HeadNames
from viz_model.heads.report import HeadReport
from viz_model.heads.resampling import FEWEST
from viz_ui.frame.view import View
from viz_ui.frame.visitors import may
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, percent
from viz_ui.sharing.settings import FETCH

RULE = (
    "A head is named after the pattern, or the two patterns, that get most of its attention. A second pattern is "
    "named only if it adds at least a tenth of the attention. A head is called mixed if these patterns get less "
    "than half of its attention."
)
_keeping = threading.Lock()


@st.cache_resource(show_spinner=False)
def _in_memory() -> dict[tuple[str, str], HeadNames]:
    """By model and part, the names that were worked out since the server began; shared by all visitors."""
    return {}


def kept_names(view: View) -> HeadNames | None:
    """The names of the heads of the attention that is looked at, of the model as it is; None where there are none."""
    in_file = next((head_names(entry.folder, view.model.config) for entry in _entries(view)), {}).get(view.part)
    in_memory = _in_memory().get((view.name, view.part))
    return max((one for one in (in_file, in_memory) if one), key=lambda one: one.windows, default=None)


def keep_names(view: View, report: HeadReport, text: str) -> None:
    """Keep the names of a whole report over the text that ships, of the model as it is; of fewer windows than those
    that are kept, they are not. text: whose windows those were, see `HeadNames`.

    Beside the weights where the model was fetched and whoever looks may fetch, else for as long as this server runs.
    """
    is_as_it_is = not view.edits and view.trace.mask_name == view.own_mask
    if report.is_partial or len(report.windows) < FEWEST or not is_as_it_is:
        return
    with _keeping:
        kept = kept_names(view)
        if kept is not None and kept.windows >= len(report.windows):
            return
        names = _in_memory()[view.name, view.part] = report.kept_names(text)
        for entry in _entries(view):
            if entry.state == "fetched" and may(FETCH):
                with suppress(vm.CheckpointError):  # in a folder that nobody may write to
                    keep_head_names(entry.folder, view.model.config, {view.part: names})


def _entries(view: View) -> list:
    return [entry for entry in vm.catalogue() if entry.name == view.name and entry.folder]


def where_from(names: HeadNames) -> str:
    """ "128 windows (32,768 tokens) of fairy tales"."""
    return f"{counted(names.windows, 'window')} ({names.tokens:,} tokens) {names.text}"


def name_words(where: str, name: HeadName) -> str:
    """What a head is named, and how much of its attention goes to that, as Markdown."""
    interval = "" if name.low != name.low else f" ({percent(name.low)} to {percent(name.high)})"
    share = f"**{percent(name.share)}** of its attention{interval}"
    if name.is_mixed:
        words = (
            f"**{name.words}**. No two patterns together get half of its attention. The largest share goes to "
            f"{name.explaining}: {share}."
        )
    else:
        gets = "These two patterns get" if len(name.patterns) > 1 else "This pattern gets"
        words = f"**{name.words}**. {gets} {share}."
    return f"{where.capitalize()} is named {words}"


def draw_names_source(view: View, names: HeadNames | None) -> None:
    """Which text the names come from, and the way to the page that tells more of them."""
    if names is None:
        st.caption(
            "The heads of this model have no names yet. The page Over a text names them when the model has read the "
            "first text that is offered there."
        )
        link = "Let it read a text"
    else:
        is_changed = view.edits or view.trace.mask_name != view.own_mask
        changed = " For them, the model read the text under its own mask and without your edits." if is_changed else ""
        st.caption(
            f"The names come from {where_from(names)}.{changed}",
            help=RULE + "\n\n" + explained("text window", "previous-token head", "induction"),
        )
        link = "See what each head does over a text"
    st.page_link("../../pages/over_a_text/page.py", label=link, icon=":material/menu_book:", width="content")
