"""Three windows in which the chosen head shows the chosen pattern most, and the way from each to the page Heads."""

from collections.abc import Hashable
from urllib.parse import urlencode

import streamlit as st

import viz_model as vm
from viz_model.heads.report import HeadExample, HeadReport
from viz_model.heads.windows import Window
from viz_model.model.prompts import Tokens
from viz_ui.frame.address import linked, written
from viz_ui.frame.jobs import Stopped, kept_result
from viz_ui.frame.passes import is_small
from viz_ui.frame.sidebar import LONGEST_PROMPT
from viz_ui.frame.view import View
from viz_ui.look.text import label, number, plain, sentence

AROUND = 12  # tokens that are shown before and behind the query


def draw_windows(view: View, found: HeadReport, pattern: str, key: Hashable) -> None:
    """key: what the report is of."""
    words = found.words(pattern, view.layer, view.head)
    st.subheader(f"Where {view.where} shows {words} most")
    if not linked(st.toggle, "Show three windows", key="examples", help="The model reads them once more."):
        return
    try:
        examples = kept_result(
            lambda tell: found.examples(view.layer, view.head, pattern),
            words="Reading three windows once more",
            name="examples_of_head",
            of=(key, len(found.windows), view.layer, view.head, pattern),
            at_once=is_small(view.model),
        )
    except Stopped:
        return
    except vm.VizError as error:
        st.caption(plain(sentence(str(error))))
        return
    for place, example in enumerate(examples):
        _draw_window(view, example, words, place)


def _draw_window(view: View, example: HeadExample, words: str, place: int) -> None:
    queries, keys = sides(example.window, view.part)
    names = [plain(label(at, side.pieces[at])) for at, side in ((example.query, queries), (example.key, keys))]
    prompt = prompt_of(view.model, example.window)
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.container():
            st.markdown(
                f"In the window that begins at token {example.window.start:,} of the text, the mean for {words} is "
                f"{number(example.mean, 3)}. The largest weight there is that of the query **{names[0]}** on the key "
                f"**{names[1]}**: **{number(example.weight, 3)}**."
            )
            st.caption(excerpt(queries, example.query))
        if prompt is None:
            st.caption("This window cannot be a prompt, because its text would be cut into other tokens.", width=220)
        else:
            st.link_button("See this cell on Heads", heads_link(view, prompt, example), icon=":material/grid_on:")


def heads_link(view: View, prompt: dict[str, str], example: HeadExample) -> str:
    """The address of the page Heads with this window as its prompt: it opens beside this page, which stays as it is."""
    kept = {name: text for name, text in written().items() if name in ("model", "part", "mask", "edits")}
    place = {"head": f"{view.layer}.{view.head}", "cell": f"{example.query}.{example.key}"}
    return "./?" + urlencode(kept | prompt | place, doseq=True)


def excerpt(tokens: Tokens, place: int) -> str:
    """The text around a token, which stands in bold."""
    pieces = tokens.pieces[max(0, place - AROUND) : place + AROUND + 1]
    at = min(place, AROUND)
    before, own, behind = (
        plain(sentence(b"".join(part).decode(errors="replace")))
        for part in (pieces[:at], pieces[at : at + 1], pieces[at + 1 :])
    )
    return f"… {before} **{own.strip() or '␣'}** {behind} …"


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
