"""How far the heads of both passes are apart: all of them as a grid, and two of them row by row and cell by cell."""

import numpy as np
import streamlit as st
import torch
from torch import Tensor

from pages.compare.choice import NAMES, Sides
from viz_model.heads.alignment import Places
from viz_model.heads.divergence import ComparedPasses, ComparedWeights
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.address import choose_pair
from viz_ui.frame.jobs import kept_result
from viz_ui.frame.passes import is_small
from viz_ui.frame.view import choose_cell
from viz_ui.look.colours import telling_law
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain
from viz_ui.parts.aligned import place_labels
from viz_ui.parts.head_matrix import draw_head_matrix
from viz_ui.parts.open_matrix import Named, named, note_opened, open_noted_matrix, pass_words

MANY_CELLS = 2**22  # of all heads: from here on, comparing them takes a second


def divergence_table(sides: Sides, comparison: ComparedPasses) -> Tensor:
    """Kept for this visitor, the latest: (L,H), of heads with the same numbers, or of B's heads from the chosen one."""
    view, other = sides.first, sides.second
    head = (view.layer, view.head) if sides.has_own_head else None
    heads = other.trace.n_layers * other.trace.config.n_heads
    cells = heads * len(comparison.queries) * len(comparison.keys)
    return kept_result(
        lambda tell: comparison.divergences(head, tell=tell),
        words=f"Comparing {heads:,} heads",
        name="divergences",
        of=(sides.key, head),
        at_once=cells < MANY_CELLS and is_small(other.model),
    )


def closest_head(sides: Sides, table: Tensor) -> tuple[int, int]:
    """B's head with the smallest divergence from A's; not A's own one, where both are heads of one pass."""
    table = table.nan_to_num(torch.inf)
    if sides.is_one_pass:
        table[sides.first.layer, sides.first.head] = torch.inf
    layer, head = divmod(int(table.argmin()), table.shape[1])
    return layer, head


def most_changed_head(table: Tensor) -> tuple[int, int]:
    """Of heads with the same numbers."""
    layer, head = divmod(int(table.nan_to_num(-1).argmax()), table.shape[1])
    return layer, head


def draw_grid(sides: Sides, table: Tensor, other: tuple[int, int]) -> None:
    """One number a head; a click chooses it: the head of both, or B's. other: the head of B."""
    view, values = sides.first, table.numpy()
    known = values[~np.isnan(values)]
    high = float(known.max()) if known.size and known.max() > 0 else 1.0
    of_both = "Divergence of A and B, bits"
    title = f"Divergence from head {view.head} of layer {view.layer}, bits" if sides.has_own_head else of_both
    look = {
        "role": "weights",
        "low": 0.0,
        "high": high,
        "law": telling_law(known, high),
        "caption": "Mean over the queries. 0: the same weights. 1: nothing in common.",
        "allowed": ~np.isnan(values),
    }
    more = {}
    if sides.has_own_head:
        more = {
            "marked": {"layer": other[0], "head": other[1]},
            "on_pick": lambda event: choose_pair("compared_head", event["row"], event["column"], other),
        }
    names = named(view, f"{title}, B: {sides.words}", "divergences", of=_both_passes(sides))
    draw_head_matrix(view, "divergence", title, np.where(np.isnan(values), -np.inf, values), names, **look, **more)


def draw_answer(
    sides: Sides, comparison: ComparedPasses, table: Tensor, found: ComparedWeights, other: tuple[int, int]
) -> None:
    """How far the two heads are apart, and their rows of the chosen query. other: the head of B."""
    view, value = sides.first, float(found.divergence.nanmean())
    helped = explained("Jensen–Shannon divergence", "bit", "attention weight", "query")
    own = f"Head {view.head} of layer {view.layer}"
    if sides.has_own_head:
        st.markdown(
            f"A: **{own}**. B: **head {other[1]} of layer {other[0]}** of {plain(sides.words)}. Their weights are "
            f"**{number(value)} bits** apart, on average over the queries. {_among(sides, table)}",
            help=helped,
        )
    else:
        st.markdown(
            f"**{own}**: its weights in A and in B are **{number(value)} bits** apart, on average over the queries. "
            f"{_among(sides, table)}",
            help=helped,
        )
    place = comparison.queries.place_of(view.query)
    if place is None:
        st.markdown(f"Token {view.query} has no counterpart in B. Choose another query.")
        return
    here, away = float(found.divergence[place]), [float(side[place]) for side in found.elsewhere]
    apart = (
        "In A or in B, this query may read no key, so the two cannot be compared."
        if np.isnan(here)
        else f"**{number(here)} bits** apart."
    )
    st.markdown(f"Query **{plain(_labels(comparison.queries, sides)[place])}**: {apart}")
    draw_rows(sides, comparison, found, place)
    if any(away):
        st.caption(
            f"Tokens without a counterpart get {number(away[0], 3)} of the weight in A and {number(away[1], 3)} in B. "
            "The divergence counts this as weight that the two do not share."
        )


