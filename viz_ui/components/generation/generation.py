"""A generation step by step: player, tokens, the growing cache, the new query's row, and how the token was drawn.

All steps travel at once, so playing and stepping ask nobody; Python is told of the step when the reader rests on it.

    generation(pictures, labels, prompt_length=5, keys=k, values=v, weights=a, step=3, key="generation",
               on_step=lambda number: ..., on_branch=lambda number, token: ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import streamlit as st

from viz_ui.components.shared.events import event_value
from viz_ui.components.shared.packing import pack
from viz_ui.components.shared.serving import component
from viz_ui.look.colours import diverging_lut, sequential_lut

_component = component(
    "viz.generation",
    html='<div class="generation" role="group" aria-label="Generation, step by step"></div>',
    script="generation/generation.js",
    styles=("shared/player.css", "generation/generation.css", "generation/candidates.css"),
)


@dataclass(frozen=True)
class CandidatePicture:
    """A token that might be next, at every stage; `scaled` is None in a greedy step, which scales nothing.

    allowed: whether the model's files let it be written here, whatever its logit is.
    """

    token_id: int
    label: str
    logit: float
    scaled: float | None
    full: float
    by_top_k: bool
    kept: bool
    allowed: bool
    probability: float


@dataclass(frozen=True)
class StepPicture:
    """One step in plain values.

    read: S, the tokens that it had for keys; queries: how many of them it read in this pass.
    chosen, drawn: ids; they differ where the reader took another token than chance (forced), or the model
    always writes another one there (fixed). draw: u in [0,1).
    span: where the chosen token lies on the running sum of the probabilities.
    left, held: after softmax, top-k and top-p, how many tokens are left and what probability they had.
    numbers: lines of (what, with the cache, without it), as texts.
    """

    read: int
    queries: int
    chosen: int
    drawn: int
    drawn_label: str
    forced: bool
    fixed: bool
    greedy: bool
    draw: float
    span: tuple[float, float]
    candidates: tuple[CandidatePicture, ...]
    left: tuple[int, int, int]
    held: tuple[float, float, float]
    numbers: tuple[tuple[str, str, str], ...]


def generation(
    steps: Sequence[StepPicture],
    labels: Sequence[str],
    *,
    prompt_length: int,
    keys: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray,
    step: int,
    asked: int,
    running: bool,
    head_name: str,
    sampling: dict[str, float],
    key: str,
    source_labels: Sequence[str] = (),
    of_source: bool = False,
    on_step: Callable[[int], None] | None = None,
    on_branch: Callable[[int, int | None], None] | None = None,
) -> None:
    """Draw the steps; `step` is the one to look at, -1 the last.

    labels: one a token of prompt and generation, S + 1 of them: the last one was chosen, but not yet read.
    keys, values: (S,D) of the chosen layer and head; weights: (S,S), row i what query i reads (0 above i).
    source_labels: of an encoder-decoder, one a token of the source; of_source: whether keys, values and weights are
    those of cross-attention, (S,D) and (T,S) with S the source's: filled by the first pass, and fixed.
    asked, running: how many steps there shall be, and whether they are still being made.
    head_name: what is looked at, in words. sampling: temperature, top_k, top_p, seed, vocabulary (V).
    on_step: called with the number of the step that the reader rests on, -1 when it is the last.
    on_branch: called with a step's number and the id that the reader takes there; None undoes that.

    Raises ValueError where shapes do not fit.
    """

    def told(event: str, handler: Callable | None) -> Callable[[], None]:
        def changed() -> None:
            value = checked(event_value(key, event), event, steps)
            if value is not None and handler is not None:
                *arguments, st.session_state[answered] = value
                handler(*arguments)

        return changed

    answered = f"{key}_answered"  # the number of the last event that was taken: keys can be faster than answers
    data = pack_generation(
        steps,
        labels,
        prompt_length=prompt_length,
        keys=keys,
        values=values,
        weights=weights,
        step=step,
        asked=asked,
        running=running,
        head_name=head_name,
        sampling=sampling,
        source_labels=source_labels,
        of_source=of_source,
        answered=st.session_state.get(answered, 0),
    )
    _component(data=data, key=key, on_step_change=told("step", on_step), on_branch_change=told("branch", on_branch))


def pack_generation(
    steps: Sequence[StepPicture],
    labels: Sequence[str],
    *,
    keys: np.ndarray,
    values: np.ndarray,
    weights: np.ndarray,
    step: int,
    source_labels: Sequence[str] = (),
    of_source: bool = False,
    **header,
) -> bytes:
    """The blob that the script draws from: K and V as (D,S), the rows of A, the colours.

    Rows end with the diagonal where a text reads itself.
    """
    length = len(labels) - 1
    columns = len(source_labels) if of_source else length
    if not steps or length != steps[-1].read:
        raise ValueError(f"{len(steps)} steps do not end with {len(labels)} labels.")
    if keys.shape != values.shape or len(keys) != columns or weights.shape != (length, columns):
        raise ValueError(f"Of {length} and {columns} tokens: K {keys.shape}, V {values.shape}, A {weights.shape}.")
    if not -1 <= step < len(steps):
        raise ValueError(f"There is no step {step} among {len(steps)}.")
    header |= {
        "labels": list(labels),
        "source": list(source_labels),
        "of_source": of_source,
        "step": len(steps) - 1 if step == -1 else step,
        "width": keys.shape[1],
        "ends": [float(np.abs(array).max(initial=0.0)) or 1.0 for array in (keys, values)],
        "steps": [asdict(picture) for picture in steps],
    }
    rows = weights if of_source else weights[np.tril_indices(length)]
    arrays = [np.asarray(array, dtype=np.float32) for array in (keys.T, values.T, rows)]
    return pack(header, *arrays, sequential_lut(), diverging_lut())


def checked(value, event: str, steps: Sequence[StepPicture]) -> tuple[int, int | None, int] | tuple[int, int] | None:
    """The event of a visitor's browser as numbers, or None for anything that it cannot honestly say.

    "step": [step or -1, number of the event]; "branch": [step, token id or None, number of the event].
    """
    if not isinstance(value, list) or len(value) != {"step": 2, "branch": 3}[event]:
        return None
    if any(type(number) is not int for number in value if number is not None):
        return None
    step, *token, count = value
    if step is None or count is None or count < 1 or not (-1 if event == "step" else 0) <= step < len(steps):
        return None
    if event == "branch" and token[0] not in (None, *(one.token_id for one in steps[step].candidates)):
        return None
    return tuple(value)
