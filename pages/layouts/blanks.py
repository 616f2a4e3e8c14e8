"""One hidden token: tiny-bert guesses it from both sides, tiny-gpt from the tokens before it."""

import numpy as np
import streamlit as st

from pages.layouts.blanks_figure import guess_figure
from pages.layouts.examples import DECODER, ENCODER, Example, example, say_edits
from viz_model.layouts.blanks import Guesses, blank_bits, compare_guesses, with_blank
from viz_model.layouts.depth import next_token_bits
from viz_ui.components.tokens.seen_tokens import TokenReader, seen_tokens
from viz_ui.frame.address import choose, held
from viz_ui.frame.forms import Whole
from viz_ui.look.colours import ROLES
from viz_ui.look.figures import query_lines_figure
from viz_ui.look.text import labels, number, plain, shown

MOST_BLANKS = 40  # tokens that are hidden in turn


def draw_blank() -> None:
    bert, gpt = example(ENCODER), example(DECODER)
    say_edits([bert, gpt])
    position = _choose_position(gpt)
    names = [shown(piece) for piece in gpt.trace.token_bytes]
    rows = [
        TokenReader(bert.model.name, "sees both sides of the hidden token", position, gpt.trace.length),
        TokenReader(gpt.model.name, "sees only the tokens before it", position, position),
    ]
    seen_tokens(names, rows, key="seen_tokens", on_pick=lambda token: choose(blank=token))
    left, right = st.columns(2, gap="medium")
    with left:
        _draw_guesses(bert, gpt, position)
    with right:
        _draw_every_blank(bert, gpt, position)
    st.caption(
        "Both models split text into the same tokens and were trained on the same text, so their guesses can be "
        "compared. "
        f"In training, {gpt.model.name} guessed every token, and {bert.model.name} guessed 15 % of the tokens. "
        f"{bert.model.name} reads a mask token in place of the hidden token (Devlin et al. 2019, “BERT”, §3.1)."
    )


def _choose_position(gpt: Example) -> int:
    last = gpt.trace.length - 1
    return held("blank", Whole(0, last), last // 2)


def _draw_guesses(bert: Example, gpt: Example, position: int) -> None:
    """Both distributions over the likeliest tokens of either."""
    right = gpt.trace.ids[position]
    filled = bert.model.trace(with_blank(bert.model, gpt.trace.ids, position)).logits_at(position)
    if position == 0:
        st.info(f"Nothing comes before the first token, so {gpt.model.name} cannot guess it. Click a later token.")
        return
    found = compare_guesses(filled, gpt.trace.logits_at(position - 1), right)
    st.markdown(
        f"The hidden token is **{plain(shown(gpt.trace.token_bytes[position]))}**. "
        + " and ".join(_words(bert, gpt, found))
        + "."
    )
    if found.probability[0] < found.probability[1]:
        st.markdown(
            f"Here {gpt.model.name} gives the hidden token more probability, although {gpt.model.name} sees fewer "
            f"tokens. Such small models are often wrong about a single word. On text not used in training, "
            f"{bert.model.name} gives most hidden words more probability than {gpt.model.name} does."
        )
    pieces = bert.model.token_bytes(found.ids)
    figure = guess_figure(
        [shown(piece) for piece in pieces],
        {bert.model.name: found.first.numpy(), gpt.model.name: found.second.numpy()},
        right=found.ids.index(right),
        theme=st.context.theme.type or "light",
    )
    st.plotly_chart(figure, key="guesses", theme=None, config={"displayModeBar": False})


def _words(bert: Example, gpt: Example, found: Guesses) -> list[str]:
    pairs = zip((bert, gpt), found.probability, found.place, strict=True)
    return [
        f"{one.model.name} gives it a probability of **{number(100 * share, 3)} %** (rank {place:,})"
        for one, share, place in pairs
    ]


def _draw_every_blank(bert: Example, gpt: Example, position: int) -> None:
    """The surprise of every token when it is hidden."""
    ids, length = gpt.trace.ids, gpt.trace.length
    first = max(0, min(position - MOST_BLANKS // 2, length - MOST_BLANKS))
    places = range(first, min(length, first + MOST_BLANKS))
    bits = _every_bits(bert, ids, places)
    before = np.append(np.nan, next_token_bits(gpt.trace).numpy())[places.start : places.stop]
    theme = st.context.theme.type or "light"
    colours = [ROLES[role].on_dark if theme == "dark" else ROLES[role].on_light for role in ("weights", "stream")]
    both = ~np.isnan(before)
    sentence = "Each token except the first is hidden in turn."
    if both.any():
        means = {one.model.name: each[both].mean() for one, each in ((bert, bits), (gpt, before))}
        words = " and ".join(f"**{number(mean, 3)} bits** for {name}" for name, mean in means.items())
        sentence += f" The mean surprise is {words}."
    st.markdown(sentence)
    figure = query_lines_figure(
        labels(gpt.trace.token_bytes)[places.start : places.stop],
        {bert.model.name: (bits, colours[0]), gpt.model.name: (before, colours[1])},
        axis="surprise, bits",
        theme=theme,
        height=330,
    )
    figure.update_xaxes(title={"text": "hidden token", "standoff": 10}, automargin=True)
    figure.add_vline(x=position - first, line={"width": 1.5, "dash": "dot", "color": colours[0]})
    st.plotly_chart(figure, key="every_blank", theme=None, config={"displayModeBar": False})
    if len(places) < length:
        st.caption(f"The chart shows {len(places)} of the {length:,} tokens: those around the hidden token.")


def _every_bits(bert: Example, ids: tuple[int, ...], places: range) -> np.ndarray:
    """Worked out once for a prompt and its stretch of tokens, with its progress."""
    wanted, kept = (ids, places, bert.edits), st.session_state.get("blank_bits", (None, None))
    if kept[0] != wanted:
        found: list[float] = []
        progress = st.progress(0.0, "Hiding every token in turn …") if len(ids) > MOST_BLANKS // 2 else None
        for some in blank_bits(bert.model, ids, places):
            found += some
            if progress:
                progress.progress(len(found) / len(places), "Hiding every token in turn …")
        if progress:
            progress.empty()
        kept = st.session_state["blank_bits"] = (wanted, np.array(found))
    return kept[1]
