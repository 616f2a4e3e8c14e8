"""Over a text: what every head does, on average, over a whole text."""

from collections.abc import Hashable

import numpy as np
import streamlit as st

import viz_model as vm
from pages.over_a_text.figures import curve_figure, scatter_figure
from pages.over_a_text.finder import draw_finder
from pages.over_a_text.measured import reading_key, report
from pages.over_a_text.shown_windows import draw_windows
from pages.over_a_text.texts import ChosenText, choose_text
from viz_model.heads.patterns import ENTROPY, FIRST, INDUCTION, MEAN_DISTANCE, PATTERNS, PREVIOUS, UNITS
from viz_model.heads.report import HeadReport
from viz_model.heads.resampling import FEWEST
from viz_ui.frame.address import arriving, bring_sidebar_along, linked
from viz_ui.frame.embedding import main_picture
from viz_ui.frame.view import View, choose_head, current_view
from viz_ui.look.glossary import explained
from viz_ui.look.text import counted, number, plain, sentence
from viz_ui.parts.head_matrix import draw_head_matrix
from viz_ui.parts.head_names import RULE, keep_names, name_words
from viz_ui.parts.open_matrix import named

WINDOWS = (16, 64, 256)
STRONGEST = 4  # heads that are told while the text is read
NUMBERS = {
    "mean": "The mean of the head: the share of its attention that goes to the pattern. The entropy is in bits, and "
    "the mean distance is in tokens",
    "low": "The lower end of the 95 % interval",
    "high": "The upper end of the 95 % interval",
    "uniform": "The mean that uniform attention would have: the same weight on every key that may be read",
    "k": "For the pattern “k before”, the k that fits this head best. It is below 0 if the token comes after the "
    "query.",
}
PLOTS = {"theme": None, "config": {"displayModeBar": False}}


def draw() -> None:
    view = current_view()
    st.title("Over a text")
    st.markdown(
        "**What does each head do on a whole text?** The model reads the text in windows, one after another. A cell is "
        "one head: the brighter it is, the more of its attention goes to the pattern that you choose. Click a head to "
        "see its name.",
        help=explained("head", "layer", "token", "attention weight", "induction", "previous-token head"),
    )
    try:
        found, text, pattern, key = draw_choices(view)
        if found is None:
            return
        with main_picture():
            draw_heads(found, pattern, text)
        draw_windows(view, found, pattern, key)
        draw_finder(view, found, pattern, key)
        draw_table(found)
        draw_scatter(found)
    except vm.VizError as error:
        main_picture("refused").info(plain(sentence(str(error))), icon=":material/edit:")
        return
    draw_sources()


