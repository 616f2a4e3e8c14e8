"""The texts that the page reads: one that ships, random repeats, the prompt, or one of the reader's own."""

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import streamlit as st

import viz_model as vm
from viz_model.heads.windows import Text
from viz_model.training.held_out import shipped_text, text_of_repeats
from viz_ui.components.text_file import FileText, text_file
from viz_ui.frame.address import choose, held, linked
from viz_ui.frame.forms import Text as TextForm
from viz_ui.frame.text_in_address import LONGEST, LONGEST_CODE, from_address, to_address
from viz_ui.frame.view import View
from viz_ui.look.text import counted, plain, sentence

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
        f"- **{OWN}**: a text that you paste, or a text file",
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
    """A box to paste a text into, and a button that opens a file."""
    text, file = st.session_state.get("own_text") or "", st.session_state.get("own_file", FileText(""))
    kind = "text" if view.model.tokenizer else "token ids"
    pairs = " One pair a line: the source, a tab, the target." if view.model.has_source else ""
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
        text_file("Open a text file", key="own_text_file", on_file=_take_file)
        if file.name and len(file.text) > LONGEST_TYPED:
            st.caption("The text of the file is too long for the box. The model reads it all the same.")
    if file.problem:
        raise vm.VizError(f"The file {file.problem}")
    if not text.strip():
        raise vm.VizError(f"There is no {kind} to read yet. Press “Text”, and paste a page or open a file.")
    in_link = "" if to_address(text) else " A link to this page does not hold it."
    whose = f"the file “{plain(sentence(file.name))}”" if file.name else "your text"
    words = f"of {whose} ({counted(len(text), 'character')}).{in_link}"
    return ChosenText(
        hashlib.sha256(text.encode(errors="replace")).hexdigest(), words.removesuffix("."), lambda _: text
    )


def _take_text_of_link() -> None:
    """The text that came with the address, or that the browser's Back brought again."""
    code = held("pasted", TextForm(LONGEST_CODE), "")
    if code and code != st.session_state.get("own_text_taken"):
        st.session_state.own_text = st.session_state.own_text_typed = from_address(code)
        st.session_state.own_file = FileText("")
    st.session_state.own_text_taken = code


def _take_typed() -> None:
    _take(st.session_state.own_text_typed or "")


def _take_file(file: FileText) -> None:
    """The text of a file, in the box too where it has room for it."""
    if not file.problem:
        st.session_state.own_text_typed = file.text if len(file.text) <= LONGEST_TYPED else ""
        _take(file.text)
    st.session_state.own_file = file


def _take(text: str) -> None:
    st.session_state.own_text, st.session_state.own_file = text, FileText("")
    st.session_state.own_text_taken = to_address(text)
    choose(pasted=st.session_state.own_text_taken)
