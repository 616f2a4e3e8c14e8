"""The frame of every page: its configuration, the navigation, the sidebar."""

from contextlib import suppress
from pathlib import Path

import streamlit as st

from viz_ui.frame.address import begin_page, begin_run, draw_echo, end_run
from viz_ui.frame.jobs import Stopped, end_unwatched
from viz_ui.frame.sidebar import draw_sidebar

HERE = Path(__file__).parent

# A file of our own: Streamlit fetches icons by name and emoji from the network.
st.set_page_config(page_title="Visual attention explorer", page_icon=str(HERE / "icon.png"), layout="wide")

st.html(HERE / "main.css")


def _page(name: str, title: str, icon: str, default: bool = False):
    """The page in the folder pages/`name`; its name is its address."""
    return st.Page(f"../../pages/{name}/page.py", title=title, icon=icon, url_path=name, default=default)


models = _page("models", "Models", ":material/database:")
page = st.navigation(
    {
        "Explore": [
            _page("heads", "Heads", ":material/grid_view:", default=True),
            _page("inside_a_head", "Inside a head", ":material/search:"),
            _page("shapes", "Shapes", ":material/schema:"),
            _page("masks", "Masks", ":material/grid_off:"),
            _page("generate", "Generate", ":material/play_circle:"),
        ],
        "Understand": [
            _page("positions", "Positions", ":material/format_list_numbered:"),
            _page("layouts", "Layouts", ":material/view_week:"),
            _page("training", "Training", ":material/fitness_center:"),
            _page("flash_attention", "FlashAttention", ":material/bolt:"),
            _page("quantization", "Quantization", ":material/compress:"),
            _page("misconceptions", "Misconceptions", ":material/help:"),
        ],
        "Look up": [
            models,
            _page("shape_reference", "Shape reference", ":material/table_chart:"),
        ],
    },
    position="top",
)
begin_run(page.title)
view = draw_sidebar()
draw_echo()
begin_page()
is_whole = False
if view is None and page is not models:  # the page Models is where another one can be chosen
    st.title(page.title)
    st.info(st.session_state["problem"], icon=":material/edit:")
else:
    st.session_state["view"] = view
    with suppress(Stopped):  # where the work was shown, it is said
        page.run()
        is_whole = view is not None
end_unwatched()
end_run(is_whole=is_whole)
