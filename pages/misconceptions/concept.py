"""Is a head one human concept? The chosen head's patterns on several texts of the reader's."""

import numpy as np
import streamlit as st

import viz_model as vm
from pages.misconceptions.bars import bars_figure
from pages.misconceptions.matrices import draw_matrices
from viz_model.misconceptions.concept import (
    MEASURES,
    NAMED,
    most_changing_head,
    pattern_scores,
    strongest_pattern,
)
from viz_ui.components.panels import Matrix
from viz_ui.frame.address import linked
from viz_ui.frame.examples import EXAMPLES
from viz_ui.frame.passes import is_small
from viz_ui.frame.view import View, begin_with_head, choose_head, traced
from viz_ui.look.text import labels, number
from viz_ui.parts.open_matrix import pass_words

WORDS = {
    "previous": "previous token",
    "first": "first token",
    "itself": "itself",
    "again": "after an earlier copy",
}
NONE = "none of these"
TEXTS = [EXAMPLES[name] for name in ("Words that come again", "Who is she?", "Numbers and names")]
LONGEST = 1000  # characters


def draw(view: View) -> None:
    columns = st.columns(len(TEXTS))
    typed = [
        linked(column.text_input, f"Text {n + 2}", text, key=f"text_{n + 2}", max_chars=LONGEST)
        for n, (column, text) in enumerate(zip(columns, TEXTS, strict=True))
    ]
    texts = {"1 (prompt)": view.prompt}
    for n, text in enumerate(typed):
        if text and text[:LONGEST] not in texts.values():
            texts[str(n + 2)] = text[:LONGEST]
    traces = {name: traced_part(view, text) for name, text in texts.items()}
    if is_small(view.model):
        begin_with_head(lambda: most_changing_head(list(traces.values())))
    scores = {name: pattern_scores(trace, view.layer, view.head) for name, trace in traces.items()}
    patterns = {name: strongest_pattern(each) for name, each in scores.items()}
    st.markdown(answer(view, scores, patterns))
    if len(set(patterns.values())) == 1:
        draw_other_head(view, traces)
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
        "A bar belongs to one text and one pattern. It shows the mean weight of the queries on the token that the "
        "pattern names, such as the previous token. “After an earlier copy” is the token right after an earlier copy "
        "of the query's token. A query counts only if its token has an earlier copy. A text without such a query has "
        f"no bar. The answer names a pattern only if its mean weight on a text is at least {NAMED}. A text that is "
        "typed twice counts once. A pattern on one text does not show what a head is for: Jain & Wallace 2019, "
        "“Attention is not Explanation”. One part of a network can stand for several things at once: Elhage et al. "
        "2022, “Toy Models of Superposition”. Induction: Olsson et al. 2022."
    )


def traced_part(view: View, text: str) -> vm.Trace:
    """The pass of a text in the chosen part, under that part's own mask."""
    return traced(view.name, text, view.own_mask, view.part, kind="concept", most=1 + len(TEXTS))


def draw_other_head(view: View, traces: dict[str, vm.Trace]) -> None:
    """A button that shows a head which does not do the same on all these texts. Looking for it takes a while."""

    def show() -> None:
        found = most_changing_head(list(traces.values()))
        if found is None:
            st.session_state.no_other_head = of
        else:
            choose_head(*found)

    of = (view.name, view.part, *(trace.ids for trace in traces.values()))
    if len(traces) < 2:
        return
    if st.session_state.get("no_other_head") == of:
        st.caption("No head of this model has different patterns on these texts.")
    else:
        st.button("Show a head whose pattern changes", key="other_head", icon=":material/search:", on_click=show)


def answer(view: View, scores: dict[str, dict[str, float]], patterns: dict[str, str | None]) -> str:
    strongest = {name: NONE if pattern is None else WORDS[pattern] for name, pattern in patterns.items()}
    tables = np.array([[values[measure] for measure in MEASURES] for values in scores.values()], dtype=float)
    spread = np.nanmax(tables, axis=0) - np.nanmin(tables, axis=0)
    moving = int(np.nanargmax(spread))
    head = f"layer {view.layer}, head {view.head}"
    kinds = set(strongest.values())
    if kinds == {NONE}:
        verdict = f"**None of these four patterns:** {head} does something else on every text."
    elif len(kinds) == 1:
        moving = MEASURES.index(next(iter(patterns.values())))
        verdict = (
            f"**On these texts the head always does the same:** the strongest pattern of {head} is always "
            f"“{kinds.pop()}”. Try a head whose pattern changes."
        )
    else:
        named = ", ".join(f"“{words}” on text {name}" for name, words in strongest.items())
        verdict = f"**It depends on the text.** The strongest pattern of {head} is {named}."
    return (
        f"{verdict} Over the texts, the mean weight of “{WORDS[MEASURES[moving]]}” ranges from "
        f"**{number(np.nanmin(tables[:, moving]), 2)}** to **{number(np.nanmax(tables[:, moving]), 2)}**."
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
    of = {f"text_{name}": pass_words(trace) for name, trace in traces.items()}
    draw_matrices(view, "texts", items, width=330, of=of)
