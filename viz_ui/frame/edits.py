"""The list of edits: what the reader changed in the passes of the model, and the banner that says so on every page.

The list stands in the address, an edit a time (`Edit.written`), with a sign before those that are switched off. What
cannot be read there is left out, and that is said; what can be read but does not fit the model or the prompt stays in
the list, with the reason, and waits for one that it fits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

import viz_model as vm
from viz_model.intervention.edits import HeadEdit, ScaleHead, SetWeight, read_edit
from viz_model.model.edits import Edit
from viz_ui.frame.address import arrived_texts, choose, chosen_value, held, hold, is_heard
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.forms import Form, Switch, Texts
from viz_ui.frame.visitors import told
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, plain, sentence

LIST, UNEDITED = "edits", "unedited"
MOST = 20
OFF = "!"  # before an edit that is in the list and not in the pass
NUMBERS = {ScaleHead: "factor", SetWeight: "weight", vm.AddVector: "strength"}


@dataclass(frozen=True)
class ListedEdit:
    """An edit in the list."""

    edit: Edit
    is_on: bool = True


ListedEdits = tuple[ListedEdit, ...]
Problems = tuple[tuple[int, str], ...]  # sentences by the place of an edit in the list


@dataclass(frozen=True)
class ListOfEdits(Form):
    """Edits in their order, each as the address has it."""

    def read(self, texts: Texts) -> ListedEdits:
        return tuple(entry for text in texts if (entry := _entry(text)) is not None)[:MOST]

    def write(self, value: ListedEdits) -> list[str]:
        return [OFF * (not entry.is_on) + entry.edit.written for entry in value]

    def fit(self, value: Any) -> ListedEdits:
        if not isinstance(value, tuple) or not all(isinstance(entry, ListedEdit) for entry in value):
            raise ValueError(f"{value!r} is no list of edits")
        return value[:MOST]


def _entry(text: str) -> ListedEdit | None:
    try:
        return ListedEdit(read_edit(text.removeprefix(OFF)), not text.startswith(OFF))
    except vm.EditError:
        return None


@dataclass(frozen=True)
class Applied:
    """What became of the list in this run.

    edits: those of the pass on screen; part: which attention of it is looked at. problems: why an entry is not among
    them, by its place in the list. reason: why none of them is, where that is of the page or of all of them together.
    """

    edits: tuple[Edit, ...] = ()
    problems: Problems = ()
    reason: str = ""
    part: str = "self"


def take_entries() -> ListedEdits:
    """Declare the list and the switch, whether or not there is a pass to look at; gives the list."""
    if (texts := arrived_texts(LIST)) is not None:
        unread = [text for text in texts if text and _entry(text) is None]
        beyond = len([*filter(None, texts)]) - len(unread) - MOST
        st.session_state.unread_edits = unread + [""] * max(0, beyond)
    held(UNEDITED, Switch(), False)
    return held(LIST, ListOfEdits(), ())


def entries() -> ListedEdits:
    """The list as it is now, also within a fragment."""
    return chosen_value(LIST, ())


def is_compared() -> bool:
    """Whether the reader looks at the pass without the edits."""
    return chosen_value(UNEDITED, False)


def add_edit(edit: Edit) -> None:
    """Put an edit at the end of the list, switched on, from a callback; one that is there already is moved there."""
    others = tuple(entry for entry in entries() if entry.edit != edit)
    _choose((*others, ListedEdit(edit))[-MOST:])


def _choose(now: ListedEdits) -> None:
    st.session_state.unread_edits = []
    choose(**{LIST: now, UNEDITED: False})


def _switch(place: int) -> None:
    now = entries()
    _choose((*now[:place], replace(now[place], is_on=not now[place].is_on), *now[place + 1 :]))


def _remove(place: int) -> None:
    now = entries()
    _choose((*now[:place], *now[place + 1 :]))


def _move(place: int, by: int) -> None:
    now = [*entries()]
    now.insert(place + by, now.pop(place))
    _choose(tuple(now))


def _take_number(place: int, name: str, key: str) -> None:
    """Of the box beside an entry, as `address.half_of_pair`."""
    if is_heard() and st.session_state[key] is not None:
        now = entries()
        edit = replace(now[place].edit, **{name: float(st.session_state[key])})
        hold(**{LIST: (*now[:place], replace(now[place], edit=edit), *now[place + 1 :])})


def _take_switch(key: str) -> None:
    if is_heard():
        hold(**{UNEDITED: st.session_state[key]})


def fitting(listed: ListedEdits, fits: Callable[[Edit], object]) -> tuple[tuple[Edit, ...], Problems]:
    """The edits that are on and fit, and why others do not; `fits` raises VizError for one that does not."""
    edits, problems = [], []
    for place, entry in enumerate(listed):
        if entry.is_on:
            try:
                fits(entry.edit)
                edits.append(entry.edit)
            except vm.VizError as error:
                problems.append((place, told(str(error))))
    return tuple(edits), tuple(problems)


def fitting_pass(edits: Sequence[Edit], unedited: vm.Trace) -> tuple[tuple[Edit, ...], tuple[str, ...]]:
    """The edits that can be made in another pass than the one on screen, and sentences that say why others cannot.

    unedited: that pass without them, or any trace with its tokens and masks.
    """
    fit, left_out = [], []
    for edit in edits:
        try:
            edit.refuse_pass(unedited)
            fit.append(edit)
        except vm.VizError as error:
            left_out.append(f"{edit.words} {told(str(error))}")
    return tuple(fit), tuple(left_out)


def left_out_words(why: str, where: str = "") -> str:
    """That an edit is left out, and why, as Markdown. where: " under mask A"."""
    return f":orange[Left out{where}:] {plain(sentence(why))}"


def queries_with_set_weights(edits: Sequence[Edit], part: str, layer: int, head: int) -> list[int]:
    """The queries of a head whose weights are, by an edit, not the softmax of its scores."""
    return sorted({edit.query for edit in edits if isinstance(edit, SetWeight) and edit.is_of(part, layer, head)})


def draw_banner(applied: Applied) -> None:
    """Above the page, where there is a list: whether the pass on screen is an edited one, and how; and the list."""
    listed, unread = entries(), st.session_state.get("unread_edits", [])
    if not listed and not unread:
        return
    with main_picture("edits"), st.container(key="edits_banner", gap="xsmall"):
        line = "edits_line" if applied.edits and not st.context.is_embedded else "edits_reason"
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key=line):
            st.markdown(_banner_words(listed, applied), width="stretch")
            if applied.edits or is_compared():
                _draw_switch()
            if listed:
                with st.popover(f"List of edits ({len(listed)})", icon=":material/list:", width="content"):
                    _draw_list(listed, applied)
        for place, problem in applied.problems:
            st.markdown(f":orange[Left out:] {_words(listed[place].edit)} {plain(sentence(problem))}")
        if unread:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.markdown(f":orange[Left out:] {_unread_words(unread)}", width="stretch")
                st.button("Close", key="edits_read", type="tertiary", on_click=_forget_unread)


def _banner_words(listed: ListedEdits, applied: Applied) -> str:
    if applied.edits:
        if st.context.is_embedded:  # there, nobody can open the list
            return " ".join([":orange-badge[edited pass]", *map(_words, applied.edits), *_here(applied)])
        badge = "edited pass, this head too" if _own(applied) else "edited pass"
        more = f" And {counted(len(applied.edits) - 1, 'more edit')}." if len(applied.edits) > 1 else ""
        return f":orange-badge[{badge}] {_words(applied.edits[-1])}{more}"  # the one that was added last
    if applied.reason:
        return f":blue-badge[unedited pass] {plain(sentence(applied.reason))}"
    if not any(entry.is_on for entry in listed):
        off = "All edits in the list are off." if listed else ""
        return f":blue-badge[unedited pass] {off}"
    return ":blue-badge[unedited pass] No edit of the list can be made here."


def _own(applied: Applied) -> list[HeadEdit]:
    """The edits of the chosen head."""
    place = applied.part, *chosen_value("head")
    return [edit for edit in applied.edits if isinstance(edit, HeadEdit) and edit.is_of(*place)]


def _here(applied: Applied) -> list[str]:
    """What an edit of the chosen head means for what is drawn of it."""
    own = _own(applied)
    queries = queries_with_set_weights(own, applied.part, *chosen_value("head"))
    rows = f"{'query' if len(queries) == 1 else 'queries'} {', '.join(map(str, queries))}"
    words = [f"In the head on screen, the weights of {rows} are not the softmax of the scores."] * bool(queries)
    if any(not isinstance(edit, SetWeight) for edit in own):
        words.append("In the head on screen, the mixed values are not A·V.")
    return words


def _terms(listed: ListedEdits) -> list[str]:
    """The terms that the banner and the list may use."""
    of_kind = {
        vm.SwitchOff: ("ablation", "value"),
        SetWeight: ("attention weight", "score", "softmax"),
        vm.AddVector: ("steering vector", "residual stream"),
    }
    kinds = {type(entry.edit) for entry in listed}
    return ["edited pass", *(term for kind, terms in of_kind.items() if kind in kinds for term in terms)]


def _unread_words(unread: Sequence[str]) -> str:
    odd = [f"“{plain(sentence(text[:40]))}”" for text in unread if text]
    words = f"These parts of the link are not edits: {', '.join(odd[:3])}{' and more' * (len(odd) > 3)}." if odd else ""
    beyond = len(unread) - len(odd)
    return f"{words} {f'The list holds {MOST} edits, and the link has {beyond} more.' if beyond else ''}".strip()


def _forget_unread() -> None:
    st.session_state.unread_edits = []


def _words(edit: Edit) -> str:
    return plain(sentence(edit.words))


def _draw_switch() -> None:
    key = "edits_compared"
    if st.session_state.get(key) != is_compared():
        st.session_state[key] = is_compared()
    st.toggle(
        "Without the edits",
        key=key,
        on_change=_take_switch,
        args=(key,),
        help="Compare: this shows the pass of the model as it is. The list of edits stays.",
    )


def _draw_list(listed: ListedEdits, applied: Applied) -> None:
    problems = dict(applied.problems)
    if applied.edits and (here := _here(applied)):
        st.markdown(" ".join(here))
    for place, entry in enumerate(listed):
        said, controls = st.columns([1, 1.1], vertical_alignment="center")
        words = _words(entry.edit)
        said.markdown(words if entry.is_on and place not in problems else f":gray[{words}]")
        with controls.container(horizontal=True, horizontal_alignment="right", gap="xsmall"):
            _draw_number(place, entry)
            _draw_button(place, "on", "Off" if entry.is_on else "On", "off" if entry.is_on else "on", _switch)
            _draw_button(place, "up", "↑", "earlier", _move, -1, is_disabled=place == 0)
            _draw_button(place, "down", "↓", "later", _move, 1, is_disabled=place == len(listed) - 1)
            _draw_button(place, "remove", "Remove", "out of the list", _remove)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(
            "The edits are made in this order. Back in the browser undoes what you did last.",
            help=explained(*_terms(listed)),
            width="stretch",
        )
        st.button("Remove all", key="edits_clear", on_click=_choose, args=((),))


def _draw_button(
    place: int, name: str, label: str, where: str, work: Callable, *more: int, is_disabled: bool = False
) -> None:
    help_ = f"Edit {place + 1}: {where}"
    st.button(label, key=f"edit_{place}_{name}", on_click=work, args=(place, *more), disabled=is_disabled, help=help_)


def _draw_number(place: int, entry: ListedEdit) -> None:
    """A box for the number of an edit that has one."""
    name = NUMBERS.get(type(entry.edit))
    if name is None:
        return
    key, number = f"edit_{place}_{name}", getattr(entry.edit, name)
    if st.session_state.get(key) != number:
        st.session_state[key] = number
    low, high, step = (0.0, 1.0, 0.05) if name == "weight" else (-1e6, 1e6, 0.5)
    st.number_input(name.capitalize(), low, high, step=step, key=key, on_change=_take_number, args=(place, name, key),
                    label_visibility="collapsed", width=110)  # fmt: skip
