"""The frame of every page: its configuration, the navigation, the sidebar."""

from contextlib import suppress
from pathlib import Path

import streamlit as st

from viz_ui.passes import Stopped
from viz_ui.sidebar import draw_sidebar
from viz_ui.state import draw_echo, note_widgets_drawn

HERE = Path(__file__).parent

# A file of our own: Streamlit fetches icons by name and emoji from the network.
st.set_page_config(page_title="Visual attention explorer", page_icon=str(HERE / "icon.png"), layout="wide")

st.html(HERE / "main.css")

models = st.Page("../pages/models.py", title="Models", icon=":material/database:")
page = st.navigation(
    {
        "Explore": [
            st.Page("../pages/heads.py", title="Heads", icon=":material/grid_view:", default=True),
            st.Page("../pages/inside_a_head.py", title="Inside a head", icon=":material/search:"),
            st.Page("../pages/shapes.py", title="Shapes", icon=":material/schema:"),
            st.Page("../pages/masks.py", title="Masks", icon=":material/grid_off:"),
            st.Page("../pages/generate.py", title="Generate", icon=":material/play_circle:"),
        ],
        "Understand": [
            st.Page("../pages/positions.py", title="Positions", icon=":material/format_list_numbered:"),
            st.Page("../pages/layouts.py", title="Layouts", icon=":material/view_week:"),
            st.Page("../pages/training.py", title="Training", icon=":material/fitness_center:"),
            st.Page("../pages/flash_attention.py", title="FlashAttention", icon=":material/bolt:"),
            st.Page("../pages/quantization.py", title="Quantization", icon=":material/compress:"),
            st.Page("../pages/misconceptions.py", title="Misconceptions", icon=":material/help:"),
        ],
        "Look up": [
            models,
            st.Page("../pages/shape_reference.py", title="Shape reference", icon=":material/table_chart:"),
        ],
    },
    position="top",
)
view = draw_sidebar()
draw_echo()
if view is None and page is not models:  # the page Models is where another one can be chosen
    st.title(page.title)
    st.info(st.session_state["problem"], icon=":material/edit:")
else:
    st.session_state["view"] = view
    with suppress(Stopped):  # where the pass was shown, it is said
        page.run()
note_widgets_drawn()
