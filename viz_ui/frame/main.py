"""The frame of every page: its configuration, the navigation, the sidebar."""

from contextlib import suppress
from functools import partial
from pathlib import Path

import streamlit as st

from viz_ui.frame.address import begin_page, begin_run, draw_echo, end_run
from viz_ui.frame.edits import draw_banner
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.jobs import Stopped, end_unwatched
from viz_ui.frame.navigation import MODELS, choose_page, why_unedited
from viz_ui.frame.place import draw_place
from viz_ui.frame.sidebar import draw_sidebar
from viz_ui.frame.upkeep import note_session

HERE = Path(__file__).parent


def run() -> None:
    """One run of the script. A function, for what a module names stays after the visitor has left."""
    # A file of our own: Streamlit fetches icons by name and emoji from the network.
    st.set_page_config(page_title="Visual attention explorer", page_icon=str(HERE / "icon.png"), layout="wide")
    st.html(HERE / "main.css")
    if st.context.is_embedded:
        st.html(HERE / "embedded.css")
    note_session()
    page = choose_page()
    begin_run(page.title)
    view, applied = draw_sidebar(partial(why_unedited, page.title))
    draw_echo()
    draw_banner(applied)
    if view is not None:
        draw_place(view)
    begin_page()
    is_whole = False
    if view is None and page.title != MODELS:  # the page Models is where another one can be chosen
        st.title(page.title)
        main_picture("problem").info(st.session_state["problem"], icon=":material/edit:")
    else:
        st.session_state["view"] = view
        with suppress(Stopped):  # where the work was shown, it is said
            page.run()
            is_whole = view is not None
    end_unwatched()
    end_run(is_whole=is_whole)


run()
