"""All heads at once: their pictures and their numbers, worked out once for a prompt and kept for the visitor.

A layer at a time, of a long prompt even head by head: its matrices are too large to be held all at once.
"""

from collections.abc import Callable

import numpy as np
import streamlit as st
import torch

import viz_model as vm
from pages.heads import head_values
from viz_model.heads.measures import layer_measures, measures_of
from viz_ui.frame.view import View
from viz_ui.look.colours import colour_places
from viz_ui.look.thumbnails import of_all_layers, shrunk, steps
from viz_ui.parts.special_tokens import Shown, shown_tokens
from viz_ui.parts.weight_colours import WeightColours


def grid_pictures(view: View, name: str, colours: WeightColours, hiding: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Thumbnails (L,H,P,R) of all heads, and what of them is not masked: (P,R), or (L,H,P,R) where layers differ.

    colours: those of the weights. Everything else has a scale of its own in each head, for one loud head would blank
    all others.
    hiding: what is done with special tokens, one of `hidden_tokens.HIDING`.
    """
    trace, shown = view.trace, shown_tokens(view.model, view.trace, hiding)
    kept, kept_measures = _kept("pictures", *_passed(view), name, colours, hiding), _kept("measures", *_passed(view))

    def make(layer: int) -> tuple[np.ndarray, np.ndarray | None]:
        measures: list[dict] | None = [] if layer not in kept_measures and name == head_values.WEIGHTS else None
        pictures = _pictures_of_layer(trace, shown, name, colours, layer, measures)
        if measures:  # the weights were there, which take longer to derive than to measure
            kept_measures[layer] = {what: torch.cat([piece[what] for piece in measures]) for what in measures[0]}
        return pictures

    layers = _of_each_layer(trace, kept, make, "Drawing every head …")
    pictures, seen = zip(*layers, strict=True)
    return np.stack(pictures), of_all_layers(seen, trace.config.n_heads)


def measured(view: View) -> dict[str, np.ndarray]:
    """`measures.layer_measures` of all layers, each (L,H)."""
    kept = _kept("measures", *_passed(view))
    layers = _of_each_layer(view.trace, kept, lambda layer: layer_measures(view.trace, layer), "Measuring every head …")
    return {name: np.stack([layer[name].numpy() for layer in layers]) for name in layers[0]}


def _passed(view: View) -> tuple:
    """What `view.traced` needs to find this trace. A trace itself has no hash that tells it from a later one."""
    edits = tuple(edit.written for edit in view.edits)
    return view.name, view.prompt, view.trace.mask_name, view.part, view.target, edits


@st.cache_resource(scope="session", max_entries=12, show_spinner=False)
def _kept(what: str, *of) -> dict:
    """The layers that are done. A run that was cut off goes on after them."""
    return {}


def _of_each_layer(trace: vm.Trace, kept: dict, make: Callable[[int], object], words: str) -> list:
    """`make` of every layer, kept; with progress where a long prompt's heads are derived one by one."""
    missing = [layer for layer in range(trace.n_layers) if layer not in kept]
    bar = st.progress(0.0, words) if missing and len(trace.heads_at_once) > 1 else None
    for n, layer in enumerate(missing):
        kept[layer] = make(layer)
        if bar is not None:
            bar.progress((n + 1) / len(missing), words)
    if bar is not None:
        bar.empty()
    return [kept[layer] for layer in range(trace.n_layers)]


def _pictures_of_layer(
    trace: vm.Trace,
    shown: Shown,
    name: str,
    colours: WeightColours,
    layer: int,
    measures: list[dict] | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Thumbnails (H,P,R) of the heads of a layer, and which of their cells are not masked (P,R).

    measures: where weights are drawn, a list that gets `measures_of` them.
    """
    kind = head_values.DRAWN[name]
    allowed = shown.take(trace.mask(layer).numpy()) if kind.masked else None
    by_weight = name in (head_values.WEIGHTS, head_values.CARRIED)
    signed, pictures, seen = kind.scale == "diverging", [], None
    if by_weight and allowed is not None:  # masked cells are 0, which wins against no permitted one
        seen = shrunk(allowed, allowed, signed=False)[1]
    for heads in trace.heads_at_once:
        matrices = head_values.values_of(trace, name, layer, heads)
        if measures is not None:
            measures.append(measures_of(trace, torch.from_numpy(matrices)))
        if by_weight and shown.renormalised:
            matrices = shown.scaled(matrices, head_values.values_of(trace, head_values.WEIGHTS, layer, heads))
        else:
            matrices = shown.take(matrices)
        # Colours grow with numbers: the strongest cell of a block has the strongest colour.
        small, strong = shrunk(matrices, None if by_weight else allowed, signed=signed)
        seen = seen if by_weight else strong
        if name == head_values.WEIGHTS:
            ends = np.array([colours.high(matrix, allowed) for matrix in matrices], matrices.dtype)
            small = colour_places(small, 0, ends[:, None, None], colours.law)
        else:
            ends = [head_values.ends(matrix, kind.scale)[1] for matrix in matrices]
            small = small / np.reshape(ends, (-1, 1, 1)).astype(matrices.dtype)
        pictures.append(steps(small, -1 if signed else 0, 1, seen))
    return np.concatenate(pictures), seen
