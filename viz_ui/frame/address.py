"""The address, which holds all that a reader chose: a link opens what its sender saw, Back is undo.

A parameter is declared where its widget stands, and nowhere else. `linked` draws a widget whose value the address
holds; what the widget allows is what the parameter may be. `held` is for what is chosen in a picture and has no widget.
Nonsense in an address is passed over, and a parameter that is at its default is left out.

Streamlit can bind a widget to the address, but then what a reader does in a widget makes no step of Back, and what a
click sets makes one for each parameter (docs/streamlit.md). So the address is written here, once a run: `begin_run`
makes one step of Back of all that was chosen since the last run; `end_run` puts right, without a step, what nobody
chose: what a visit begins with, what another page brings along, what had to come into range.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from viz_ui.components.address_bar import address_bar
from viz_ui.frame.forms import Form, Fraction, OneOf, SomeOf, SomeTexts, Switch, Text, Whole
from viz_ui.frame.sent_messages import pass_on_sent

# The browser paints nothing while messages keep coming, so the second run waits until the picture is on screen.
PAINT_SECONDS = 0.15

ECHO = "echo"  # the browser's word for how many choices it has heard of, beside `told`, the number that were made

LONGEST_TEXT = 20_000  # letters of a text of which its widget says nothing
LONGEST_NEW = 100  # letters of a text that stands among options

# The argument of a widget that is its default; of all others it is "value".
DEFAULT_OF = {"selectbox": "index", "segmented_control": "default", "pills": "default", "multiselect": "default"}


@dataclass(frozen=True)
class UrlParameter:
    """One choice in the address. default: what it is without one; is_always_there: whether that is written too."""

    name: str
    form: Form
    default: Any
    is_always_there: bool = False


@dataclass
class Visit:
    """What this visitor's choices and their address have to do with each other.

    page: the one that is looked at. declared: its parameters, and under "" those of the frame. place: which of the two
    is drawn now. drawn: those that this run has declared so far. arrived: the address that the reader came with, by a
    link, Back or Forward; None once they went to another page. taken: the parameters that have their value of it.
    is_whole: whether the page has been drawn to its end since. held: values of parameters that have no widget. picked:
    those of them that the reader chose, here or by the address that they came with. cut: texts that were longer than
    their box, what is left of them and how long they were. shown: the address as the browser has it. unsure:
    those that it may still have instead, because a run began again before the browser drew what the last one sent.
    is_corrected: whether `end_run` was in this run.
    """

    page: str = ""
    place: str = ""
    declared: dict[str, dict[str, UrlParameter]] = field(default_factory=dict)
    drawn: set[str] = field(default_factory=set)
    arrived: dict[str, list[str]] | None = None
    taken: set[str] = field(default_factory=set)
    is_whole: bool = False
    held: dict[str, Any] = field(default_factory=dict)
    picked: set[str] = field(default_factory=set)
    cut: dict[str, tuple[str, int]] = field(default_factory=dict)
    shown: dict[str, str | list[str]] = field(default_factory=dict)
    unsure: list[dict[str, str | list[str]]] = field(default_factory=list)
    is_corrected: bool = False

    @property
    def parameters(self) -> dict[str, UrlParameter]:
        """Those of the frame and of the page."""
        return self.declared.get("", {}) | self.declared.get(self.page, {})


def visit() -> Visit:
    """This visitor's. A run asks for it a hundred times, and looks once each time."""
    try:
        return st.session_state["visit"]
    except KeyError:
        return st.session_state.setdefault("visit", Visit())


