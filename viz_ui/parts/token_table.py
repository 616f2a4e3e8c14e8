"""A table of tokens with a bar and a number for each of their probabilities."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import streamlit as st

from viz_ui.look.text import number

ROW_PIXELS = 29
BAR_PIXELS = 44


def draw_token_table(
    tokens: Sequence[str],
    shares: Mapping[str, np.ndarray],
    *,
    key: str,
    changes: Mapping[str, np.ndarray] | None = None,
) -> None:
    """tokens: as they are drawn; shares: probabilities by what they are; changes: differences, with their signs.

    Numbers are written by the rule of all pages, which no format of a table's own knows; so each has a column beside
    its bar.
    """
    columns: dict[str, Sequence] = {"token": tokens}
    look: dict[str, st.column_config.Column] = {}
    formats = {}
    for name, values in shares.items():
        bar = f"{name}, as a bar"
        columns |= {bar: values, name: values}
        look[bar] = st.column_config.ProgressColumn(
            " ", help=f"Probability: {name}", width=BAR_PIXELS, min_value=0.0, max_value=1.0, format=" "
        )
        look[name] = st.column_config.NumberColumn(name, help=f"Probability: {name}")
        formats[name] = number
    for name, values in (changes or {}).items():
        columns[name] = values
        formats[name] = lambda value: ("+" if value > 0 else "") + number(value)
    table = pd.DataFrame(columns)
    st.dataframe(
        table.style.format(formats),
        hide_index=True,
        key=key,
        row_height=ROW_PIXELS,
        height=ROW_PIXELS * len(table) + 38,
        column_config=look,
    )
