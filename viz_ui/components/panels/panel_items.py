"""What the component `panels` can show, as frozen records that refuse what cannot be drawn.

These are developers' errors, so they are ValueErrors: a page that builds its items rightly never meets one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from viz_ui.look.colours import LAWS, ROLES, Law


@dataclass(frozen=True, eq=False)
class Matrix:
    """One matrix (R, C) as a picture with labels, axis names and a colour bar of its own.

    values: finite floats (R, C); −inf is allowed where `allowed` is False. None with `same_as`.
    row_labels, column_labels: one ready-made string a row or column, e.g. "3 ·time".
    row_axis, column_axis: what a row or column is ("query", "key", "feature").
    law: how the colour grows with the number, see `colours.colour_places`; all but "linear" begin at 0 or are centred
        on it.
    low, high: ends of the colour scale. Left out: 0 and 1 on the sequential scale, plus and minus the
        largest absolute value on the diverging one, whose ends must be opposite.
    allowed: booleans (R, C); False is a masked cell, hatched, never the colour of 0.
    ramp: whether it has a colour bar; a mask M, whose permitted cells are all 0, needs none.
    mark_zeros: permitted cells that are exactly 0 are dotted and say so, apart from very small numbers.
    same_as, factor: draw the values of that other matrix times `factor`; they travel once.
    rows_are_queries, rows_are_keys, columns_are_keys: how a selection (query i, key j) falls on it.
    """

    name: str
    title: str
    values: np.ndarray | None
    row_labels: Sequence[str]
    column_labels: Sequence[str]
    row_axis: str = "query"
    column_axis: str = "key"
    caption: str = ""
    role: str = "scores"
    scale: Literal["sequential", "diverging"] = "sequential"
    law: Law = "linear"
    low: float | None = None
    high: float | None = None
    allowed: np.ndarray | None = None
    same_as: str | None = None
    factor: float = 1.0
    ramp: bool = True
    mark_zeros: bool = False
    rows_are_queries: bool = False
    rows_are_keys: bool = False
    columns_are_keys: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.row_labels), len(self.column_labels)

    @property
    def row_index(self) -> str:
        """What the number of a row means to the selection: "query", "key" or ""."""
        return "query" if self.rows_are_queries else "key" if self.rows_are_keys else ""

    @property
    def column_index(self) -> str:
        return "key" if self.columns_are_keys else ""

    def __post_init__(self) -> None:
        self._require(min(self.shape) > 0, f"has no cells: its shape is {self.shape}")
        self._require(self.role in ROLES, f"has the unknown role {self.role!r}; there are {', '.join(ROLES)}")
        self._require(self.scale in ("sequential", "diverging"), f"has the unknown scale {self.scale!r}")
        self._require(self.law in LAWS, f"has the unknown law {self.law!r}; there are {', '.join(LAWS)}")
        self._require((self.values is None) != (self.same_as is None), "needs either values or same_as")
        self._require(
            self.rows_are_queries + self.rows_are_keys + self.columns_are_keys < 2
            or (self.rows_are_queries and self.columns_are_keys and not self.rows_are_keys),
            "has rows that are queries and keys at once, or keys on both axes",
        )
        self._require(bool(np.isfinite(self.factor)), "has a factor that is not finite")
        if self.allowed is not None:
            self._require(
                np.shape(self.allowed) == self.shape and np.asarray(self.allowed).dtype == bool,
                f"needs allowed as booleans of shape {self.shape}, not {np.shape(self.allowed)}",
            )
        if self.values is not None:
            self._require(
                np.shape(self.values) == self.shape,
                f"has values of shape {np.shape(self.values)}, but labels for {self.shape}",
            )
            self._require_finite()

    def _require_finite(self) -> None:
        values = np.asarray(self.values, dtype=np.float32)
        fine = np.isfinite(values)
        if self.allowed is not None:
            fine |= ~self.allowed & np.isneginf(values)
        row, column = np.unravel_index(np.argmin(fine), fine.shape)
        self._require(bool(fine.all()), f"has {values[row, column]} in the permitted cell ({row}, {column})")

    def _require(self, holds: bool, fault: str) -> None:
        if not holds:
            raise ValueError(f"Matrix {self.name!r} {fault}.")


@dataclass(frozen=True)
class Lines:
    """Lines from each query to each key of the matrix panel named `of`, thick and opaque by its value."""

    name: str
    title: str
    of: str = "weights"


@dataclass(frozen=True)
class Bars:
    """The current query's row of the matrix panel named `of`, one bar a key."""

    name: str
    title: str
    of: str = "weights"


@dataclass(frozen=True)
class Symbol:
    """An operator between two panels: "→", "÷ √D", "+ M", "softmax", "· V"; "\\n" begins a new line."""

    text: str


Item = Matrix | Lines | Bars | Symbol


def check_items(items: Sequence[Item]) -> dict[str, Matrix]:
    """The matrices by name. Raises ValueError where items do not fit together."""
    names = [item.name for item in items if not isinstance(item, Symbol)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"Two panels have the same name: {', '.join(twice)}.")
    matrices = {item.name: item for item in items if isinstance(item, Matrix)}
    for item in items:
        if isinstance(item, Matrix) and item.same_as is not None:
            _check_source(item, matrices.get(item.same_as))
        if isinstance(item, Lines | Bars):
            of = matrices.get(item.of)
            if of is None or not (of.rows_are_queries and of.columns_are_keys):
                raise ValueError(f"{item.name!r} needs a matrix of queries by keys; {item.of!r} is none.")
    return matrices


def _check_source(item: Matrix, source: Matrix | None) -> None:
    if source is None or source.values is None:
        raise ValueError(f"Matrix {item.name!r} is the same as {item.same_as!r}, which has no values here.")
    if source.shape != item.shape:
        raise ValueError(f"Matrix {item.name!r} has shape {item.shape}, its source {source.shape}.")
    if source.allowed is not None and (item.allowed is None or (item.allowed & ~source.allowed).any()):
        raise ValueError(f"Matrix {item.name!r} permits cells that its source {item.same_as!r} has masked.")


def with_ends(item: Matrix, source: Matrix) -> Matrix:
    """`item` with both ends of its colour scale; `source` is the matrix that has the values."""
    if item.low is not None and item.high is not None:
        low, high = float(item.low), float(item.high)
    elif item.scale == "sequential":
        low, high = 0.0, 1.0
    else:
        values = np.asarray(source.values, dtype=np.float64) * item.factor
        permitted = values if item.allowed is None else values[item.allowed]
        high = float(np.abs(permitted).max(initial=0.0)) or 1.0  # all zero: any scale shows the middle
        low = -high
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"Matrix {item.name!r} has a colour scale from {low} to {high}.")
    if item.scale == "diverging" and low != -high:
        raise ValueError(f"Matrix {item.name!r} has a diverging scale not centred on 0: {low} to {high}.")
    if item.law != "linear" and low not in (0, -high):
        raise ValueError(f"Matrix {item.name!r} has a {item.law} scale that does not begin at 0: {low} to {high}.")
    return replace(item, low=low, high=high)
