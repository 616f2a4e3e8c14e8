"""Formulas in LaTeX, their symbols in the colours of the roles."""

import re

import streamlit as st

from viz_ui.look.colours import ROLES

_ROLE_OF = {"Q": "query", "K": "key", "V": "value", "A": "weights", "S": "scores"}


def coloured(formula: str) -> str:
    """The formula with the letters Q, K, V, S and A in their hues, for the theme of the page."""
    dark = st.context.theme.type == "dark"

    def colour(match: re.Match) -> str:
        role = ROLES[_ROLE_OF[match[0]]]
        return rf"\textcolor{{{role.on_dark if dark else role.on_light}}}{{{match[0]}}}"

    return re.sub(r"(?<![A-Za-z\\])[QKVSA](?![a-z])", colour, formula)


def coloured_formulas(sentences: str) -> str:
    """Markdown with each $formula$ in it coloured. The words between them stay: “A” may be an article there."""
    return re.sub(r"\$[^$]+\$", lambda match: coloured(match[0]), sentences)
