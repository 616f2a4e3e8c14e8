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

# The browser paints nothing while messages keep coming, so the second run waits until the picture is on screen.
PAINT_SECONDS = 0.15

NUMBERS = ("layer", "head", "query", "key")

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
    "(hide|live_(layers|heads|width|steps|seed))": WHOLE,
    "(box_head|cross_layer|cross_head|digit|letter|blank)": WHOLE,
    "(temperature|top_p|threshold)": FRACTION,
    "matrix_(row|column)": WHOLE,
    "(shuffle|shift|pair|later)": WHOLE,
    "base": r"[0-9]{1,7}",
    "apart": "-?" + WHOLE,
}

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
    """Take numbers that are none out of the address (out of range, widgets do); whether there were any."""
    nonsense = [name for name, value in st.query_params.items() if _is_nonsense(name, value)]
    for name in nonsense:
        del st.query_params[name]
    return bool(nonsense)


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
    (`bring_sidebar_along`).
    """
    st.session_state.setdefault("chosen", {}).update(choices)
    st.session_state.sidebar_knows = False


def choose_cell(event: dict) -> None:
    """Callback of `panels(on_pick=…)`: the clicked cell's query and key, where the panel has them."""
    choose(**{name: event[name] for name in ("query", "key") if event[name] is not None})


def take_chosen() -> None:
    """Give what was chosen to the widgets; runs before them."""
    st.session_state.update(st.session_state.get("chosen", {}))
    st.session_state.sidebar_knows = True


def forget_chosen(name: str | None = None) -> None:
    """At the end of a whole run: the widgets have it now. Not earlier, for a run may be cut off by the next click.

    With a name: that widget was changed by hand, which is a later choice.
    """
    if name is not None:
        st.session_state.get("chosen", {}).pop(name, None)
    elif st.session_state.get("sidebar_knows"):
        st.session_state.pop("chosen", None)


def bring_sidebar_along() -> None:
    """At the end of a fragment: run the whole app, if the fragment drew a choice that the sidebar does not know."""
    if not st.session_state.get("sidebar_knows", True):
        time.sleep(PAINT_SECONDS)
        st.rerun(scope="app")


def chosen_value(name: str):
    """What is chosen now, be it in the widget or by a click that the sidebar does not know yet; None for nothing."""
    return st.session_state.get("chosen", {}).get(name, st.session_state.get(name))


def chosen_number(name: str) -> int:
    """A number as it is chosen now; 0 for none."""
    return chosen_value(name) or 0


def clamp(name: str, highest: int) -> None:
    """Bring a chosen number back into range after the prompt or the model became smaller."""
    if (st.session_state.get(name) or 0) > highest:
        st.session_state[name] = highest
