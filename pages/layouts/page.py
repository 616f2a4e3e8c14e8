"""Layouts: three of them side by side, norms through depth, cross-attention, and a word that is left out."""

import streamlit as st

from pages.layouts.blanks import draw_blank
from pages.layouts.cross_attention import draw_cross_attention
from pages.layouts.depth import draw_norms
from pages.layouts.examples import BOTH, DECODER, ENCODER
from pages.layouts.side_by_side import draw_side_by_side
from viz_ui.frame.sections import choose_section, draw_section
from viz_ui.frame.view import current_view
from viz_ui.look.formulas import coloured
from viz_ui.look.text import plain

SIDE_BY_SIDE, NORMS, CROSS, BLANK = "Side by side", "Norms through depth", "Cross-attention", "Fill in the blank"
SECTIONS = {SIDE_BY_SIDE: draw_side_by_side, NORMS: draw_norms, CROSS: draw_cross_attention, BLANK: draw_blank}

SENTENCES = {
    SIDE_BY_SIDE: "One skeleton, three layouts: click a box to open its tensor.",
    NORMS: "The norm before each half, or behind it on the stream.",
    CROSS: r"Target reads source: $A = \mathrm{softmax}(Q_{\mathrm{target}} K_{\mathrm{source}}^{\top}/\sqrt{D})$.",
    BLANK: "Twins but for mask and task: click a word to leave it out.",
}


def draw() -> None:
    section = choose_section("Layouts", list(SECTIONS), key="layouts")
    st.markdown(coloured(SENTENCES[section]))
    if (chosen := current_view().name) not in (ENCODER, DECODER, BOTH):
        st.caption(f"Drawn here, whatever is chosen: {ENCODER}, {DECODER} and {BOTH}; {plain(chosen)} is none of them.")
    draw_section(SECTIONS[section])


draw()
