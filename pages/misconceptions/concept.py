"""Is a head one human concept? The chosen head's patterns on several texts of the reader's."""

import numpy as np
import streamlit as st

import viz_model as vm
from pages.misconceptions.bars import bars_figure
from pages.misconceptions.matrices import draw_matrices
from viz_model.misconceptions.concept import MEASURES, pattern_scores
from viz_ui.components.panels import Matrix
from viz_ui.frame.address import EXAMPLES
from viz_ui.frame.view import View, traced
from viz_ui.look.text import labels, number

WORDS = {
    "previous": "previous token",
    "first": "first token",
    "itself": "itself",
    "again": "after an earlier copy",
}
NONE = "none of these"
TEXTS = [EXAMPLES[name] for name in ("Words that come again", "Who is she?", "Numbers and names")]
LONGEST = 1000  # characters
NAMED = 0.3  # mean weight from which a pattern is called what the head does


def draw(view: View) -> None:
    columns = st.columns(len(TEXTS))
    typed = [
        column.text_input(f"Text {n + 2}", text, key=f"text_{n + 2}", bind="query-params", max_chars=LONGEST)
        for n, (column, text) in enumerate(zip(columns, TEXTS, strict=True))
    ]
    texts = {"1, the prompt": view.prompt}
    for n, text in enumerate(typed):
        if text and text[:LONGEST] not in texts.values():
            texts[str(n + 2)] = text[:LONGEST]
    traces = {name: traced_part(view, text) for name, text in texts.items()}
    scores = {name: pattern_scores(trace, view.layer, view.head) for name, trace in traces.items()}
    st.markdown(answer(view, scores))
    groups = {
        f"text {name}": {WORDS[measure]: values[measure] for measure in MEASURES} for name, values in scores.items()
    }
    st.plotly_chart(
        bars_figure(groups, "mean weight", theme=st.context.theme.type or "light"),
        config={"displayModeBar": False},
        key="pattern_scores",
    )
    draw_texts(view, traces)
    st.caption(
        f"A text that stands here twice counts once. A pattern is named from a mean weight of {NAMED} on. Mean weight "
        "over the queries of a text; “after an "
        "earlier copy” over those queries whose token came before (none: no bar). One pattern found on one text is not "
        "what a head is for: Jain & Wallace 2019, “Attention is not Explanation”; several features in one place "
        "of a network: Elhage et al. 2022, “Toy Models of Superposition”; induction: Olsson et al. 2022."
    )


def traced_part(view: View, text: str) -> vm.Trace:
    """The pass of a text in the part that is looked at, under its own mask."""
    return traced(view.name, text, view.own_mask, view.part, kind="concept", most=1 + len(TEXTS))


def answer(view: View, scores: dict[str, dict[str, float]]) -> str:
    strongest = {}
    for name, values in scores.items():
        known = {measure: value for measure, value in values.items() if not np.isnan(value)}
        most = max(known, key=known.get)
        strongest[name] = WORDS[most] if known[most] >= NAMED else NONE
    tables = np.array([[values[measure] for measure in MEASURES] for values in scores.values()], dtype=float)
    spread = np.nanmax(tables, axis=0) - np.nanmin(tables, axis=0)
    moving = int(np.nanargmax(spread))
    head = f"layer {view.layer}, head {view.head}"
    kinds = set(strongest.values())
    if kinds == {NONE}:
        verdict = f"**None of these four:** {head} does something else on every text."
    elif len(kinds) == 1:
        verdict = f"**On these texts it looks like one:** {head} does “{kinds.pop()}” most on each."
    else:
        named = ", ".join(f"text {name}: {words}" for name, words in strongest.items())
        verdict = f"**It depends on the text.** What {head} does most: {named}."
    return (
        f"{verdict} “{WORDS[MEASURES[moving]]}” goes from **{number(np.nanmin(tables[:, moving]), 2)}** to "
        f"**{number(np.nanmax(tables[:, moving]), 2)}**."
    )


def draw_texts(view: View, traces: dict[str, vm.Trace]) -> None:
    """The head on each text, side by side."""
    items = []
    for name, trace in traces.items():
        queries, keys = labels(trace.token_bytes), labels(trace.key_token_bytes)
        items.append(
            Matrix(
                f"text_{name}",
                f"text {name}",
                trace.weights(view.layer, view.head).numpy(),
                queries,
                keys,
                role="weights",
                low=0,
                high=1,
                allowed=trace.mask(view.layer).numpy(),
            )
        )
    draw_matrices(view, "texts", items, width=330)