def _among(sides: Sides, table: Tensor) -> str:
    """Where this number stands among those of the other heads."""
    known = table[~table.isnan()]
    middle = number(float(known.quantile(0.5)), 3)  # `median` is the lower of the two in the middle
    if not sides.has_own_head:
        layer, head = most_changed_head(table)
        return (
            f"The head that changes most is head {head} of layer {layer}, by {number(float(table[layer, head]), 3)} "
            f"bits. Half of all heads change by less than {middle}."
        )
    layer, head = closest_head(sides, table)
    return (
        f"The closest is head {head} of layer {layer}, with {number(float(table[layer, head]), 3)} bits. Half of all "
        f"heads are farther than {middle}."
    )


def draw_rows(sides: Sides, comparison: ComparedPasses, found: ComparedWeights, place: int) -> None:
    """The weights of one query in A and B, one above the other."""
    values = torch.stack([found.first[place], found.second[place]]).numpy()
    matrix = Matrix(
        "rows",
        "What this query reads",
        values,
        list(NAMES),
        _labels(comparison.keys, sides, keys=True),
        row_axis="pass",
        column_axis="key",
        role="weights",
        caption="Attention weights",
        columns_are_keys=True,
    )
    view, keys = sides.first, comparison.keys

    def picked(event: dict) -> None:
        if event["column"] is not None:
            choose_cell(key=keys.first[event["column"]][-1])

    panels(
        [matrix],
        key="compared_rows",
        selected=(None, keys.place_of(view.key)),
        matrix_width=400,
        on_pick=picked,
        on_open=note_opened,
    )
    open_noted_matrix(view, {"rows": matrix}, names={"rows": _named(sides, "both rows", "compared_rows")})


def draw_matrices(sides: Sides, comparison: ComparedPasses, found: ComparedWeights, other: tuple[int, int]) -> None:
    """The weights of both heads and their difference, cell by cell."""
    view, queries, keys = sides.first, comparison.queries, comparison.keys
    labels = _labels(queries, sides), _labels(keys, sides, keys=True)
    weights = found.first.numpy(), found.second.numpy()
    heads = (view.layer, view.head), other
    traces = sides.first.trace, sides.second.trace
    allowed = [
        _allowed(trace.mask(layer), (queries, keys), second=second)
        for second, (trace, (layer, _)) in enumerate(zip(traces, heads, strict=True))
    ]
    shared = {"rows_are_queries": True, "columns_are_keys": True}
    items = [
        Matrix(
            name,
            f"{name}: layer {layer}, head {head}",
            values,
            *labels,
            caption=_caption(sides, n),
            role="weights",
            allowed=cells,
            **shared,
        )
        for n, (name, values, cells, (layer, head)) in enumerate(zip(NAMES, weights, allowed, heads, strict=True))
    ]
    items.append(
        Matrix(
            "difference",
            "Difference, B − A",
            weights[1] - weights[0],
            *labels,
            caption="of the weights",
            role="stream",
            scale="diverging",
            allowed=allowed[0] | allowed[1],
            **shared,
        )
    )

    def picked(event: dict) -> None:
        query, key = event["query"], event["key"]
        choose_cell(
            query=None if query is None else queries.first[query][-1], key=None if key is None else keys.first[key][-1]
        )

    panels(
        items,
        key="compared_panels",
        selected=(queries.place_of(view.query), keys.place_of(view.key)),
        matrix_width=360,
        on_pick=picked,
        on_open=note_opened,
    )
    words = {"A": "weights of A", "B": "weights of B", "difference": "B minus A"}
    names = {name: _named(sides, said, f"compared_{name}") for name, said in words.items()}
    open_noted_matrix(view, {one.name: one for one in items}, names=names)


def _caption(sides: Sides, number_of_side: int) -> str:
    """Of which model and mask."""
    side = (sides.first, sides.second)[number_of_side]
    edited = ", edited" * bool(side.edits)
    return f"{side.model.name}, {side.trace.mask_name}{edited}"


def _named(sides: Sides, words: str, file_words: str) -> Named:
    return named(sides.first, words, file_words, sides.first.where, of=_both_passes(sides))


def _both_passes(sides: Sides) -> str:
    return f"A. {pass_words(sides.first.trace)} B, {sides.words}. {pass_words(sides.second.trace)}"


def _labels(places: Places, sides: Sides, *, keys: bool = False) -> list[str]:
    pieces = [side.trace.key_token_bytes if keys else side.trace.token_bytes for side in (sides.first, sides.second)]
    return place_labels(places, *pieces)


def _allowed(mask: Tensor, places: tuple[Places, Places], *, second: int) -> np.ndarray:
    """Booleans (T,S) -> (N,M): whether any token of a place may read any of the other."""
    rows, columns = (side.second if second else side.first for side in places)
    kept = torch.stack([mask[list(tokens)].any(0) for tokens in rows])
    return torch.stack([kept[:, list(tokens)].any(1) for tokens in columns], dim=1).numpy()
