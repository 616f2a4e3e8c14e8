"""The texts that the page reads: one that ships, random repeats, the prompt, or one of the reader's own."""

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import streamlit as st

import viz_model as vm
from viz_model.heads.windows import Text
from viz_model.training.held_out import shipped_text, text_of_repeats
from viz_ui.frame.address import choose, held, linked
from viz_ui.frame.forms import Text as TextForm
from viz_ui.frame.text_in_address import LONGEST, LONGEST_CODE, from_address, to_address
from viz_ui.frame.view import View
from viz_ui.look.text import counted

HELD_OUT, REPEATS, PROMPT, OWN = "held-out text", "random repeats", "the prompt", "a text of yours"
LONGEST_TYPED = 200_000  # characters that a box holds without becoming slow


@dataclass(frozen=True)
class ChosenText:
    """key: what tells it from others. words: what it is, in a sentence. read: gives the text, for so many windows.

    is_shipped: whether it is the one by which heads are named everywhere, see `shipped_text`.
    """

    key: Hashable
    words: str
    read: Callable[[int], Text]
    is_shipped: bool = False


def choose_text(view: View) -> ChosenText:
    """Draw the choice. Raises VizError where the text that is chosen is not there yet."""
    sources = (HELD_OUT, REPEATS, PROMPT, OWN) if view.model.tokenizer else (REPEATS, PROMPT, OWN)
    _take_text_of_link()
    source = linked(
        st.segmented_control,
        "Text",
        sources,
        default=sources[0],
        required=True,
        key="read",
        help=f"- **{HELD_OUT}**: text that comes with this app. The bundled models were not trained on it\n"
        f"- **{REPEATS}**: random tokens, and the same tokens again\n- **{PROMPT}**: the prompt in the sidebar\n"
        f"- **{OWN}**: a text that you paste",
    )
    if source == OWN:
        return _own_text(view)
    if source == PROMPT:
        return of_prompt(view)
    is_shipped = source == sources[0]
    if source == REPEATS:
        words = text_of_repeats(view.model, 1)[1]
        return ChosenText(REPEATS, words, lambda rows: text_of_repeats(view.model, rows)[0], is_shipped)
    text, words = shipped_text(view.model, view.name, 1)
    return ChosenText(HELD_OUT, words, lambda _: text, is_shipped)


def of_prompt(view: View) -> ChosenText:
    """What the sidebar holds; of an encoder-decoder, with its target."""
    trace = view.trace
    text = [(trace.source, trace.read)] if trace.source else trace.read
    return ChosenText((trace.source and trace.source.ids, trace.read.ids), "of the prompt", lambda _: text)


def _own_text(view: View) -> ChosenText:
    """A box to paste a text into."""
    text = st.session_state.get("own_text") or ""
    kind = "text" if view.model.tokenizer else "token ids"
    pairs = " Each line is one pair: the source, a tab, and the target." if view.model.has_source else ""
    with st.popover(f"Text ({len(text):,} characters)", icon=":material/edit_note:", width=240):
        st.text_area(
            f"Your {kind}",
            key="own_text_typed",
            persist_state="session",
            height=220,
            width=520,
            max_chars=LONGEST_TYPED,
            placeholder="Paste a page or more, then press Ctrl+Enter.",
            on_change=_take_typed,
            help=f"A link holds texts of up to {LONGEST:,} characters.{pairs}",
        )
    if not text.strip():
        raise vm.VizError(f"There is no {kind} to read yet. Press “Text” and paste a page or more.")
    in_link = "" if to_address(text) else " A link to this page does not hold it."
    words = f"of your text ({counted(len(text), 'character')}).{in_link}"
    return ChosenText(
        hashlib.sha256(text.encode(errors="replace")).hexdigest(), words.removesuffix("."), lambda _: text
    )


def _take_text_of_link() -> None:
    """The text that came with the address, or that the browser's Back brought again."""
    code = held("pasted", TextForm(LONGEST_CODE), "")
    if code and code != st.session_state.get("own_text_taken"):
        st.session_state.own_text = st.session_state.own_text_typed = from_address(code)
    st.session_state.own_text_taken = code


def _take_typed() -> None:
    st.session_state.own_text = st.session_state.own_text_typed or ""
    code = st.session_state.own_text_taken = to_address(st.session_state.own_text)
    choose(pasted=code)
