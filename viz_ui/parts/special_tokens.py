"""Special tokens ([CLS], [SEP], <s>, the signs of a chat) left out of matrices, so that the text's own are seen.

Many heads rest on such a token (Clark et al. 2019, “What Does BERT Look At?”, §3.2; Xiao et al. 2023, “Efficient
Streaming Language Models with Attention Sinks”), which makes all other weights pale. The pass itself is not changed:
rows and columns are left out of what is drawn, and a row's weights may be divided by their sum over what is left.
"""

from dataclasses import dataclass, replace

import numpy as np
import streamlit as st

import viz_model as vm
from viz_ui.components.panels import Matrix
from viz_ui.frame.address import linked
from viz_ui.frame.view import View, choose_cell
from viz_ui.look.text import plain

HIDING = ("shown", "hidden", "renormalised")
MOST_NAMED = 6  # tokens, in the note


@dataclass(frozen=True, eq=False)
class Shown:
    """The queries and keys that are drawn, by their places in the pass; hiding: one of HIDING."""

    queries: np.ndarray
    keys: np.ndarray
    hiding: str = "shown"

    @property
    def is_whole(self) -> bool:
        """Whether nothing is hidden."""
        return self.hiding == "shown"

    @property
    def renormalised(self) -> bool:
        """Whether a row of weights sums to 1 over the keys that are left."""
        return self.hiding == "renormalised"

    def take(self, values: np.ndarray) -> np.ndarray:
        """(…,T,S) without the rows and columns that are hidden."""
        return values if self.is_whole else values[..., self.queries[:, None], self.keys]

    def scaled(self, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Values proportional to weights (…,T,S) without what is hidden; rows are divided by their sum if renormalised.

        A row whose weights all lie on hidden keys stays 0.
        """
        taken = self.take(values)
        if not self.renormalised:
            return taken
        sums = self.take(weights).sum(-1, keepdims=True)
        return np.divide(taken, sums, out=np.zeros_like(taken), where=sums > 0)

    def matrix(self, item: Matrix, weights: np.ndarray | None = None) -> Matrix:
        """The matrix without what is hidden; with `weights` (T,S), its values are proportional to them: `scaled`."""
        if self.is_whole:
            return item
        rows = {"query": self.queries, "key": self.keys}.get(item.row_index, np.arange(item.shape[0]))
        columns = self.keys if item.columns_are_keys else np.arange(item.shape[1])
        values = None if item.values is None else np.asarray(item.values)[np.ix_(rows, columns)]
        title = item.title
        if weights is not None and self.renormalised:
            values, title = self.scaled(item.values, weights), f"{item.title}, rows renormalised"
        return replace(
            item,
            title=title,
            caption=f"{item.caption}, {len(rows)} × {len(columns)} drawn",
            values=values,
            row_labels=[item.row_labels[row] for row in rows],
            column_labels=[item.column_labels[column] for column in columns],
            allowed=None if item.allowed is None else item.allowed[np.ix_(rows, columns)],
        )

    def selected(self, query: int, key: int) -> tuple[int | None, int | None]:
        """Where the chosen query and key are drawn; None for one that is hidden."""
        return _place(self.queries, query), _place(self.keys, key)

    def choose_cell(self, event: dict) -> None:
        """Callback of `panels(on_pick=…)`: the clicked cell's query and key, by their places in the pass."""
        places = {"query": self.queries, "key": self.keys}
        choose_cell(**{name: None if event[name] is None else int(at[event[name]]) for name, at in places.items()})


def _place(drawn: np.ndarray, token: int) -> int | None:
    [*found] = np.flatnonzero(drawn == token)
    return int(found[0]) if found else None


def shown_tokens(model: vm.Model, trace: vm.Trace, hiding: str) -> Shown:
    """What is drawn of a trace; all of it where a text has no special tokens, or nothing else."""
    places = _ordinary(model, trace.ids), _ordinary(model, trace.key_ids)
    whole = Shown(np.arange(trace.length), np.arange(trace.key_length))
    found_none = [len(kept) for kept in places] == [trace.length, trace.key_length]
    if hiding == "shown" or found_none or not all(map(len, places)):
        return whole
    return Shown(*places, hiding)


def _ordinary(model: vm.Model, ids) -> np.ndarray:
    """The places of all tokens that are not special."""
    special = model.signs
    return np.array([place for place, token in enumerate(ids) if token not in special], int)


def choose_shown(view: View) -> Shown:
    """The switch, where there is something to hide, and what is drawn then."""
    if shown_tokens(view.model, view.trace, "hidden").is_whole:
        return shown_tokens(view.model, view.trace, "shown")
    hiding = linked(
        st.selectbox,
        "Special tokens",
        HIDING,
        key="special",
        width=160,
        help="The tokenizer puts special tokens around a text, such as [CLS], [SEP] or <s>. The model always reads "
        "them; you only choose what is drawn.\n\n- **hidden**: the rows and columns of special tokens are left out.\n"
        "- **renormalised**: these rows and columns are left out, and each remaining row of weights is divided by its "
        "sum.\n\n[MASK] and [UNK] stand for words, so they are always drawn.",
    )
    return shown_tokens(view.model, view.trace, hiding)


def say_hidden(view: View, shown: Shown, unchanged: str) -> None:
    """What is hidden. unchanged: what else on the page, more than one thing, still counts the hidden tokens."""
    if shown.is_whole:
        return
    names = [view.labels[at] for at in range(view.trace.length) if at not in shown.queries]
    if view.part == "cross":
        names += [view.key_labels[at] for at in range(view.trace.key_length) if at not in shown.keys]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    divided = (
        "Each row of weights is divided by the sum of the weights that are left in it. " if shown.renormalised else ""
    )
    st.caption(
        f"Hidden tokens: {plain(', '.join(names[:MOST_NAMED]))}{more}. {divided}{unchanged} still include these tokens."
    )
