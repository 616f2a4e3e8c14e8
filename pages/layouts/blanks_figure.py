"""Two distributions over the same tokens as bars beside each other."""

import numpy as np
import plotly.graph_objects as go

from viz_ui.look.colours import ROLES
from viz_ui.look.figures import GRID, PAGE, Theme, curves_layout
from viz_ui.look.text import percent, plotly_text


def guess_figure(
    tokens: list[str], shares: dict[str, np.ndarray], *, right: int, theme: Theme, height: int = 330
) -> go.Figure:
    """shares: {name: (n,) probabilities}, of two, the second one hatched. right: which token stood there.

    Both numbers of a token stand behind its longer bar: bars as thin as these have no room for one each.
    """
    figure, places = go.Figure(), np.arange(len(tokens))
    colours = [ROLES[role].on_dark if theme == "dark" else ROLES[role].on_light for role in ("weights", "stream")]
    coloured = [
        [f'<span style="color:{colour}">{percent(value)}</span>' for value in values]
        for values, colour in zip(shares.values(), colours, strict=True)
    ]
    numbers = [" · ".join(pair) for pair in zip(*coloured, strict=True)]
    longer = np.argmax(list(shares.values()), axis=0)
    for n, ((name, values), colour) in enumerate(zip(shares.items(), colours, strict=True)):
        figure.add_bar(
            x=values,
            y=places,
            orientation="h",
            name=plotly_text(name),
            marker={
                "color": colour,
                "pattern": {"shape": "/" if n else "", "fillmode": "overlay", "fgcolor": PAGE[theme], "solidity": 0.3},
            },
            text=[number if longer[place] == n else "" for place, number in enumerate(numbers)],
            textposition="outside",
            textfont_size=12,
            constraintext="none",
            cliponaxis=False,
            customdata=[plotly_text(token) for token in tokens],
            hovertemplate="%{customdata}: %{x:.4~g}",
        )
    names = [f"<b>▸ {plotly_text(token)}</b>" if n == right else plotly_text(token) for n, token in enumerate(tokens)]
    figure.update_yaxes(
        tickvals=places, ticktext=names, autorange="reversed", ticks="", tickfont_size=13, automargin=True
    )
    highest = max(values.max() for values in shares.values())
    figure.update_xaxes(
        range=[0, 1.35 * highest],
        tickformat=".0%",
        title="probability",
        gridcolor=GRID,
        automargin=True,
    )
    figure.update_layout(
        curves_layout(theme, height) | {"hovermode": "closest"},
        barmode="group",
        bargap=0.25,
        margin={"l": 10, "r": 40, "t": 24, "b": 10},
    )
    return figure
