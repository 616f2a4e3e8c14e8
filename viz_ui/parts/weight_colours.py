"""How weights are coloured: the reader's choice of a scale, one for all pages that draw a head.

A weight lies between 0 and 1, and of n keys that are read equally each has 1/n. So on a linear scale a long text is all
in the first colour, and "automatic" takes a scale on which something is seen.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import streamlit as st

from viz_ui.components.panels import Matrix
from viz_ui.frame.address import linked
from viz_ui.look.colours import Law

OWN = "scale to this head"
CHOICES = ("automatic", "linear", "square root", "logarithmic", OWN)
FORMER = {"0 to 1": "linear", "own range": OWN}  # words of earlier links
LINEAR_UP_TO, ROOT_UP_TO = 24, 64  # keys


@dataclass(frozen=True)
class WeightColours:
    """law: how colours grow with weights; is_own: whether they end at the head's largest weight, and not at 1."""

    law: Law
    is_own: bool = False

    def of(self, matrix: Matrix) -> Matrix:
        """A matrix of weights, or of their differences, in these colours."""
        if matrix.scale == "diverging":
            return replace(matrix, law=self.law)
        return replace(matrix, law=self.law, low=0.0, high=self.high(matrix.values, matrix.allowed))

    def high(self, values: np.ndarray, allowed: np.ndarray | None) -> float:
        """The end of the scale. Own ends leave out queries that may read one key alone: its weight is always 1."""
        if not self.is_own:
            return 1.0
        values = np.asarray(values)
        permitted = np.ones(values.shape, bool) if allowed is None else allowed
        counted = permitted & (permitted.sum(-1, keepdims=True) > 1)
        return float(values.max(initial=0.0, where=counted)) or 1.0


def choose_weight_colours(keys: int, width: int | Literal["stretch"] = 190) -> WeightColours:
    """Draw the choice; `keys` is how many keys a query may read."""
    choice = linked(
        st.selectbox,
        "Colours",
        CHOICES,
        key="colours",
        width=width,
        former=FORMER,
        help="How weights are coloured. The colour bar below a matrix names the scale. Numbers on hover are always the "
        "weights themselves.\n\n"
        f"- **automatic**: linear up to {LINEAR_UP_TO} keys, square root up to {ROOT_UP_TO}, logarithmic beyond.\n"
        "- **linear**, **square root**, **logarithmic**: from 0 to 1. The last two tell small weights apart.\n"
        f"- **{OWN}**: linear, and it ends at the largest weight of the head. Queries that may read only one key "
        "are left out, because their weight is always 1.",
    )
    if choice == OWN:
        return WeightColours("linear", is_own=True)
    return WeightColours(telling_law(keys) if choice == CHOICES[0] else choice)


def telling_law(keys: int) -> Law:
    """The scale on which the weights of so many keys are seen."""
    return "linear" if keys <= LINEAR_UP_TO else "square root" if keys <= ROOT_UP_TO else "logarithmic"
