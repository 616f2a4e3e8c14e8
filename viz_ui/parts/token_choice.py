"""Any token of the vocabulary, as a reader asks for it: those that are likely in a list, all others by their text."""

import re
from collections.abc import Sequence

import streamlit as st

import viz_model as vm
from viz_ui.frame.address import linked, texts_before
from viz_ui.look.text import counted, plain, sentence, shown

MARKS = str.maketrans("·⏎⇥", " \n\t")  # how white space in tokens is drawn
MOST_PIECES = 8  # that a sentence names
HELP = (
    "Choose a likely token, or type another one. “·” stands for a space: most tokens that begin a "
    "word start with one. “#” and a number mean the token with that number in the vocabulary."
)


def token_words(model: vm.Model, token: int) -> str:
    """A token as it is drawn."""
    [piece] = model.token_bytes([token])
    return shown(piece) or "∅"


def token_name(model: vm.Model, token: int) -> str:
    """What a reader types for a token: its text, or its number where the text is read as something else."""
    words = token_words(model, token)
    try:
        return words if typed_token(model, words) == token else f"#{token}"
    except vm.VizError:
        return f"#{token}"


def typed_token(model: vm.Model, typed: str) -> int:
    """The token that was typed. Raises VizError where it is none or several."""
    if re.fullmatch(r"#[0-9]{1,9}", typed):
        [token] = model.ids([int(typed[1:])])
        return token
    text = typed.translate(MARKS)
    readings = [_read(model, one) for one in (text, typed, text.lstrip(" "))]
    alone = [reading[0] for reading in readings if len(reading) == 1]
    same = [token for token in alone if token_words(model, token) == typed]
    if alone:
        return (same or alone)[0]
    if not readings[0]:
        raise vm.VizError(f"“{typed}” is no token of {model.name}. Type another text.")
    pieces = [token_words(model, token) for token in readings[0]]
    named = ", ".join(f"“{piece}”" for piece in pieces[:MOST_PIECES]) + ", …" * (len(pieces) > MOST_PIECES)
    raise vm.VizError(f"“{typed}” is {counted(len(pieces), 'token')} of {model.name}: {named}. Choose one token.")


def choose_token(
    model: vm.Model, label: str, likely: Sequence[int], *, key: str, why: str = "the likeliest", width: int = 270
) -> int:
    """A box for one token, and below it what is to be said of it.

    likely: the first of them is what an empty box stands for; why: what is said of it there.
    """
    words, first = _options(model, likely, key), token_words(model, likely[0])
    with st.container(width=width):
        typed = linked(
            st.selectbox,
            label,
            list(words),
            index=None,
            key=key,
            format_func=lambda name: words.get(name, name),
            placeholder=f"“{first}” ({why})",
            accept_new_options=True,
            help=HELP,
        )
        if not typed:
            return likely[0]
        try:
            token = typed_token(model, typed)
        except vm.VizError as error:
            st.warning(plain(sentence(f"{error} Until then, this section is about “{first}”.")), icon=":material/edit:")
            return likely[0]
        _say_spaced(model, typed, token)
        return token


def choose_tokens(model: vm.Model, label: str, likely: Sequence[int], *, key: str, most: int, first: int) -> list[int]:
    """A box for up to `most` tokens; where none is chosen, the `first` likeliest."""
    words = _options(model, likely, key)
    typed = linked(
        st.multiselect,
        label,
        list(words),
        key=key,
        max_selections=most,
        format_func=lambda name: words.get(name, name),
        placeholder=", ".join(f"“{token_words(model, token)}”" for token in likely[:first]) + " (the likeliest)",
        accept_new_options=True,
        select_all=False,
        help=HELP,
    )
    found: list[int] = []
    for one in typed:
        try:
            found.append(typed_token(model, one))
        except vm.VizError as error:
            st.warning(plain(sentence(str(error))), icon=":material/edit:")
    return list(dict.fromkeys(found)) or list(likely[:first])


def _options(model: vm.Model, likely: Sequence[int], key: str) -> dict[str, str]:
    """What the list shows, by what stands for it: the likely tokens, and what was typed."""
    names = [token_name(model, token) for token in likely]
    words = {
        name: f"{token_words(model, token)} {name}" if name.startswith("#") else name
        for name, token in zip(names, likely, strict=True)
    }
    return words | {typed: sentence(typed) for typed in texts_before(key) if typed not in words}


def _say_spaced(model: vm.Model, typed: str, token: int) -> None:
    """That there is the same word with a space before it, which is what mostly follows within a text."""
    spaced = _read(model, f" {typed}")
    if typed[:1].isalpha() and len(spaced) == 1 and spaced[0] != token:
        name = plain(token_words(model, spaced[0]))
        st.caption(f"With a space before it, this word is another token. To choose that one, type “**{name}**”.")


def _read(model: vm.Model, text: str) -> list[int]:
    """The tokens that a text is read as; none where it cannot be read."""
    try:
        return model.ids(text, special=False)
    except vm.VizError:
        return []