def linked(widget: Callable, *arguments, key: str, is_always_there: bool = False, former: dict | None = None, **named):
    """Draw a widget of Streamlit whose value the address holds under the name `key`; gives what the widget gives.

    `linked(st.number_input, "Seed", 0, 9999, 0, key="seed")` draws what `st.number_input` with the same arguments
    would, and declares the parameter: whole numbers from 0 to 9999, 0 unless the address says otherwise.

    is_always_there: whether the address has it at its default too. former: words of links made before for options.

    A text that is longer than its box allows is cut to what the box allows, and below it that is said.
    """
    given = signature(widget).bind(*arguments, key=key, **named).arguments
    name = DEFAULT_OF.get(widget.__name__, "value")
    form, default = declaration(widget.__name__, given)
    if former:
        form = replace(form, former=former)
    parameter = UrlParameter(key, form, default, is_always_there)
    before = visit().parameters.get(key, parameter)
    came = visit().arrived.get(key, [default])[-1] if _waits(key) else st.session_state.get(key, default)
    value = _taken(parameter, st.session_state.get(key, default))
    # A slider or a box with another range is another one to Streamlit, and knows nothing of the former's value.
    has_other_range = before.form != form and not isinstance(form, OneOf | SomeOf)
    if key not in st.session_state or st.session_state[key] != value or has_other_range:
        st.session_state[key] = value
    given.pop(name, None)
    if default is None and name != "default":
        given[name] = None  # only so a widget may be empty
    if isinstance(form, Text):
        given.pop("max_chars", None)  # a browser that knew it would drop a longer text without a word
    result = widget(**given, persist_state="session")
    if isinstance(form, Text):
        _say_cut(getattr(widget, "__self__", st), key, came, value)
    return result


def _say_cut(place, key: str, came: str | None, value: str | None) -> None:
    """Say how much of a text was cut, for as long as the rest of it stays as it is."""
    cut = visit().cut
    if came and value and len(came) > len(value):
        cut[key] = value, len(came)
    elif key in cut and cut[key][0] != value:
        del cut[key]
    if key in cut:
        length, room = cut[key][1], len(cut[key][0])
        place.warning(
            f"Your text had {length:,} characters, and this box holds {room:,}. The last {length - room:,} are cut "
            "off.",
            icon=":material/content_cut:",
        )


def held(name: str, form: Form, default: Any = None) -> Any:
    """The value of a parameter without a widget; `choose` changes it."""
    held, parameter = visit().held, UrlParameter(name, form, default)
    if _waits(name) and _read(parameter) != default:
        visit().picked.add(name)
    held[name] = _taken(parameter, held.get(name, default))
    return held[name]


def half_of_pair(place, label: str, pair: str, half: int, highest: int, *, key: str, **look) -> None:
    """A box for one of the two numbers of a held `PairOfNumbers`, from 0 to `highest`.

    A number that is out of range becomes the nearest one that is there: a browser that knew the range would leave it
    standing in the box, and choose nothing.
    """
    number = visit().held[pair][half]
    if st.session_state.get(key) != number:
        st.session_state[key] = number

    def take() -> None:
        if is_heard():  # else it is what stood there before a choice that the browser has not heard of
            halves = list(visit().held[pair])
            halves[half] = min(max(st.session_state[key] or 0, 0), highest)
            hold(**{pair: tuple(halves)})
            visit().picked.add(pair)

    place.number_input(f"{label} (0–{highest:,})", step=1, key=key, on_change=take, **look)


def hold(**values) -> None:
    """What parameters without a widget came to, other than by a choice: brought into range, or worked out."""
    visit().held.update(values)


def is_picked(name: str) -> bool:
    """Whether a parameter without a widget has what the reader chose, and not what was worked out for them."""
    return name in visit().picked


def declaration(widget: str, given: dict) -> tuple[Form, Any]:
    """The form of a widget's values, and its default, by the arguments that it is given."""
    words = given.get("format_func", str)
    if widget == "toggle":
        return Switch(), bool(given.get("value", False))
    if widget in ("text_input", "text_area"):
        return Text(given.get("max_chars") or LONGEST_TEXT), given.get("value", "")
    if widget in ("number_input", "slider"):
        low, high, default = (given.get(name) for name in ("min_value", "max_value", "value"))
        default = low if "value" not in given else default
        if isinstance(low, float):
            return Fraction(low, high), default
        return Whole(low, high), default
    options = tuple(given["options"])
    if widget == "multiselect":  # of any texts; where the options are all that there is, pills show them all
        return SomeTexts(LONGEST_NEW, given["max_selections"]), list(given.get("default") or [])
    if given.get("accept_new_options"):  # of any text; what is empty at first
        return Text(LONGEST_NEW), None
    if given.get("selection_mode") == "multi":
        return SomeOf(options, words), list(given.get("default") or [])
    if widget == "selectbox":
        index = given.get("index", 0)
        return OneOf(options, words), None if index is None else options[index]
    return OneOf(options, words), given.get("default", given.get("value"))


