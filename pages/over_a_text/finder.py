"""Which heads do this? All heads, ranked by one number: over the text, or in the prompt."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st
import torch

import viz_model as vm
from viz_model.heads.finder import alike, weight_on
from viz_model.heads.patterns import PATTERNS, UNITS
from viz_model.heads.report import HeadReport
from viz_model.masking.drawn_mask import decode_mask, encode_mask
from viz_ui.components.mask_editor import mask_editor
from viz_ui.frame.address import choose, held, linked
from viz_ui.frame.forms import Text as TextForm
from viz_ui.frame.jobs import Stopped, kept_result
from viz_ui.frame.passes import is_small
from viz_ui.frame.view import View, choose_head
from viz_ui.look.text import counted, plain, sentence
from viz_ui.parts.head_names import kept_names

PATTERN, CELL, DRAWN, ALIKE = "the pattern", "the chosen cell", "cells that you draw", "like the chosen head"
WORDS = {
    PATTERN: "heads that show the pattern above, over the text",
    CELL: "heads that put weight on the chosen query and key of the prompt",
    DRAWN: "heads that put weight on cells of the prompt that you draw",
    ALIKE: "heads whose weights lie where those of the chosen head lie, over the text",
}
OVER = ["the text", "the prompt"]
LONGEST_CODE, MOST_DRAWN = 11_000, 256  # letters of a drawing in the address, tokens of a side


@dataclass(frozen=True)
class Ranking:
    """A number of every head (L,H), NaN where a head has none; what it is called, and what it is in a sentence."""

    values: np.ndarray
    column: str
    words: str


def draw_finder(view: View, found: HeadReport, pattern: str, key: Hashable) -> None:
    """key: what the report is of."""
    st.subheader("Which heads do this?")
    what = linked(
        st.segmented_control,
        "What to look for",
        list(WORDS),
        default=PATTERN,
        required=True,
        key="find",
        help="\n".join(f"- **{name}**: {words}" for name, words in WORDS.items()),
    )
    code = held("find_cells", TextForm(LONGEST_CODE), "")
    with st.container(horizontal=True, gap="medium"):  # what is drawn, and the heads beside it
        question = st.container(width=460) if what == DRAWN else st.container()
        answer = st.container() if what == DRAWN else question
    try:
        with question:
            ranking = {
                PATTERN: lambda: _of_pattern(found, pattern),
                CELL: lambda: _of_cell(view),
                DRAWN: lambda: _of_drawing(view, code),
                ALIKE: lambda: _of_likeness(view, found, key),
            }[what]()
    except Stopped:
        return
    except vm.VizError as error:
        answer.info(plain(sentence(str(error))), icon=":material/draw:")
        return
    with answer:
        _draw_table(view, found, ranking)
        st.caption(f"{ranking.words} Tick a row to choose its head.")


def _of_pattern(found: HeadReport, pattern: str) -> Ranking:
    unit = f", {UNITS[pattern]}" if pattern in UNITS else ""
    return Ranking(found.mean(pattern), f"{pattern}{unit}", f"{PATTERNS[pattern]} The numbers are means over the text.")


def _of_cell(view: View) -> Ranking:
    trace, query, key = view.trace, view.query, view.key
    cells = np.zeros((trace.length, trace.key_length), bool)
    cells[query, key] = True
    words = f"the query {view.labels[query]} on the key {view.key_labels[key]}"
    return Ranking(weight_on(trace, cells), "weight", f"This is the weight of {plain(words)} in the prompt.")


def _of_drawing(view: View, code: str) -> Ranking:
    shape = view.trace.length, view.trace.key_length
    if max(shape) > MOST_DRAWN:
        raise vm.VizError(f"Cells are drawn in prompts of up to {MOST_DRAWN} tokens. Shorten the prompt.")
    cells = drawn_cells(code, shape)
    mask_editor(
        cells,
        view.labels,
        view.key_labels,
        name="Cells to look for",
        key="finder_cells",
        states=("looked for", "not looked for"),
        cursor=(view.query, view.key),
        on_draw=lambda drawn: choose(find_cells=encode_mask(drawn)),
    )
    if not cells.any():
        raise vm.VizError("No cell is drawn yet. Click or drag over cells of the prompt: a row is a query.")
    queries = counted(int(cells.any(1).sum()), "query", "queries")
    return Ranking(
        weight_on(view.trace, cells),
        "weight on the cells",
        f"For each query with drawn cells, its weights on these cells are added. This is the mean over {queries}.",
    )


def drawn_cells(code: str, shape: tuple[int, int]) -> np.ndarray:
    """The cells of an address, none where it holds nonsense: booleans (T,S)."""
    try:
        return decode_mask(code, torch.zeros(shape, dtype=torch.bool)).numpy()
    except vm.VizError:
        return np.zeros(shape, bool)


def _of_likeness(view: View, found: HeadReport, key: Hashable) -> Ranking:
    over = linked(st.segmented_control, "Over", OVER, default=OVER[0], required=True, key="find_over")
    if over == OVER[1]:
        values = alike(view.trace, view.layer, view.head)
    else:
        values = kept_result(
            lambda tell: found.alike(view.layer, view.head, tell),
            words="Comparing the heads over the text",
            name="alike_heads",
            of=(key, len(found.windows), view.layer, view.head),
            at_once=is_small(view.model),
        )
    others = values.astype(float)
    others[view.layer, view.head] = np.nan
    return Ranking(
        others,
        "shared",
        f"This is the share of attention that a head and {view.where} have in common. For each query it is Σ min(a, "
        f"b), where a and b are the weights of the two heads. The number is the mean over all queries of {over} that "
        "may read more than one key. It is 1 where both heads have the same weights.",
    )


def _draw_table(view: View, found: HeadReport, ranking: Ranking) -> None:
    """All heads from the largest number to the smallest."""
    table = ranked(ranking, {place: str(name) for place, name in names_of(view, found).items()})
    table_key = f"ranking_{view.layer}_{view.head}"  # a tick goes with the head that it chose

    def take() -> None:
        rows = st.session_state[table_key]["selection"]["rows"]
        if rows:
            choose_head(int(table["layer"][rows[0]]), int(table["head"][rows[0]]))

    st.dataframe(
        table,
        hide_index=True,
        height=320,
        key=table_key,
        on_select=take,
        selection_mode="single-row",
        column_config={
            "layer": st.column_config.NumberColumn(width=60),
            "head": st.column_config.NumberColumn(width=60),
            ranking.column: st.column_config.NumberColumn(format="%.4g"),
        },
    )


def ranked(ranking: Ranking, names: dict[tuple[int, int], str]) -> pd.DataFrame:
    """A row a head, the largest number first; heads without a number are left out."""
    places = [place for place in np.ndindex(ranking.values.shape) if np.isfinite(ranking.values[place])]
    places.sort(key=lambda place: -ranking.values[place])
    rows = [(*place, float(ranking.values[place]), names.get(place, "")) for place in places]
    return pd.DataFrame(rows, columns=["layer", "head", ranking.column, "name"])


def names_of(view: View, found: HeadReport) -> dict:
    """The names that are kept, of the text that ships; else those of this text."""
    kept = kept_names(view)
    if kept is None:
        return found.names
    return {place: kept.name(*place) for place in np.ndindex(found.best_distance.shape)}
