"""A page in sections: its title, the choice of a section beside it, and the section as a fragment."""

from collections.abc import Callable, Sequence

import streamlit as st

import viz_model as vm
from viz_ui.frame.address import bring_sidebar_along, linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.jobs import Stopped
from viz_ui.look.text import plain, sentence


def choose_section(title: str, names: Sequence[str], *, key: str) -> str:
    """Draw title and choice in one row, which leaves the height to the pictures; gives the name that is chosen."""
    with st.container(horizontal=True, vertical_alignment="center", key="sections_head"):
        st.title(title, width="content")
        return linked(
            st.segmented_control,
            "What is shown",
            list(names),
            default=names[0],
            required=True,
            key=key,
            label_visibility="collapsed",
        )


@st.fragment
def draw_section(draw: Callable[[], None]) -> None:
    """The section: a fragment, so that what is clicked in it answers at once; what it refuses is said."""
    draw_long_section(draw)


def draw_long_section(draw: Callable[[], None]) -> None:
    """The section as a part of the whole run, for work that can be stopped (see `jobs.finished`)."""
    try:
        with main_picture():
            draw()
    except Stopped:
        pass  # where the work was shown, it is said
    except vm.VizError as error:
        main_picture("refused").info(plain(sentence(str(error))), icon=":material/edit:")
    bring_sidebar_along()
