"""The reader's choice: model, prompt, mask, layer, head, query and key token, and what is drawn.

Each is a widget bound to the address (`bind="query-params"`), so a link opens exactly what its sender saw.
Streamlit leaves a widget's own default out of the address. Those defaults are therefore the plainest ones
(empty prompt, layer 0, head 0 …), and what a new visitor sees first is set here, so that it stands in the
address like any other choice.
"""

import streamlit as st

BOUND = ("model", "prompt", "mask", "layer", "head", "query", "key")

FIRST_PROMPT = "Once upon a time there was a king who had three daughters."

EXAMPLES = {
    "A story begins": FIRST_PROMPT,
    "Words that come again": "The red fox met a grey goose by the old mill. The red fox met a grey goose by the",
    "Random words, twice": "apple seven king blue river door gold nine apple seven king blue river door gold nine",
    "Who is she?": "The queen gave the girl a ring, and she thanked her.",
    "Numbers and names": "Hansel had 3 pebbles, Grethel had 4 pebbles, and Hansel counted the pebbles.",
    "Any script, any sign": "naïve café, 你好, مرحبا, 👩‍🚀 <b>bold</b> *stars* $x$",
}


def is_new_visit() -> bool:
    """Whether this is the first run of a visitor who came without a choice in the address."""
    first = "visited" not in st.session_state
    st.session_state.visited = True
    return first and not any(name in st.query_params for name in BOUND)


def choose(**choices) -> None:
    """Set choices from a callback, such as a click on a head; the widgets and the address follow."""
    st.session_state.update(choices)


def clamp(name: str, highest: int) -> None:
    """Bring a chosen number back into range after the prompt or the model became smaller."""
    if st.session_state.get(name, 0) > highest:
        st.session_state[name] = highest
