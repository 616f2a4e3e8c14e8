"""Two buttons that save a Plotly chart of the page as a PNG or SVG picture, in the browser alone."""

from __future__ import annotations

from viz_ui.components.shared.serving import component

_HTML = """
<button type="button" value="png">PNG picture</button>
<button type="button" value="svg">SVG picture</button>
<p role="status"></p>
"""

_save_picture = component(
    "viz.save_picture",
    html=_HTML,
    script="save_picture/save_picture.js",
    styles=("save_picture/save_picture.css",),
)


def save_picture(*, chart_key: str, file_name: str, key: str) -> None:
    """Save what `st.plotly_chart(..., key=chart_key)` shows, as PNG at three times its size on screen or SVG.

    The chart must show its mode bar. file_name: without its ending. Runs nothing in Python.
    """
    _save_picture(data={"chart": chart_key, "file": file_name}, key=key)
