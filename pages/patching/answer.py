"""What the chosen cell of a map says: a sentence, the metric with its numbers, and both runs' rows of its head."""

import numpy as np
import streamlit as st

from pages.patching.maps import OF_HEADS, OF_LAYERS, PATHS, MapChoice, columns_of, sender_of
from pages.patching.prompts import ComparedRuns, answer_words
from viz_model.intervention.patching import HEAD_POSITIONS, HEADS, Patching
from viz_model.intervention.paths import LOGITS
from viz_ui.components.panels import Matrix, panels
from viz_ui.frame.view import View, choose_cell
from viz_ui.look.glossary import explained
from viz_ui.look.text import number, plain
from viz_ui.parts.open_matrix import named, note_opened, open_noted_matrix, pass_words
from viz_ui.parts.written_arithmetic import n

ROUNDINGS = 10  # an effect of less than so many times what a pass with nothing put in has is called rounding


def draw_answer(view: View, pair: ComparedRuns, choice: MapChoice, found: Patching) -> None:
    """The chosen cell in a sentence, and the formula with its numbers."""
    place = _place(view, pair, choice, found)
    if place is None:
        st.markdown(f"Token {view.query} is not among the aligned tokens, so nothing was put in there. Click a cell.")
        return
    effect, difference = float(found.effect[place]), float(found.difference[place])
    origin, base = choice.runs
    rounding = ""
    if 0 < abs(effect) <= ROUNDINGS * abs(found.nothing):
        rounding = " That is no more than rounding: even with nothing put in, rounding can give a number of this size."
    does = f"takes away **{number(effect, 3)}** of" if choice.reverse else f"brings back **{number(effect, 3)}** of"
    what = _what(view, choice, pair, found)
    st.markdown(
        f"{what[0].upper()}{what[1:]} {does} the clean answer when it is put from the {origin} run into the {base} "
        f"run.{rounding}",
        help=explained("activation patching", "clean run", "logit"),
    )
    good, bad = answer_words(view, pair)
    preposition = "in the place of" if view.model.config.layout == "encoder-only" else "after"
    hidden = ", which is hidden from the model" if pair.is_hidden else " of the target" * view.model.has_source
    st.markdown(
        f"d is the logit of **{good}** minus that of **{bad}**, {preposition} token {pair.position}{hidden}: "
        f"{number(found.clean)} in the clean run, {number(found.corrupted)} in the corrupted run, and "
        f"**{number(difference)}** with this value put in."
    )
    of_runs = {"clean": n(found.clean), "corrupted": n(found.corrupted)}
    st.latex(
        rf"\small \frac{{d_\text{{put in}} - d_\text{{{base}}}}}{{d_\text{{{origin}}} - d_\text{{{base}}}}} = "
        rf"\frac{{{n(difference)} - ({of_runs[base]})}}{{{of_runs[origin]} - ({of_runs[base]})}} = {n(effect, 3)}"
    )
    st.caption(_ends(view, pair, choice, found), help=explained("norm") if choice.sites in (PATHS, LOGITS) else None)


def _place(view: View, pair: ComparedRuns, choice: MapChoice, found: Patching) -> tuple[int, ...] | None:
    """The index of the chosen cell; None where nothing was put in."""
    if choice.sites in OF_HEADS:
        return view.layer, view.head
    if choice.sites == PATHS:
        return sender_of(view, found)
    pairs = dict(pair.alignment.pairs)
    if view.query not in pairs:
        return None
    position = view.query if choice.reverse else pairs[view.query]
    return (view.layer, view.head, position) if choice.sites == HEAD_POSITIONS else (view.layer, position)


def _what(view: View, choice: MapChoice, pair: ComparedRuns, found: Patching) -> str:
    """What is put in, as the subject of a sentence."""
    head, layer = view.head, view.layer
    if choice.sites == PATHS:
        of, sender = sender_of(view, found)
        return f"what **head {sender} of layer {of}** adds to the {choice.into} of **head {head} of layer {layer}**"
    if choice.sites == LOGITS:
        return f"what **head {head} of layer {layer}** adds to the logits directly"
    if choice.sites == HEADS:
        return f"what **head {head} of layer {layer}** writes at all tokens"
    firsts = [first for first, _ in pair.alignment.pairs]
    token = f"at token **{plain(columns_of(pair)[firsts.index(view.query)])}**"
    if choice.sites == HEAD_POSITIONS:
        return f"what **head {head} of layer {layer}** writes {token}"
    return f"the **{OF_LAYERS[choice.sites].format(layer)}** {token}"


