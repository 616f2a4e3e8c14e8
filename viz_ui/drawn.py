"""The five things that can be drawn of a head, queries × keys, and how each is coloured."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

import viz_model as vm
from viz_model.measures import value_weighted


@dataclass(frozen=True)
class Drawn:
    """One choice of the switch: its address name, label, formula, colour role and scale."""

    name: str
    label: str
    formula: str
    role: str
    scale: Literal["sequential", "diverging"]
    masked: bool  # whether cells outside the mask are hatched


DRAWN = {
    drawn.name: drawn
    for drawn in (
        Drawn("raw", "QKᵀ", "QKᵀ, before scaling", "scores", "diverging", masked=False),
        Drawn("scores", "scores", "QKᵀ/√D, before the mask", "scores", "diverging", masked=False),
        Drawn("masked", "scores + M", "QKᵀ/√D + M", "scores", "diverging", masked=True),
        Drawn("weights", "weights", "softmax(QKᵀ/√D + M)", "weights", "sequential", masked=True),
        Drawn("carried", "‖a·v‖", "weight × length of the value vector", "value", "sequential", masked=True),
    )
}


def values(trace: vm.Trace, name: str, layer: int, head: int) -> np.ndarray:
    """What is drawn of one head, (T,S) float32; masked scores are −inf."""
    if name == "raw":
        return trace.raw(layer, head).numpy()
    if name == "carried":
        return value_weighted(trace, layer, head).numpy()
    if name == "weights":
        return trace.weights(layer, head).numpy()
    scores = trace.scores(layer, head).numpy()
    return scores if name == "scores" else np.where(trace.mask(layer).numpy(), scores, -np.inf)


def all_values(trace: vm.Trace, name: str) -> np.ndarray:
    """The same of every head: (L,H,T,S)."""
    config = trace.config
    return np.stack(
        [
            np.stack([values(trace, name, layer, head) for head in range(config.n_heads)])
            for layer in range(config.n_layers)
        ]
    )


def ends(matrix: np.ndarray, scale: str, *, full: bool = False) -> tuple[float, float]:
    """Ends of the colour scale: weights (`full`) from 0 to 1, else 0 or −largest to the largest finite value."""
    if full:
        return 0.0, 1.0
    finite = matrix[np.isfinite(matrix)]
    largest = float(np.abs(finite).max(initial=0.0)) or 1.0
    return (0.0 if scale == "sequential" else -largest), largest
