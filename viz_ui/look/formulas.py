"""Formulas in LaTeX, their symbols in the colours of the roles."""

import re

import streamlit as st

from viz_ui.look.colours import ROLES

_ROLE_OF = {"Q": "query", "K": "key", "V": "value", "A": "weights", "S": "scores"}


def coloured(formula: str) -> str:
    """The formula with the letters Q, K, V, S and A in their hues, for the theme of the page.

    A letter that is an index alone gets the braces that TeX wants around what is coloured.
    """
    dark = st.context.theme.type == "dark"

    def colour(match: re.Match) -> str:
        index, letter = match.groups()
        role = ROLES[_ROLE_OF[letter]]
        hued = rf"\textcolor{{{role.on_dark if dark else role.on_light}}}{{{letter}}}"
        return f"_{{{hued}}}" if index else hued

    return re.sub(r"(?<![A-Za-z\\])(_?)([QKVSA])(?![a-z])", colour, formula)


def coloured_formulas(sentences: str) -> str:
    """Markdown with each $formula$ in it coloured. The words between them stay: “A” may be an article there."""
    return re.sub(r"\$[^$]+\$", lambda match: coloured(match[0]), sentences)
