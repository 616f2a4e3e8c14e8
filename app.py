"""What `streamlit run app.py` starts: the visual attention explorer.

The script that draws stands in `viz_ui/frame/main.py`, not here. Streamlit falls back to an old way of finding
pages when a folder `pages/` lies beside the main script, and then a link straight to a page, opened on a
server that nobody has visited yet, shows that page without navigation and sidebar. `viz_ui/frame/`
has no `pages/` beside it.
"""

import streamlit as st

from viz_ui.components.shared.serving import components_route

app = st.App("viz_ui/frame/main.py", routes=[components_route()])
