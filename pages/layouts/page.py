"""Layouts: three of them side by side, norms through depth, cross-attention, and a word that is left out."""

import streamlit as st

from pages.layouts.blanks import draw_blank
from pages.layouts.cross_attention import draw_cross_attention
from pages.layouts.depth import draw_norms
from pages.layouts.examples import BOTH, DECODER, ENCODER
from pages.layouts.side_by_side import draw_side_by_side
from viz_ui.frame.page_sections import choose_section, draw_section
from viz_ui.frame.view import current_view
from viz_ui.look.formulas import coloured_formulas
from viz_ui.look.glossary import explained
from viz_ui.look.text import plain

SIDE_BY_SIDE, NORMS, CROSS, BLANK = "Side by side", "Norms through depth", "Cross-attention", "Fill in the blank"
SECTIONS = {SIDE_BY_SIDE: draw_side_by_side, NORMS: draw_norms, CROSS: draw_cross_attention, BLANK: draw_blank}

SENTENCES = {
    SIDE_BY_SIDE: "**How do the three kinds of Transformer differ?** Click a box to see its tensor below.",
    NORMS: "**What changes when the norms are moved?** A norm before attention or feed-forward (pre-norm) does not "
    "scale the residual stream itself; a norm after them (post-norm) does.",
    CROSS: "**Which letters does the decoder read when it writes a digit?** "
    r"$A = \mathrm{softmax}(Q_{\mathrm{target}} K_{\mathrm{source}}^{\top}/\sqrt{D})$.",
    BLANK: "**Which model guesses a hidden token better, and which tokens can each model see?** "
    "Click a token to hide it.",
}

TERMS = {
    SIDE_BY_SIDE: ("attention weight", "cross-attention", "encoder output", "logit"),
    NORMS: ("norm", "pre-norm", "post-norm", "residual stream", "feed-forward"),
    CROSS: ("cross-attention", "encoder output", "attention weight", "softmax"),
    BLANK: ("surprise", "bit"),
}


def draw() -> None:
    section = choose_section("Layouts", list(SECTIONS), key="layouts")
    st.markdown(coloured_formulas(SENTENCES[section]), help=explained(*TERMS[section]))
    if (chosen := current_view().name) not in (ENCODER, DECODER, BOTH):
        st.caption(
            f"This page always shows {ENCODER}, {DECODER} and {BOTH}. The model in the sidebar, {plain(chosen)}, is "
            "not used here."
        )
    draw_section(SECTIONS[section])


draw()