def _taken(parameter: UrlParameter, current: Any) -> Any:
    """Declare a parameter; gives its value: of the address where that is new, else the current one, in range."""
    now = visit()
    now.declared.setdefault(now.place, {})[parameter.name] = parameter
    now.drawn.add(parameter.name)
    if _waits(parameter.name):
        now.taken.add(parameter.name)
        current = _read(parameter)
    return _fitting(parameter, current)


def _waits(name: str) -> bool:
    """Whether the address has this parameter's value, and nothing took it from there yet."""
    return visit().arrived is not None and name not in visit().taken


def _read(parameter: UrlParameter) -> Any:
    """The value that the reader came with."""
    try:
        return parameter.form.read_from(visit().arrived, parameter.name)
    except ValueError:
        return parameter.default


def _fitting(parameter: UrlParameter, value: Any) -> Any:
    if value == parameter.default:
        return parameter.default
    try:
        return parameter.form.fit(value)
    except ValueError:
        return parameter.default


def arriving(name: str) -> str | None:
    """The text of a parameter in the address that the reader came with, until something takes it from there."""
    return visit().arrived.get(name, [None])[-1] if _waits(name) else None


def texts_before(name: str) -> list[str]:
    """The texts of a parameter before its widget is drawn: of the address where that is new, else of the widget."""
    if _waits(name):
        return [text[:LONGEST_NEW] for text in visit().arrived.get(name, []) if text]
    value = st.session_state.get(name)
    return [*value] if isinstance(value, list) else [value] if value else []


def begins_without(*names: str) -> bool:
    """Whether a page is drawn for the first time since the reader came to it, by the menu or by a link that says
    nothing of these parameters."""
    now = visit()
    return not now.is_whole and not any(name in (now.arrived or {}) for name in names)


def arrived_texts(name: str) -> list[str] | None:
    """All texts of a parameter in the address that the reader came with; None where it is not there, or was taken."""
    return visit().arrived.get(name) if _waits(name) else None


def written() -> dict[str, str | list[str]]:
    """The address of what is chosen now."""
    now = visit()
    address = {}
    for parameter in now.parameters.values():
        name = parameter.name
        value = _read(parameter) if _waits(name) else _fitting(parameter, chosen_value(name, parameter.default))
        if value is not None and (value != parameter.default or parameter.is_always_there):
            address[name] = parameter.form.write(value)
    if not now.is_whole:  # what is not drawn yet may still need it
        address |= {name: text for name, text in _as_written(now.arrived or {}).items() if name not in now.parameters}
    return address


def _as_written(address: dict[str, list[str]]) -> dict[str, str | list[str]]:
    """A text alone is no list."""
    return {name: texts[0] if len(texts) == 1 else texts for name, texts in address.items()}


def begin_run(page: str) -> None:
    """At the beginning of a whole run: take the address that the reader came with, or make a step of Back of what they
    chose since the last run."""
    now = visit()
    now.place, now.drawn, now.is_corrected = "", set(), False
    if not now.page or _is_history():
        now.page, now.taken, now.is_whole = page, set(), False
        now.arrived = {name: st.query_params.get_all(name) for name in st.query_params}
        now.shown = _as_written(now.arrived)
        st.session_state.chosen, st.session_state.told = {}, st.session_state.get(ECHO, 0)
    elif page != now.page:  # the browser has made the step, and left all parameters out
        now.page, now.arrived, now.is_whole, now.shown = page, None, False, {}
    _take_chosen()
    with st.sidebar.container(key="begin_address"):
        if now.is_whole and written() != now.shown:
            now.shown = written()
            st.query_params.from_dict(now.shown)
        _correct("begin", is_due=now.arrived is None)


def begin_page() -> None:
    """What is declared from here on belongs to the page, no longer to the frame."""
    visit().place = visit().page


