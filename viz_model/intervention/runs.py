"""Two runs that one answer tells apart: their passes, their aligned tokens, and the difference of logits in both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.arguments import of_type, switch, whole_number
from viz_model.errors import VizError
from viz_model.heads.alignment import Alignment, align
from viz_model.heads.comparison import single_token
from viz_model.intervention.batches import (
    RowEdits,
    edited_logits,
    refuse_other_edits,
    refuse_without_prediction,
)
from viz_model.jobs import Tell
from viz_model.model import Model
from viz_model.model.prompts import Prompt
from viz_model.model.trace import Trace

ROUNDING = 1e-5  # a difference by a smaller share of the logits is one that the rounding of float32 makes


@dataclass(frozen=True, eq=False)
class Runs:
    """`origin`, whose values are taken, and `base`, which they are put into; both seen through one part.

    alignment: of the part's tokens, those of the origin first. good, bad: the two answers, as ids. ends: the logit of
    the good one minus that of the bad one, in the base and in the origin. position: in the base, where the answer is.
    is_reverse: whether the origin is the corrupted run.
    """

    model: Model
    origin: Trace
    base: Trace
    alignment: Alignment
    good: int
    bad: int
    ends: tuple[float, float]
    position: int
    is_reverse: bool

    @property
    def part(self) -> str:
        return self.base.part

    def aligned(self, part: str) -> Alignment:
        """That of another part's queries."""
        return align(self.origin.of(part).ids, self.base.of(part).ids)

    def differences(self, edits: Sequence[RowEdits], done: Callable[[int], None]) -> Tensor:
        """logit(good) − logit(bad) (N,) of N passes over the base, each with edits of its own."""
        answers = self.good, self.bad
        logits = edited_logits(self.model, self.base, edits, done, self.position, answers).double()
        return logits[:, 0] - logits[:, 1]


def two_runs(
    model: Model,
    clean: Prompt | Trace,
    corrupted: Prompt | Trace,
    answer: Sequence[int | str],
    *,
    reverse: bool,
    part: str | None,
    position: int,
    tell: Tell,
) -> Runs:
    """The passes over two prompts; the arguments are those of `patch`, and so is what is raised."""
    refuse_without_prediction(of_type("The model", model, Model, "a Model, such as vm.load gives"))
    of_type("tell", tell, Callable, "a function")
    good, bad = _answer(model, answer)
    traces = [prompt if isinstance(prompt, Trace) else model.trace(prompt) for prompt in (clean, corrupted)]
    for trace in traces:
        refuse_other_edits(model, trace)
    part = model.config.self_part if part is None else part
    clean, corrupted = (trace.of(part) for trace in traces)
    places = _answer_places(model, clean, corrupted, position)
    logits = [
        trace.of(model.config.self_part).logits_at(place)[[good, bad]].double()
        for trace, place in zip((clean, corrupted), places, strict=True)
    ]
    of_clean, of_corrupted = ((pair[0] - pair[1]).item() for pair in logits)
    if abs(of_clean - of_corrupted) <= ROUNDING * torch.cat(logits).abs().max().item():
        raise VizError(
            "Both prompts give the same difference between the two answers, so no value can bring an answer back. "
            "Choose other answers, or another prompt."
        )
    if switch("reverse", reverse):
        alignment = align(corrupted.ids, clean.ids)
        return Runs(model, corrupted, clean, alignment, good, bad, (of_clean, of_corrupted), places[0], True)
    alignment = align(clean.ids, corrupted.ids)
    return Runs(model, clean, corrupted, alignment, good, bad, (of_corrupted, of_clean), places[1], False)


def _answer(model: Model, answer: Sequence[int | str]) -> tuple[int, int]:
    if isinstance(answer, str) or not isinstance(answer, Sequence) or len(answer) != 2:
        raise VizError("An answer is two tokens, the good one and the bad one, such as (' old', ' hand').")
    good, bad = (single_token(model, token) if isinstance(token, str) else model.ids([token])[0] for token in answer)
    if good == bad:
        raise VizError("The good and the bad answer are the same token. Choose two.")
    return good, bad


def _answer_places(model: Model, clean: Trace, corrupted: Trace, position: int) -> tuple[int, int]:
    """Where the answer is read in both runs, as positions that belong together."""
    first, second = (trace.of(model.config.self_part) for trace in (clean, corrupted))
    place = whole_number("The position", position)
    if not -first.length <= place < first.length:
        raise VizError(f"There is no position {place}: the first prompt has {first.length} tokens.")
    place %= first.length
    counterpart = dict(align(first.ids, second.ids).pairs).get(place)
    if counterpart is None:
        raise VizError(
            f"The prompts have {first.length} and {second.length} tokens, so only the tokens that both begin with and "
            f"those that both end with can be aligned. Token {place} of the first one, where the answer is read, is "
            "not among them. Choose prompts of equal length, or let both end in the same way."
        )
    return place, counterpart
