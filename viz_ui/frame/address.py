"""The reader's choice: model, prompt, mask, layer, head, query and key token; and the address that holds it.

Each is a widget bound to the address (`bind="query-params"`), so a link opens exactly what its sender saw, and
the browser's Back steps through what was chosen, one number at a time. Streamlit leaves a widget's own default out
of the address; so that a 0 is told from a missing number, numbers have no default of their own, and neither has the
model. An address without a model is therefore an incomplete one (a first visit, or typed by hand): what it lacks is
filled in.
"""

import re
import time

import streamlit as st

from viz_ui.frame import text_in_address

# The browser paints nothing while messages keep coming, so the second run waits until the picture is on screen.
PAINT_SECONDS = 0.15

NUMBERS = ("layer", "head", "query", "key")

ECHO = "echo"  # the browser's word for how many choices it has heard of, beside `told`, the number that were made

# What numbers in the address look like, those of all pages; a widget that expects a number breaks on "inf". A choice
# that is always made is one of its options, which the widget sees to, but an empty one it takes for "nothing chosen".
WHOLE, FRACTION = r"[0-9]{1,6}", r"[0-9]{1,3}(\.[0-9]{1,9})?"
FORMS = {
    "(layer|head|query|key)": WHOLE,
    "(new|top_k|seed|step|written)": WHOLE,
    "(drawn|colours|shapes|preset|claim|quantization|scheme|grid_of|loops|stack|padded_side|off_text)": ".+",
    "exact_(rows|columns)": WHOLE,
    "(tile|tile_rows|tile_columns|fast_memory)": WHOLE,
    "(changed|width_[ab]|prefix_[ab]|first_of_.+)": WHOLE,
    "(hide|live_(layers?|heads?|width|steps|seed))": WHOLE,
    "(box_head|cross_layer|cross_head|digit|letter|blank)": WHOLE,
    "(temperature|top_p|threshold)": FRACTION,
    "live_pasted": text_in_address.FORM,
    "matrix_(row|column)": WHOLE,
    "(shuffle|shift|pair|later)": WHOLE,
    "(angles|past_.+)": ".+",
    "base": r"[0-9]{1,7}",
    "apart": "-?" + WHOLE,
}

# Choices that links made before call by a former name: (parameter, former name) -> the name of today.
RENAMED = {("colours", "own range"): "scale to this head"}

FIRST_PROMPT = "Once upon a time there was a king who had three daughters."

EXAMPLES = {
    "A story begins": FIRST_PROMPT,
    "Words that come again": "The red fox met a grey goose by the old mill. The red fox met a grey goose by the",
    "Random words, twice": "apple seven king blue river door gold nine apple seven king blue river door gold nine",
    "Who is she?": "The queen gave the girl a ring, and she thanked her.",
    "Numbers and names": "Hansel had 3 pebbles, Grethel had 4 pebbles, and Hansel counted the pebbles.",
    "Any script, any sign": "naïve café, 你好, مرحبا, 👩‍🚀 <b>bold</b> *stars* $x$",
}


def is_first_run() -> bool:
    """Whether this is the first run of a visitor: only then is no parameter of the address bound to a widget."""
    return not st.session_state.get("visited", False)


def drop_nonsense() -> bool:
    """Take numbers that are none out of the address (out of range, widgets do), and give choices the name of today.

    Gives whether anything changed.
    """
    renamed = {name: RENAMED[name, value] for name, value in st.query_params.items() if (name, value) in RENAMED}
    st.query_params.update(renamed)
    nonsense = [name for name, value in st.query_params.items() if _is_nonsense(name, value)]
    for name in nonsense:
        del st.query_params[name]
    return bool(nonsense or renamed)


def _is_nonsense(name: str, value: str) -> bool:
    forms = [form for names, form in FORMS.items() if re.fullmatch(names, name)]
    return any(not re.fullmatch(form, value) for form in forms)


def fill_in_address(first_choice: dict[str, object]) -> None:
    """Put the model, and what else the address lacks, into it. On a first run only."""
    missing = {name: value for name, value in first_choice.items() if name not in st.query_params}
    missing["model"] = first_choice["model"]
    st.query_params.update({name: str(value) for name, value in missing.items()})


def choose(**choices) -> None:
    """Set choices from a callback, such as a click on a head.

    They wait in `chosen` until the sidebar takes them into its widgets (`take_chosen`), because a click inside a
    fragment does not run the sidebar: the picture follows at once, the sidebar and the address right after it
    (`bring_sidebar_along`). And they stay there until the browser has them: what it sends of its widgets, it may have
    sent before it heard.
    """
    state = st.session_state
    state.chosen = ({} if _is_heard() else state.chosen) | choices
    state.told = state.get("told", 0) + 1


def choose_cell(event: dict) -> None:
    """Callback of `panels(on_pick=…)`: the clicked cell's query and key, where the panel has them."""
    choose(**{name: event[name] for name in ("query", "key") if event[name] is not None})


def take_chosen() -> None:
    """Give what was chosen to the widgets; runs before them."""
    if not _is_heard():
        st.session_state.update(st.session_state.chosen)
        st.session_state[ECHO] = st.session_state.told


def draw_echo() -> None:
    """A hidden widget by which the browser gives back the number of the last choice that it has; after the sidebar's.

    Without it, a click and at once another page left the former head on that page and the new one in sidebar and
    address, for good.
    """
    with st.sidebar.container(key="echo_address"):
        st.number_input("The choice that the browser knows", 0, key=ECHO)


def note_widgets_drawn() -> None:
    """At the end of a whole run: all widgets were drawn, with what was chosen. Not earlier, for the next click may cut
    a run off."""
    st.session_state.drawn_of = st.session_state.get("told", 0)


def _sidebar_knows() -> bool:
    return st.session_state.get(ECHO, 0) == st.session_state.get("told", 0)


def _is_heard() -> bool:
    """Whether the browser has in its widgets what was chosen last, so that what it sends is the later choice."""
    told = st.session_state.get("told", 0)
    return _sidebar_knows() and st.session_state.get("drawn_of", 0) == told


def bring_sidebar_along() -> None:
    """At the end of a fragment: run the whole app, if the fragment drew a choice that the sidebar does not know."""
    if not _sidebar_knows():
        time.sleep(PAINT_SECONDS)
        st.rerun(scope="app")


def chosen_value(name: str):
    """What is chosen now, be it in the widget or by a click that the sidebar does not know yet; None for nothing."""
    return ({} if _is_heard() else st.session_state.chosen).get(name, st.session_state.get(name))


def chosen_number(name: str) -> int:
    """A number as it is chosen now; 0 for none."""
    return chosen_value(name) or 0


def clamp(name: str, highest: int) -> None:
    """Bring a chosen number back into range after the prompt or the model became smaller."""
    if (st.session_state.get(name) or 0) > highest:
        st.session_state[name] = highest
