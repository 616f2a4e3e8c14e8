"""Positions: attention without them, the tables that are added, the rotation, and where each enters the model."""

import streamlit as st

from pages.positions.beyond_trained_length import draw_past_trained_length
from pages.positions.distance_bias import draw_distance_bias, has_distance_bias
from pages.positions.rotation import draw_rotation
from pages.positions.tables import draw_tables
from pages.positions.where_they_enter import draw_sites
from pages.positions.word_order import draw_word_order
from viz_ui.frame.page_sections import choose_section, draw_long_section, draw_section
from viz_ui.frame.view import current_view
from viz_ui.look.formulas import coloured_formulas
from viz_ui.look.glossary import explained

SHUFFLE, TABLES, ROTATION, BIAS, SITES, PAST = (
    "Shuffle the words",
    "Tables",
    "Rotation",
    "Distance bias",
    "Where they enter",
    "Longer texts",
)
SECTIONS = {
    SHUFFLE: draw_word_order,
    TABLES: draw_tables,
    ROTATION: draw_rotation,
    BIAS: draw_distance_bias,
    SITES: draw_sites,
    PAST: draw_past_trained_length,
}

SENTENCES = {
    SHUFFLE: "**Does attention know the order of words?** Not by itself. Without positions it reads a bag of words: "
    "when the tokens are shuffled, each pair of tokens keeps its weight.",
    TABLES: r"**How are positions added to tokens?** To each embedding, the model adds a second vector: the row of a "
    r"table that belongs to the token's position, $x_m = e_{\mathrm{token}} + p_m$.",
    ROTATION: "**How does RoPE put positions into attention?** It rotates queries and keys: "
    r"$(R_i Q) \cdot (R_j K) = Q \cdot R_{j-i} K$. Here i is the position of the query, and j is the position of "
    r"the key. $R_i$ takes the D numbers of a query or key in pairs, and turns pair p by the angle $i\theta_p$ (in "
    r"some models, only some pairs turn). So only the distance i − j counts.",
    BIAS: "**How does a bias put positions into attention?** To each score, the model adds a number that depends on "
    "the distance between query and key.",
    SITES: "**Where do positions enter the model?** They are **added** to the embedding, or they act **inside** "
    "attention.",
    PAST: r"**What happens beyond the trained length?** The angles $m\theta_p$ exist for every position m, but the "
    r"model was trained only on small m. Each angle is a power of a base b: $\theta_p = b^{-2p/D}$. Two remedies "
    r"for a text that is s times as long as in training: divide each position by s, or replace b by the larger base "
    r"$b \cdot s^{D/(D-2)}$.",
}

TERMS = {
    SHUFFLE: ("attention weight", "RoPE"),
    TABLES: ("embedding", "RoPE"),
    ROTATION: ("RoPE", "score"),
    BIAS: ("score", "softmax", "attention weight", "ALiBi", "embedding"),
    SITES: ("embedding", "logit", "RoPE", "parameter"),
    PAST: ("RoPE", "nat", "attention weight", "previous-token head"),
}

SOURCES = {
    SHUFFLE: "Why positions are needed: Vaswani et al. 2017, “Attention Is All You Need”, §3.5. The model was "
    "trained with only one of these schemes.",
    TABLES: "Vaswani et al. 2017, §3.5: sinusoidal rows; learned rows were about as good (table 3, row E).",
    ROTATION: "Su et al. 2021, “RoFormer: Enhanced Transformer with Rotary Position Embedding”, §3.2 and eq. 34.",
    PAST: "Divided positions: Chen et al. 2023, “Extending Context Window of Large Language Models via Positional "
    "Interpolation”, eq. 4; they then trained the model further, which is not done here. Larger base: “NTK-aware” in "
    "Peng et al. 2023, “YaRN”, §3.1.",
}


def draw() -> None:
    here = [name for name in SECTIONS if name != BIAS or has_distance_bias(current_view())]
    section = choose_section("Positions", here, key="positions")
    st.markdown(coloured_formulas(SENTENCES[section]), help=explained(*TERMS[section]))
    draw = draw_long_section if section == PAST else draw_section
    draw(SECTIONS[section])
    if section in SOURCES:
        st.caption(SOURCES[section])


draw()
