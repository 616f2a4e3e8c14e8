"""Starts the script that VIZ_SCRIPT names with the components' files served, as `app.py` starts the whole app."""

import os

import streamlit as st

from viz_ui.components.shared.serving import components_route

app = st.App(os.environ["VIZ_SCRIPT"], routes=[components_route()])
