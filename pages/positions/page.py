"""Positions: what attention is without them, the tables that are added, the rotation, and where each enters."""

import streamlit as st

from pages.positions.beyond_trained_length import draw_past_trained_length
from pages.positions.rotation import draw_rotation
from pages.positions.tables import draw_tables
from pages.positions.where_they_enter import draw_sites
from pages.positions.word_order import draw_word_order
from viz_ui.frame.sections import choose_section, draw_long_section, draw_section
from viz_ui.look.formulas import coloured

SHUFFLE, TABLES, ROTATION, SITES, PAST = (
    "Shuffle the words",
    "Tables",
    "Rotation",
    "Where they enter",
    "Longer texts",
)
SECTIONS = {
    SHUFFLE: draw_word_order,
    TABLES: draw_tables,
    ROTATION: draw_rotation,
    SITES: draw_sites,
    PAST: draw_past_trained_length,
}

SENTENCES = {
    SHUFFLE: "Without positions attention reads a **bag of words**: permute the tokens, and its weights are permuted.",
    TABLES: r"Added to the embedding: $x_m = e_{\mathrm{token}} + p_m$.",
    ROTATION: r"Inside attention: $(R_i Q) \cdot (R_j K) = Q \cdot R_{j-i} K$, so that only the distance i − j counts.",
    SITES: "**Added** to the embedding, or **inside** attention?",
    PAST: r"Angles $m\theta_p$ exist for every position m, but few were trained. Divide positions, $m/s$, or enlarge "
    r"the base, $b \cdot s^{D/(D-2)}$.",
}

SOURCES = {
    SHUFFLE: "Why positions are needed: Vaswani et al. 2017, “Attention Is All You Need”, §3.5. What is left under "
    "none is the rounding of float32. The weights are the model's own; under other positions it was never trained.",
    TABLES: "Vaswani et al. 2017, §3.5 (sinusoidal; learned ones were about as good, table 3, row E).",
    ROTATION: "Su et al. 2021, “RoFormer: Enhanced Transformer with Rotary Position Embedding”, §3.2 and eq. 34.",
    PAST: "Divided positions: Chen et al. 2023, “Extending Context Window of Large Language Models via Positional "
    "Interpolation”, eq. 4 (there followed by some training, here by none). Larger base: “NTK-aware” in Peng et al. "
    "2023, “YaRN”, §3.1.",
}


def draw() -> None:
    section = choose_section("Positions", list(SECTIONS), key="positions")
    st.markdown(coloured(SENTENCES[section]))
    draw = draw_long_section if section == PAST else draw_section
    draw(SECTIONS[section])
    if section in SOURCES:
        st.caption(SOURCES[section])


draw()
