"""The colours that mean something, in one place: the hue of each role and the two scales of cells.

Role hues are Okabe–Ito (safe for colour-blind eyes). A hue as such frames and fills; as small text it would
be too faint on white or too dark on black, so each role also has a variant for text on either background,
at least 4.5 : 1 against Streamlit's page and sidebar colours (WCAG AA; `tests/viz_ui` computes it).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np
from plotly.colors import hex_to_rgb, sequential


@dataclass(frozen=True)
class Role:
    """Three colours of one role, as #rrggbb: the hue itself, and its text variants."""

    hue: str
    on_light: str
    on_dark: str


ROLES = {
    "query": Role("#0072B2", "#0069A3", "#56B4E9"),
    "key": Role("#D55E00", "#AD4B00", "#F2935C"),
    "value": Role("#009E73", "#00724F", "#34C79A"),
    "scores": Role("#CC79A7", "#A03F78", "#E29BC3"),
    "weights": Role("#7B3294", "#7B3294", "#C79BDC"),
    "stream": Role("#7A7A7A", "#5C6068", "#B4B8C0"),
}

# Masked cells, on a light page and on a dark one: a ground and the strokes over it, in greys that no scale has.
MASKED = {"light": ("#DCDFE5", "#A8ADB9"), "dark": ("#23262E", "#4D525D")}

# ColorBrewer RdBu of nine classes, blue below and red above: its ends stay clear of a dark page,
# which the near-black ends of the eleven-class scale do not.
_DIVERGING = (
    *("#2166AC", "#4393C3", "#92C5DE", "#D1E5F0", "#F7F7F7"),
    *("#FDDBC7", "#F4A582", "#D6604D", "#B2182B"),
)


@cache
def sequential_lut() -> np.ndarray:
    """Cividis as (256, 3) uint8, read-only: row 0 is the colour of the low end, row 255 of the high end."""
    return _table(sequential.Cividis)


@cache
def diverging_lut() -> np.ndarray:
    """Blue, near-white at the centre, red, as (256, 3) uint8, read-only."""
    return _table(_DIVERGING)


# How a number's place on a table of colours grows with it. Weights of a long text are small, one of n equal ones is
# 1/n, so on a linear scale from 0 to 1 all of them would have the first colour.
Law = Literal["linear", "square root", "logarithmic"]
LAWS: tuple[Law, ...] = get_args(Law)
ROOT_BELOW, LOGARITHM_BELOW = 0.1, 0.003  # of the largest size: where the middle one is less, see `telling_law`
LEAST = 1e-4  # of the high end: where a logarithmic scale begins


def telling_law(sizes: np.ndarray, high: float) -> Law:
    """How a colour should grow from 0 to `high` for these sizes: where the middle one is far smaller, on a scale on
    which they are told apart."""
    middle = float(np.median(sizes)) if sizes.size else 0.0
    if middle >= ROOT_BELOW * high:
        return "linear"
    return "square root" if middle >= LOGARITHM_BELOW * high else "logarithmic"


def colour_places(values: np.ndarray | float, low: float, high: float, law: Law = "linear") -> np.ndarray:
    """Where values stand on a table of colours: 0 at `low`, 1 at `high`; beyond the ends it is outside of 0 … 1.

    Under the other two laws it is √(v/high), and log(v/(LEAST·high)) / log(1/LEAST), which has its 0 at LEAST·high;
    of a scale around 0, whose low is −high, the two sides are mirrored. `components/shared/cells.js` does the same.
    """
    if law == "linear":
        return (np.asarray(values) - low) / (high - low)
    values = np.asarray(values)
    grown = np.array(values, dtype=np.result_type(values, np.float32))  # one copy, for it may be a large matrix
    np.abs(grown, out=grown)
    grown /= high
    if law == "square root":
        np.sqrt(grown, out=grown)
    else:
        np.maximum(grown, LEAST, out=grown)
        np.log(grown, out=grown)
        grown /= -np.log(LEAST)
        grown += 1
    return grown if low == 0 else (1 + np.sign(values) * grown) / 2


def value_at(place: float, low: float, high: float, law: Law = "linear") -> float:
    """The value whose place on a table of colours that is; at the first colour of a logarithmic scale the largest."""
    if law == "linear":
        return low + place * (high - low)
    grown = place if low == 0 else abs(2 * place - 1)
    if low != 0 and grown == 0:
        return 0.0
    sign = 1 if low == 0 or place >= 0.5 else -1
    return sign * high * (grown**2 if law == "square root" else LEAST ** (1 - grown))


def colour_css() -> str:
    """CSS rules by a component's data-theme: `--query` for frames and fills, `--query-text`, …, and the hatching."""
    light = [f"--{name}: {role.hue}; --{name}-text: {role.on_light};" for name, role in ROLES.items()]
    dark = [f"--{name}: {role.on_dark}; --{name}-text: {role.on_dark};" for name, role in ROLES.items()]
    for rules, (ground, strokes) in zip((light, dark), MASKED.values(), strict=True):
        rules.append(f"--hatch-ground: {ground}; --hatch-line: {strokes};")
    return f"[data-theme] {{ {' '.join(light)} }}\n[data-theme=dark] {{ {' '.join(dark)} }}\n"


def _table(stops: tuple[str, ...] | list[str]) -> np.ndarray:
    """256 colours, linear in sRGB between evenly spaced stops."""
    colours = np.array([hex_to_rgb(stop) for stop in stops], dtype=float)
    places = np.linspace(0, len(stops) - 1, 256)
    channels = [np.interp(places, np.arange(len(stops)), channel) for channel in colours.T]
    table = np.stack(channels, axis=1).round().astype(np.uint8)
    table.setflags(write=False)
    return table
