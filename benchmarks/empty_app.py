"""The least that a rerun can be: one button, one text. What `head_change.py` measures against."""

import streamlit as st

state = st.session_state
state.setdefault("runs", 0)


def count() -> None:
    state.runs += 1


st.button("again", on_click=count)
st.text(f"run {state.runs}")
