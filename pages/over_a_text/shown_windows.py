"""Examples: windows in which the chosen head shows the chosen pattern, from those that show most to those that show
least, and the way from each to its cell on the page Heads."""

from collections.abc import Hashable
from urllib.parse import urlencode

import numpy as np
import streamlit as st

import viz_model as vm
from viz_model.heads.examples import KEYS, ExampleGroup, HeadExample
from viz_model.heads.patterns import UNITS
from viz_model.heads.report import HeadReport
from viz_model.heads.windows import Window
from viz_model.model.prompts import Tokens
from viz_ui.components.tokens.shaded_texts import ShadedText, ShadedToken, shaded_texts
from viz_ui.frame.address import linked, written
from viz_ui.frame.jobs import Stopped, kept_result
from viz_ui.frame.passes import is_small
from viz_ui.frame.sidebar import LONGEST_PROMPT
from viz_ui.frame.view import View
from viz_ui.look.text import label, number, plain, sentence, shown

EACH = 3
BEFORE_QUERY, BEHIND_QUERY, AROUND_KEY = 24, 4, 6  # tokens that are shown; the others are left out
PARTS = {5: "fifth", 10: "tenth"}


def draw_windows(view: View, found: HeadReport, pattern: str, key: Hashable) -> None:
    """key: what the report is of."""
    words = found.words(pattern, view.layer, view.head)
    st.subheader(f"Examples: {words}, {view.where}")
    if not linked(st.toggle, "Show examples", key="examples", help="The model reads some windows once more."):
        return
    try:
        groups = kept_result(
            lambda tell: found.example_groups(view.layer, view.head, pattern, EACH, tell),
            words="Reading some windows once more",
            name="examples_of_head",
            of=(key, len(found.windows), view.layer, view.head, pattern),
            at_once=is_small(view.model),
        )
    except Stopped:
        return
    except vm.VizError as error:
        st.caption(plain(sentence(str(error))))
        return
    shaded_texts(
        [(title(group, words), [shaded(view, example) for example in group.examples]) for group in groups],
        key="shaded_examples",
    )
    unit = f" in {UNITS[pattern]}" if pattern in UNITS else ""
    st.caption(
        f"The windows are sorted by the mean of {plain(words)}{unit}, and cut into fifths or tenths. Each title names "
        f"one of these parts. At most {EACH} of its windows are shown: the first, the last and one between them. The "
        f"blue frame marks the query that shows the pattern most. Queries that may read fewer than {KEYS} tokens are "
        "left out, unless no query may read so many. The shading shows the weights of the framed query: the darkest "
        "token has the largest weight. Of the tokens that belong to the pattern, the one with the largest weight has "
        "an orange frame. Click a text to open Heads at this cell, in a new tab."
    )


def title(group: ExampleGroup, words: str) -> str:
    """Which group of windows that is, and between which means."""
    part = PARTS[group.of]
    which = f"The {part} of the windows with the most" if group.place == 1 else f"{ordinal(group.place)} {part}"
    which = f"The {part} with the least" if group.place == group.of else which
    means = number(group.high, 3) if group.low == group.high else f"{number(group.high, 3)} to {number(group.low, 3)}"
    return f"{which}: mean of {words} {means}"


def ordinal(place: int) -> str:
    return {2: "Second", 3: "Third", 4: "Fourth", 5: "Fifth", 8: "Eighth"}[place]


def shaded(view: View, example: HeadExample) -> ShadedText:
    """The text of an example, cut to what lies around the query, its key, and what else it reads most."""
    queries, keys = sides(example.window, view.part)
    is_one_text = queries is keys
    names = [label(at, side.pieces[at]) for at, side in ((example.query, queries), (example.key, keys))]
    prompt = prompt_of(view.model, example.window)
    places = shown_places(example, is_one_text)
    tokens = [
        ShadedToken(
            shown(keys.pieces[place]) or "∅",
            float(example.weights[place]),
            is_query=is_one_text and place == example.query,
            is_key=place == example.key,
            skipped=place - before - 1,
        )
        for before, place in zip([-1, *places], places, strict=False)
    ]
    return ShadedText(
        f"window that begins at token {example.window.start:,}, mean {number(example.mean, 3)}: query {names[0]} "
        f"reads key {names[1]} with the weight {number(example.weight, 3)}",
        "See this cell on Heads"
        if prompt
        else "This window cannot be a prompt: its text would be cut into other tokens.",
        heads_link(view, prompt, example) if prompt else "",
        tokens,
        left=len(keys) - 1 - places[-1],
    )


def shown_places(example: HeadExample, is_one_text: bool) -> list[int]:
    """The keys that are shown, in their order."""
    near = [(example.key, AROUND_KEY, AROUND_KEY)]
    near += [(example.query, BEFORE_QUERY, BEHIND_QUERY)] if is_one_text else []
    near += [(int(place), 1, 1) for place in np.argsort(-example.weights)[:3]]
    last = len(example.weights) - 1
    spans = [range(max(0, place - before), min(last, place + behind) + 1) for place, before, behind in near]
    return sorted({at for span in spans for at in span})


def heads_link(view: View, prompt: dict[str, str], example: HeadExample) -> str:
    """The address of the page Heads with this window as its prompt: it opens beside this page, which stays as it is."""
    kept = {name: text for name, text in written().items() if name in ("model", "part", "mask", "edits")}
    place = {"head": f"{view.layer}.{view.head}", "cell": f"{example.query}.{example.key}"}
    return "./?" + urlencode(kept | prompt | place, doseq=True)


def sides(window: Window, part: str) -> tuple[Tokens, Tokens]:
    """The tokens that ask, and those that are read."""
    asks = window.source if part == "encoder" else window.read
    return asks, window.source if part in ("encoder", "cross") else window.read


def prompt_of(model: vm.Model, window: Window) -> dict[str, str] | None:
    """What the sidebar is to hold so that the model reads this very window; None where nothing does."""
    source = window.source or window.read
    choices = {"prompt": _text(model, source)}
    try:
        fits = model.encode(choices["prompt"]) == [*source.ids]
        if window.source:
            choices["target"] = _text(model, Tokens(window.read.ids[1:], window.read.pieces[1:]))
            fits &= model.encode_target(choices["target"]) == [*window.read.ids]
    except vm.VizError:
        return None
    return choices if fits and len(choices["prompt"]) <= LONGEST_PROMPT else None


def _text(model: vm.Model, tokens: Tokens) -> str:
    if model.tokenizer is None:
        return " ".join(map(str, tokens.ids))
    pairs = zip(tokens.ids, tokens.pieces, strict=True)
    return b"".join(piece for token, piece in pairs if token not in model.signs).decode(errors="replace")
