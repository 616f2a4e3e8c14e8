"""Any matrix of a page, opened large and saved: the link between the `panels` component and the dialog."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import streamlit as st

import viz_model as vm
from viz_ui.components.panels.panel_items import Matrix, with_ends
from viz_ui.frame.view import View
from viz_ui.look.text import sentence
from viz_ui.parts.export import matrix_dialog

_NOTE = "matrix_to_open"


class Named(NamedTuple):
    """What a matrix is called in the dialog, and in its files (without ending).

    of: what else somebody needs to know who has the file alone, such as the mask and the text; see `pass_words`.
    """

    title: str
    file_name: str
    of: str = ""


def pass_words(trace: vm.Trace, mask: str = "") -> str:
    """The mask, the texts and the edits of a pass, for files that are saved. mask: in place of the name of the pass's
    own one."""
    texts = [("Text", trace.read)] if trace.source is None else [("Source", trace.source), ("Target", trace.read)]
    read = ". ".join(f"{name}: {_text(tokens.pieces)}" for name, tokens in texts)
    return f"Mask: {mask or trace.mask_name}{_edited_words(trace)}. {read}"


def _edited_words(trace: vm.Trace) -> str:
    """ ", edited: …" of an edited pass."""
    return f", edited ({' '.join(edit.words for edit in trace.edits)})" if trace.edits else ""


def _text(pieces: Sequence[bytes]) -> str:
    return sentence(b"".join(pieces).decode(errors="replace"))


def named(view: View, words: str, file_words: str, *places: str, of: str = "") -> Named:
    """The names of a matrix that is not simply one of the chosen layer and head: `places` say where it belongs.

    `named(view, "stream in", "resid_pre", "layer 2")` is "tiny-gpt, layer 2: stream in" and
    "tiny-gpt_layer2_resid_pre".
    """
    parts = [view.model.name, *(re.sub(r" (?=\d+$)", "", place) for place in places), file_words]
    parts += ["edited"] if view.edits else []
    return Named(f"{', '.join([view.model.name, *places])}: {words}", re.sub(r"[^\w.-]", "-", "_".join(parts)), of)


def of_head(view: View, name: str, of: str) -> Named:
    """The names of a matrix of the chosen layer and head."""
    return Named(f"{view.model.name}, {view.where}: {name}", view.file_name(name), of)


def note_opened(event: dict) -> None:
    """Callback of `panels(on_open=…)`: remember which matrix was asked for, for this run alone."""
    st.session_state[_NOTE] = event["panel"]


def open_noted_matrix(
    view: View,
    matrices: dict[str, Matrix],
    arrays: Callable[[], dict] | None = None,
    arrays_name: str = "all",
    names: Mapping[str, Named] | None = None,
) -> None:
    """Open the matrix that was asked for, if it is one of these.

    arrays: what the NPZ file holds, where it is more than `head_arrays(view)`; arrays_name: how its name ends.
    names: of matrices that are not simply of the chosen layer and head (see `named`), by the names of the matrices;
    to such a one the arrays of the head are offered only where `arrays` gives them.
    """
    if st.session_state.get(_NOTE) not in matrices:
        return
    matrix = matrices[st.session_state.pop(_NOTE)]
    source = matrix if matrix.same_as is None else matrices[matrix.same_as]
    scaled = with_ends(matrix, source)
    values = np.asarray(source.values, dtype=np.float32) * np.float32(matrix.factor)
    if matrix.allowed is not None and matrix.role == "scores":
        values = np.where(matrix.allowed, values, np.float32(-np.inf))
    shown = (names or {}).get(matrix.name)
    if shown is None:
        shown, arrays = of_head(view, matrix.name, pass_words(view.trace)), arrays or partial(head_arrays, view)
    matrix_dialog(
        values,
        list(matrix.row_labels),
        list(matrix.column_labels),
        row_axis=matrix.row_axis,
        column_axis=matrix.column_axis,
        title=shown.title,
        scale=matrix.scale,
        low=scaled.low,
        high=scaled.high,
        law=matrix.law,
        allowed=matrix.allowed,
        caption=shown.of,
        file_name=shown.file_name,
        head_arrays=arrays,
        head_file_name=view.file_name(arrays_name),
    )


def head_arrays(view: View) -> dict:
    """Everything of the chosen head as arrays with their names, for one NPZ file."""
    trace, layer, head = view.trace, view.layer, view.head
    group = trace.config.kv_head(head)
    return {
        "description": f"{view.model.name}, {view.where} (key/value head {group}), mask "
        f"{trace.mask_name}{_edited_words(trace)}: q (T,D), k (S,D), v (S,D), raw = q k^T, scores = raw * scale, "
        "mask (True: may attend), weights = softmax(scores where mask), mixed = weights v; tokens are shown as on the "
        "page; tokens and ids of the queries, key_tokens and key_ids of the keys.",
        "tokens": view.labels,
        "ids": list(trace.ids),
        "key_tokens": view.key_labels,
        "key_ids": list(trace.key_ids),
        "scale": trace.equation(layer).scale,
        "q": trace.q(layer)[head].numpy(),
        "k": trace.k(layer)[group].numpy(),
        "v": trace.v(layer)[group].numpy(),
        "raw": trace.raw(layer, head).numpy(),
        "scores": trace.scores(layer, head).numpy(),
        "mask": trace.mask(layer).numpy(),
        "weights": trace.weights(layer, head).numpy(),
        "mixed": trace.mixed(layer)[head].numpy(),
    }
