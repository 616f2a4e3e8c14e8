"""Some tokens through the layers at the chosen position: rank, probability and logit as curves."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from pages.prediction.lens import LIKELIEST
from viz_model.attribution.lens import TokenLens
from viz_ui.frame.address import linked
from viz_ui.frame.view import View
from viz_ui.look.colours import ROLES
from viz_ui.look.figures import GRID, TEXT, Theme, curves_layout
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain, plotly_text
from viz_ui.parts.token_choice import choose_tokens, token_words

RANK, PROBABILITY, LOGIT = "rank", "probability", "logit"
MOST_TOKENS = 4
AT_FIRST = 2


def draw_through_layers(view: View) -> None:
    st.subheader(f"Tokens through the layers, {place_words(view)}")
    likely = view.trace.logits_at(view.query).topk(min(LIKELIEST, view.model.config.vocab_size)).indices.tolist()
    left, right = st.columns([3, 2])
    with left:
        tokens = choose_tokens(
            view.model, "Tokens to follow", likely, key="tokens", most=MOST_TOKENS, first=min(AT_FIRST, len(likely))
        )
    with right:
        shown = linked(
            st.segmented_control,
            "What the curves show",
            [RANK, PROBABILITY, LOGIT],
            default=RANK,
            required=True,
            key="curves",
            help="- **rank**: 1 is the likeliest token of the vocabulary\n- **probability**: after the softmax\n"
            "- **logit**: the number before the softmax\n\n" + explained("logit", "softmax"),
        )
    found = view.trace.lens_of(tokens, view.query)
    names = [token_words(view.model, token) for token in tokens]
    figure = curves(found, names, shown, view.layer, st.context.theme.type or "light")
    st.plotly_chart(figure, key="token_curves", theme=None, config={"displayModeBar": False})
    size = f"{view.model.config.vocab_size:,}"
    st.markdown(
        "\n".join(
            f"- “**{plain(name)}**”: rank {int(found.rank[view.layer, n]):,} of {size} after layer {view.layer}, with "
            f"probability {number(float(found.probability[view.layer, n]))} and logit "
            f"{number(float(found.logit[view.layer, n]))}; rank {int(found.rank[-1, n]):,} in the output."
            for n, name in enumerate(names)
        )
    )


def place_words(view: View) -> str:
    """ "after token 5 ·was", or of a model that names tokens in their places "in the place of token 5 ·was"."""
    where = "in the place of" if view.model.config.layout == "encoder-only" else "after"
    return f"{where} token {plain(view.labels[view.query])}"


def curves(found: TokenLens, names: list[str], shown: str, layer: int, theme: Theme) -> go.Figure:
    """A line for each token; the chosen layer is a dotted line across them."""
    numbers = {RANK: found.rank, PROBABILITY: found.probability, LOGIT: found.logit}[shown].numpy()
    layers = np.arange(len(numbers))
    roles = [ROLES[role] for role in ("weights", "stream", "scores", "value")]
    figure = go.Figure()
    for n, (name, role) in enumerate(zip(names, roles, strict=False)):
        figure.add_scatter(
            x=layers,
            y=numbers[:, n],
            name=plotly_text(f"“{name}”"),
            mode="lines+markers",
            line={"color": role.on_dark if theme == "dark" else role.on_light, "width": 2,
                  "dash": ("solid", "dash", "dot", "dashdot")[n]},
            marker={"size": 8, "symbol": ("circle", "square", "diamond", "x")[n]},
            customdata=[f"{value:,}" if shown == RANK else number(value) for value in numbers[:, n]],
            hovertemplate="%{customdata}",
        )  # fmt: skip
    figure.add_vline(x=layer, line={"width": 1.5, "dash": "dot", "color": TEXT[theme]})
    figure.update_layout(
        xaxis={"tickvals": layers, "ticktext": [f"layer {at}" for at in layers], "range": [-0.3, len(layers) - 0.7],
               "gridcolor": GRID, "zeroline": False, "fixedrange": True, "automargin": True},
        yaxis={"title": {"text": shown}, "gridcolor": GRID, "zeroline": False, "fixedrange": True,
               **({"type": "log", "autorange": "reversed", "dtick": 1, "tickformat": ",d"} if shown == RANK else {}),
               **({"rangemode": "tozero"} if shown == PROBABILITY else {})},
        margin={"l": 60, "r": 10, "t": 30, "b": 40},
        **curves_layout(theme, 300),
    )  # fmt: skip
    return figure