def end_run(*, is_whole: bool = True) -> None:
    """At the end of a whole run: put the address right. Not earlier, for the next click may cut a run off.

    is_whole: whether the page was drawn to its end; else what it may still need stays in the address.
    """
    now = visit()
    if now.is_corrected:
        return
    now.is_corrected = True
    if is_whole:
        now.is_whole = True
        for place in ("", now.page):
            here = now.declared.get(place, {})
            now.declared[place] = {name: parameter for name, parameter in here.items() if name in now.drawn}
    st.session_state.drawn_of = st.session_state.get("told", 0)
    with st.sidebar.container(key="end_address"):
        _correct("end")
    now.unsure.clear()


def _correct(when: str, is_due: bool = True) -> None:
    """Let the browser replace the address by what is chosen, where it differs."""
    now, number = visit(), 0
    wanted, seen = now.shown, [now.shown, *now.unsure]
    if is_due and (wanted := written()) != now.shown:
        now.unsure.append(now.shown)
        now.shown, number = wanted, time.time_ns() // 1000  # above all before; whole in the browser too
    address_bar(seen, wanted, number=number, key=f"address_bar_{when}")


def _is_history() -> bool:
    """Whether the reader went Back or Forward to where they are."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def choose(**choices) -> None:
    """Set choices from a callback, such as a click on a head.

    Those of widgets wait in `chosen` until the next whole run gives them to the widgets (`_take_chosen`), because a
    click inside a fragment does not draw the sidebar: the picture follows at once, the sidebar and the address right
    after it (`bring_sidebar_along`). And they stay there until the browser has them: what it sends of its widgets, it
    may have sent before it heard.
    """
    state, held = st.session_state, visit().held
    if unknown := choices.keys() - {name for names in visit().declared.values() for name in names}:
        raise ValueError(f"No parameter is declared as {', '.join(sorted(unknown))}.")
    held.update({name: value for name, value in choices.items() if name in held})
    visit().picked.update(choices.keys() & held)
    state.chosen = ({} if is_heard() else state.chosen) | {n: v for n, v in choices.items() if n not in held}
    state.told = state.get("told", 0) + 1


def choose_pair(name: str, first: int | None, second: int | None, instead: tuple = (0, 0)) -> None:
    """Choose a `PairOfNumbers` from a callback. A half that is not given stays, or is that of `instead` at first."""
    halves = zip((first, second), visit().held[name] or instead, strict=True)
    choose(**{name: tuple(former if new is None else new for new, former in halves)})


def _take_chosen() -> None:
    """Give what was chosen to the widgets; runs before them."""
    if not is_heard():
        st.session_state.update(st.session_state.chosen)
        st.session_state[ECHO] = st.session_state.told


def draw_echo() -> None:
    """A hidden widget by which the browser gives back the number of the last choice that it has; after the sidebar's.

    Without it, a click and at once another page left the former prompt on that page and the new one in sidebar and
    address, for good.
    """
    with st.sidebar.container(key="echo_address"):
        st.number_input("The choice that the browser knows", 0, key=ECHO)


def _sidebar_knows() -> bool:
    return st.session_state.get(ECHO, 0) == st.session_state.get("told", 0)


def is_heard() -> bool:
    """Whether the browser has in its widgets what was chosen last, so that what it sends is the later choice."""
    told = st.session_state.get("told", 0)
    return _sidebar_knows() and st.session_state.get("drawn_of", 0) == told


def bring_sidebar_along() -> None:
    """At the end of a fragment: run the whole app, if the fragment drew a choice that sidebar or address lack."""
    context = get_script_run_ctx()
    is_alone = context is not None and bool(context.fragment_ids_this_run)
    if not _sidebar_knows() or (is_alone and written() != visit().shown):
        time.sleep(PAINT_SECONDS)
        pass_on_sent()
        st.rerun(scope="app")


def chosen_value(name: str, default: Any = None) -> Any:
    """What is chosen now, be it in the widget or by a click that the sidebar does not know yet."""
    if name in visit().held:
        return visit().held[name]
    return ({} if is_heard() else st.session_state.chosen).get(name, st.session_state.get(name, default))
