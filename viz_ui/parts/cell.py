"""What stands below a picture of which a cell was clicked: how the cell came to its weight, or why."""

import streamlit as st

from viz_ui.frame.address import linked
from viz_ui.frame.view import View
from viz_ui.look.glossary import explained
from viz_ui.parts.why_here import draw_why_here
from viz_ui.parts.written_arithmetic import draw_arithmetic

STEPS, WHY = "step by step", "why this score"
HELP = (
    f"- **{STEPS}**: from q and k to the weight, with the numbers of this cell\n"
    f"- **{WHY}**: which parts of the model made this score as large as it is\n\n" + explained("score")
)


def draw_cell(view: View, *, products_open: bool = False) -> None:
    """The chosen query and key. What is not looked at is not worked out."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(f"Query {view.query} and key {view.key}", width="content", help=HELP)
        answer = linked(
            st.segmented_control,
            "What to show of this cell",
            [STEPS, WHY],
            default=STEPS,
            key="cell_shows",
            required=True,
            label_visibility="collapsed",
        )
    if answer == WHY:
        draw_why_here(view)
    else:
        draw_arithmetic(view, products_open=products_open)