def draw_choices(view: View) -> tuple[HeadReport | None, ChosenText, str, Hashable]:
    """What is read and which pattern is drawn; the report, as far as it is there."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = choose_text(view)
        windows = linked(
            st.segmented_control,
            "Windows",
            WINDOWS,
            default=WINDOWS[0],
            required=True,
            key="windows",
            help="No more windows than this are read. They are spread evenly over the text.\n\n"
            + explained("text window"),
        )
        choice = st.empty()
    growing = st.empty()
    pattern = arriving("pattern") or st.session_state.get("pattern") or PREVIOUS

    def watch(so_far: HeadReport) -> None:
        growing.markdown(strongest_words(so_far, pattern))

    key, found = reading_key(view, text, windows), report(view, text, windows, watch)
    growing.empty()
    if found is None:
        return None, text, pattern, key
    if text.is_shipped:
        keep_names(view, found, text.words)
    with choice.container():
        first = index_of(found, PREVIOUS if has_both(view) else FIRST)
        pattern = linked(
            st.selectbox,
            "Pattern",
            found.patterns,
            first,
            key="pattern",
            width=220,
            help="\n".join(f"- **{name}**: {PATTERNS[name]}" for name in found.patterns),
        )
    return found, text, pattern, key


def strongest_words(so_far: HeadReport, pattern: str) -> str:
    """Which heads show a pattern most, as far as the text is read. In words: a browser paints them between messages."""
    pattern = pattern if pattern in so_far.patterns else so_far.patterns[0]
    means = np.nan_to_num(so_far.mean(pattern), nan=-1.0)
    best = [divmod(int(place), means.shape[1]) for place in np.argsort(-means, axis=None)[:STRONGEST]]
    heads = ", ".join(f"layer {layer}, head {head} ({number(means[layer, head], 3)})" for layer, head in best)
    done = f"{len(so_far.windows)} of {so_far.planned} windows"
    return f"After {done}, the largest means of **{pattern}** are those of {heads}."


@st.fragment
def draw_heads(found: HeadReport, pattern: str, text: ChosenText) -> None:
    """All heads in one picture, coloured by one pattern; a click chooses a head."""
    view = current_view()
    values, (low, high) = found.mean(pattern), ends(found, pattern)
    unit = f", {UNITS[pattern]}" if pattern in UNITS else ""
    with st.container(horizontal=True, gap="medium"):
        with st.container(key="effect_side"):
            draw_head_matrix(
                view,
                "pattern_means",
                f"{pattern.capitalize()}: the mean of each head{unit}",
                np.nan_to_num(values),
                named(view, f"{pattern}, mean of each head{unit}", pattern, of=what_was_read(found, text)),
                caption=PATTERNS[pattern],
                role="weights",
                low=low,
                high=high,
                allowed=np.isfinite(values),
            )
        with st.container(width=440):
            draw_answer(view, found, pattern)
    st.caption(
        f"These are means over {what_was_read(found, text)} {interval_note(found)}",
        help=explained("95 % interval"),
    )
    bring_sidebar_along()


def ends(found: HeadReport, pattern: str) -> tuple[float, float]:
    """Of the colours: shares have one scale, so that patterns can be compared."""
    if pattern not in UNITS:
        return 0.0, 1.0
    return 0.0, float(np.nanmax([found.mean(pattern).max(), found.uniform(pattern).max(), 1e-6]))


def draw_answer(view: View, found: HeadReport, pattern: str) -> None:
    """The chosen head: its name with the share that it explains, and its number of the pattern."""
    st.markdown(name_words(view.where, found.name(view.layer, view.head)), help=RULE)
    place = view.layer, view.head
    mean, uniform = found.mean(pattern)[place], found.uniform(pattern)[place]
    low, high = (ends[place] for ends in found.interval(pattern))
    unit = f" {UNITS[pattern]}" if pattern in UNITS else ""
    if np.isnan(mean):
        st.markdown(f"In this layer, no query of this text can read a token of the pattern **{pattern}**.")
    else:
        st.markdown(
            f"The mean of this head for **{found.words(pattern, *place)}** is **{number(mean, 3)}{unit}**"
            f"{interval_words(low, high)}. With uniform attention it would be {number(uniform, 3)}{unit}."
        )
    if found.has_distances:
        curve = found.curve(*place)
        figure = curve_figure(*(curve[column].to_numpy() for column in curve), theme=st.context.theme.type or "light")
        st.plotly_chart(figure, key="distances", **PLOTS)


def interval_words(low: float, high: float) -> str:
    return "" if np.isnan(low) else f" ({number(low, 3)} to {number(high, 3)})"


def interval_note(found: HeadReport) -> str:
    if len(found.windows) < FEWEST:
        return f"A 95 % interval needs at least {FEWEST} windows."
    return "The numbers in parentheses are the 95 % interval."


def what_was_read(found: HeadReport, text: ChosenText) -> str:
    """The windows that the numbers are of, as the end of a sentence."""
    windows = f"{counted(len(found.windows), 'window')} ({found.n_tokens:,} tokens)"
    if found.is_partial:
        windows = f"only {windows}, taken at random from {counted(found.planned, 'window')}"
    return f"{windows} {text.words}."


def draw_table(found: HeadReport) -> None:
    st.subheader("All heads and patterns")
    layers = range(int(found.scores.layer.max()) + 1)
    several = {"selection_mode": "multi", "help": "None chosen: all."}
    patterns = linked(st.pills, "Patterns", found.patterns, key="table_patterns", **several)
    some = linked(st.pills, "Layers", layers, key="table_layers", **several)
    scores = found.scores
    chosen = scores[scores.pattern.isin(patterns or found.patterns) & scores.layer.isin(some or layers)]
    names = {place: str(name) for place, name in found.names.items()}
    table = chosen.assign(name=[names[place] for place in zip(chosen.layer, chosen["head"], strict=True)])
    st.dataframe(
        table,
        hide_index=True,
        key="pattern_table",
        height=320,
        column_config={
            name: st.column_config.NumberColumn(help=says, format=None if name == "k" else "%.4g")
            for name, says in NUMBERS.items()
        },
    )
    st.download_button(
        "CSV",
        table.to_csv(index=False).encode(),
        f"{found.model.name}_{found.part}_patterns.csv",
        "text/csv",
        icon=":material/download:",
        on_click="ignore",
        key="pattern_csv",
    )


def draw_scatter(found: HeadReport) -> None:
    st.subheader("Two patterns against each other")
    first = (PREVIOUS, INDUCTION) if has_both(current_view()) else (FIRST, ENTROPY)
    with st.container(horizontal=True):
        across, up = (
            linked(st.selectbox, label, found.patterns, index_of(found, pattern), key=label.lower(), width=220)
            for label, pattern in zip(("Across", "Up"), first, strict=True)
        )
    draw_points(found, across, up)


@st.fragment
def draw_points(found: HeadReport, across: str, up: str) -> None:
    view = current_view()
    x, y = found.mean(across), found.mean(up)
    places = [place for place in np.ndindex(x.shape) if np.isfinite([x[place], y[place]]).all()]

    def picked() -> None:
        if points := st.session_state.two_patterns.selection.points:
            choose_head(*places[points[0]["point_index"]])

    chosen = (view.layer, view.head)
    figure = scatter_figure(
        np.array([x[place] for place in places]),
        np.array([y[place] for place in places]),
        [f"layer {layer}, head {head}: {found.name(layer, head)}" for layer, head in places],
        places.index(chosen) if chosen in places else -1,
        x_title=with_unit(across),
        y_title=with_unit(up),
        theme=st.context.theme.type or "light",
    )
    st.plotly_chart(figure, key="two_patterns", on_select=picked, selection_mode="points", **PLOTS)
    st.caption("A point is a head. Click it to choose it: the diamond is the chosen one.")
    bring_sidebar_along()


def index_of(found: HeadReport, pattern: str) -> int:
    """Its place among those that the text can show; of another one, that of the first token."""
    return found.patterns.index(pattern if pattern in found.patterns else FIRST)


def has_both(view: View) -> bool:
    """Whether every attention of the model has a token before its query, and earlier copies: cross-attention has
    neither, and what a page opens with is the same for all of them."""
    return not view.model.has_source


def with_unit(pattern: str) -> str:
    return f"{pattern}, {UNITS.get(pattern, 'mean weight')}"


def draw_sources() -> None:
    st.caption(
        "The mean of a pattern counts only the queries that may read a token of the pattern. The share that is given "
        f"with the name of the chosen head counts all queries. “{ENTROPY}” and “{MEAN_DISTANCE}” are not shares of "
        "the attention. Clark et al. 2019, “What Does BERT Look At?”, §3; Olsson et al. 2022, “In-context "
        "Learning and Induction Heads”.",
        help=explained("entropy", "attention sink", "query", "key"),
    )


draw()
