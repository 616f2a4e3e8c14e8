"""The five things that can be drawn of a head, queries × keys, and how each is coloured."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

import viz_model as vm
from viz_model.heads.measures import value_weighted
from viz_model.model.formula import AttentionFormula


@dataclass(frozen=True)
class HeadQuantity:
    """One choice of the switch: its name, what it is in words, colour role and scale."""

    name: str
    words: str
    role: str
    scale: Literal["sequential", "diverging"]
    masked: bool  # whether cells outside the mask are hatched


RAW, SCORES, MASKED, WEIGHTS, CARRIED = (
    "raw scores",
    "scaled scores",
    "scores + mask",
    "weights",
    "value-weighted",
)

DRAWN = {
    drawn.name: drawn
    for drawn in (
        HeadQuantity(RAW, "the product of each query with each key", "scores", "diverging", masked=False),
        HeadQuantity(SCORES, "the raw scores, scaled", "scores", "diverging", masked=False),
        HeadQuantity(MASKED, "what goes into softmax; masked cells are −∞", "scores", "diverging", masked=True),
        HeadQuantity(WEIGHTS, "the softmax of each row of “scores + mask”", "weights", "sequential", masked=True),
        HeadQuantity(
            CARRIED,
            "‖a·v‖, the weight times the length of the value vector, which is how much the key's token contributes",
            "value",
            "sequential",
            masked=True,
        ),
    )
}


def in_words(kind: HeadQuantity, trace: vm.Trace, layer: int) -> str:
    """What is drawn, in words; the scale is that of this layer."""
    return f"the raw scores {AttentionFormula.of(trace, layer).scaling_words}" if kind.name == SCORES else kind.words


def formula(trace: vm.Trace, name: str, layer: int) -> str:
    """What is drawn, in the equation of this layer."""
    written = AttentionFormula.of(trace, layer)
    return {
        RAW: "QKᵀ",
        SCORES: written.scores,
        MASKED: written.masked,
        WEIGHTS: f"A = {written.weights}",
        CARRIED: "‖a·v‖, the weight times the length of the value vector",
    }[name]


def values(trace: vm.Trace, name: str, layer: int, head: int) -> np.ndarray:
    """What is drawn of one head, (T,S) float32; masked scores are −inf."""
    if name == RAW:
        return trace.raw(layer, head).numpy()
    if name == CARRIED:
        return value_weighted(trace, layer, head).numpy()
    if name == WEIGHTS:
        return trace.weights(layer, head).numpy()
    if name == SCORES:
        return trace.scores(layer, head).numpy()
    return np.where(trace.mask(layer).numpy(), trace.softmax_input(layer, head).numpy(), -np.inf)


def values_of(trace: vm.Trace, name: str, layer: int, heads: range) -> np.ndarray:
    """The same of several heads: (n,T,S)."""
    found = [values(trace, name, layer, head) for head in heads]
    return found[0][None] if len(found) == 1 else np.stack(found)  # a long prompt's matrix is not copied


def ends(matrix: np.ndarray, scale: str) -> tuple[float, float]:
    """Ends of the colour scale: 0 or −largest to the largest finite value."""
    finite = matrix[np.isfinite(matrix)]
    largest = float(np.abs(finite).max(initial=0.0)) or 1.0
    return (0.0 if scale == "sequential" else -largest), largest
