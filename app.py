"""What `streamlit run app.py` starts: the visual attention explorer.

The script that draws stands in `viz_ui/frame/main.py`, not here. Streamlit falls back to an old way of finding
pages when a folder `pages/` lies beside the main script, and then a link straight to a page, opened on a
server that nobody has visited yet, shows that page without navigation and sidebar. `viz_ui/frame/`
has no `pages/` beside it.
"""

import sys

import streamlit as st
from starlette.middleware import Middleware
from streamlit import config

from viz_ui.components.shared.serving import components_route
from viz_ui.frame.navigation import first_page_route
from viz_ui.frame.upkeep import upkeep
from viz_ui.sharing.door import Door
from viz_ui.sharing.settings import SettingError, refuse_unnamed, sharing

try:
    refuse_unnamed(config.get_option("server.address"), sharing())
except SettingError as error:
    sys.exit(str(error))
if sharing().is_on:  # else whoever sees a traceback has started the server
    config.set_option("client.showErrorDetails", "none")

app = st.App(
    "viz_ui/frame/main.py",
    lifespan=upkeep,
    routes=[components_route(), first_page_route()],
    middleware=[Middleware(Door, sharing=sharing())],
)
