"""A page within another one (`?embed=true`): its main picture alone, with its caption and its numbers.

A page marks what that is, and embedded.css hides the rest there. What is hidden is drawn all the same, for the address
chooses by its widgets.
"""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator


def main_picture(name: str = "main") -> DeltaGenerator:
    """A container for what a page within another one shows; name: to tell several of a page from each other."""
    return st.container(key=f"picture_{name}")