def _ends(view: View, pair: ComparedRuns, choice: MapChoice, found: Patching) -> str:
    """The ends of the scale, measured; of paths, what is frozen."""
    origin, base = choice.runs
    nothing, whole = number(found.nothing, 2), number(found.whole, 5)
    if choice.sites == PATHS:
        return (
            f"Before layer {view.layer}, all other heads and all feed-forwards add what they add in the {base} run. "
            f"The residual stream, its norms, the {choice.into} of the receiving head and all that follows are "
            f"computed again. Two checks of this scale: with nothing put in, the number is {nothing}. If the whole "
            f"{choice.into} is put in from the {origin} run, it is {whole}. Wang et al. 2022, “Interpretability in the "
            "Wild”, §3.1; in that paper, feed-forwards are computed again."
        )
    if choice.sites == LOGITS:
        return (
            f"All other heads and all feed-forwards add what they add in the {base} run, so no later layer reacts to "
            "what the head writes. What follows the last layer is computed again. Two checks of this scale: with "
            f"nothing put in, the number is {nothing}. If the whole residual stream after the last layer is put in "
            f"from the {origin} run, it is {whole}. Wang et al. 2022, “Interpretability in the Wild”, §3.1; in that "
            "paper, feed-forwards are computed again."
        )
    if pair.alignment.is_whole:
        return (
            f"Two checks of this scale: with nothing put in, the number is {nothing}. With the whole residual stream "
            f"put in, it is {whole}: the pass then is the {origin} run, up to rounding."
        )
    return (
        f"Two checks of this scale: with nothing put in, the number is {nothing}. With the residual stream of all "
        f"aligned tokens put in, it is {whole}. This need not be 1, because some tokens have no counterpart."
    )


def draw_rows(view: View, pair: ComparedRuns, choice: MapChoice, found: Patching) -> None:
    """What the chosen query reads in both runs, by the head of the cell; of a path, by both of its heads."""
    receiver = view.layer, view.head
    heads = {receiver: view.query}
    if choice.sites == PATHS:  # what the sender wrote is read where the receiver's query, or its key, comes from
        heads = {sender_of(view, found): view.query if choice.into == "query" else view.key} | heads
    pairs = dict(pair.alignment.pairs)
    matrices = [_rows(pair, head, (query, pairs[query])) for head, query in heads.items() if query in pairs]
    if not matrices:
        return
    st.subheader("What the chosen token reads in both runs", help=explained("attention weight"))
    keys = [first for first, _ in pair.key_alignment.pairs]

    def picked(event: dict) -> None:
        if event["column"] is not None:
            choose_cell(key=keys[event["column"]])

    chosen = keys.index(view.key) if view.key in keys else None
    panels(matrices, key="both_rows", selected=(None, chosen), on_pick=picked, on_open=note_opened)
    of = f"{pass_words(pair.clean)}. Corrupted: {pass_words(pair.corrupted)}"
    names = {one.name: named(view, f"{one.title}, in both runs", f"{one.name}_both_runs", of=of) for one in matrices}
    open_noted_matrix(view, {one.name: one for one in matrices}, names=names)


def _rows(pair: ComparedRuns, head: tuple[int, int], queries: tuple[int, int]) -> Matrix:
    """Weights (2, aligned keys) of one query in both runs."""
    layer, number_of_head = head
    columns = list(zip(*pair.key_alignment.pairs, strict=True))
    weights, allowed = [], []
    left_out = []
    for trace, query, keys in zip(pair.traces.values(), queries, columns, strict=True):
        row, keys = trace.weights(*head)[query], list(keys)
        weights.append(row[keys].numpy())
        allowed.append(trace.mask(layer)[query][keys].numpy())
        left_out.append(number(float(row.sum() - row[keys].sum()), 3))
    caption = "Attention weights"
    if not pair.key_alignment.is_whole:
        caption += f"; on tokens without counterpart: clean {left_out[0]}, corrupted {left_out[1]}"
    return Matrix(
        f"layer{layer}_head{number_of_head}",
        f"Layer {layer}, head {number_of_head}: what token {queries[0]} reads",
        np.stack(weights),
        ["clean", "corrupted"],
        columns_of(pair, keys=True),
        row_axis="run",
        column_axis="key",
        caption=caption,
        role="weights",
        allowed=np.stack(allowed),
        columns_are_keys=True,
    )
