"""What a visitor's browser tells of a component: the one place where it is read."""

import streamlit as st


def event_value(key: str, event: str):
    """The value of an event of the component with that key, None where there is none: a visitor can forge it.

    Back and Forward may take the component off the page while a click on it is still under way; then nothing is kept
    under its key.
    """
    return st.session_state.get(key, {}).get(event)
