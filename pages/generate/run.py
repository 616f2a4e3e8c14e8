"""The reader's generation: its steps as they come, kept through every run of the page, and as pictures."""

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch

import viz_model as vm
from viz_model.model.sampling import Sampling
from viz_model.model.stages import assembled_weights, span, stages
from viz_model.shapes import costs
from viz_ui.components.generation import CandidatePicture, StepPicture
from viz_ui.look.text import milliseconds, number, shown

CANDIDATES = 10

Branches = dict[int, int]  # step number: the id that the reader took there


def read_branches(text: str | None, vocabulary: int) -> Branches:
    """Branches as the address has them, "3:415,7:88". Anything else, and ids that are no token, are left out."""
    found = re.findall(r"(?:^|,)(\d{1,6}):(\d{1,7})(?=,|$)", text or "")
    return {int(step): int(token) for step, token in found if int(token) < vocabulary}


def write_branches(branches: Branches) -> str:
    return ",".join(f"{step}:{token}" for step, token in sorted(branches.items()))


@dataclass
class Run:
    """A generation under way: what makes it, and the steps that there are.

    target: of an encoder-decoder, the text that its decoder begins with, None for none; the prompt is its source.
    problem: why it cannot go on, as a sentence; "" while it can.
    """

    model: vm.Model
    prompt: str
    target: str | None
    sampling: Sampling
    branches: Branches
    steps: list[vm.Step] = field(default_factory=list)
    problem: str = ""
    _wanted: int = 0
    _coming: Iterator[vm.Step] | None = None
    _pictures: dict[int, StepPicture] = field(default_factory=dict)
    _weights: tuple = ()
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def advance(self, wanted: int, seconds: float) -> None:
        """Make steps until there are `wanted`, the text is at its end, or `seconds` have passed (at least one)."""
        until = time.perf_counter() + seconds
        with self._one_at_a_time:  # a click may begin a run of the page before the last one has made its step
            if wanted != self._wanted:
                self._begin(wanted)
            while not self.is_done(wanted):
                self._make_step()
                if time.perf_counter() > until:
                    return

    def _make_step(self) -> None:
        try:
            step = next(self._coming)
        except vm.VizError as error:
            self.problem = str(error)
            return
        except BaseException:
            self._wanted = 0  # the generator has ended; a new one is made when steps are asked for again
            raise
        self._pictures[step.number] = step_picture(step)
        # The stages of the choice are not kept: over a large vocabulary they take megabytes a step.
        self.steps.append(replace(step, sampled=replace(step.sampled)))

    def _begin(self, wanted: int) -> None:
        self._wanted, self.problem, chosen = wanted, "", self.sampling
        self._coming = self.model.generate(
            self.prompt,
            target=self.target,
            max_new_tokens=wanted,
            temperature=chosen.temperature,
            top_k=chosen.top_k,
            top_p=chosen.top_p,
            seed=chosen.seed,
            compare=True,
            forced=self.branches,
            kept=self.steps,
        )

    def is_done(self, wanted: int) -> bool:
        ended = bool(self.steps) and self.steps[-1].is_end
        return len(self.steps) >= wanted or ended or bool(self.problem)

    def is_of(self, model: vm.Model, prompt: str, target: str | None, sampling: Sampling) -> bool:
        return (self.model, self.prompt, self.target, self.sampling) == (model, prompt, target, sampling)

    def with_branches(self, branches: Branches) -> "Run":
        """The run that takes these branches, with all steps before the first one that differs."""
        differing = {step for step, _ in self.branches.items() ^ branches.items()}
        kept = min(differing, default=len(self.steps))
        run = Run(self.model, self.prompt, self.target, self.sampling, branches, self.steps[:kept])
        run._pictures = dict(enumerate(self.pictures(kept)))
        return run

    def branching(self, step: int, token: int | None) -> Branches:
        """The branches with another token at a step, or the drawn one again (None).

        Later ones belong to another text.
        """
        branches = {at: taken for at, taken in self.branches.items() if at < step}
        if token is not None and token != self.steps[step].sampled.token_id:
            branches[step] = token
        return branches

    def pictures(self, count: int) -> list[StepPicture]:
        """The first `count` steps in plain values."""
        return [self._pictures[number] for number in range(min(count, len(self.steps)))]

    def weights(self, count: int, layer: int, head: int, part: str | None = None) -> torch.Tensor:
        """The rows of weights of the first `count` steps as one matrix (T,S); kept until another one is asked for."""
        asked = (count, layer, head, part)
        if self._weights[:1] != (asked,):
            self._weights = (asked, assembled_weights(self.steps[:count], layer, head, part))
        return self._weights[1]


def step_picture(step: vm.Step) -> StepPicture:
    """What the screen shows of a step, whatever the layer and head."""
    sampled = step.sampled
    drawn = sampled.token_id
    after = stages(sampled)
    return StepPicture(
        read=step.read,
        queries=step.queries,
        chosen=step.token_id,
        drawn=drawn,
        drawn_label=shown(step.model.token_bytes([drawn])[0]),
        forced=step.forced,
        fixed=step.fixed,
        greedy=sampled.sampling.greedy,
        draw=sampled.draw,
        span=span(sampled, step.token_id),
        candidates=tuple(
            CandidatePicture(
                token_id=one.token_id,
                label=shown(one.token),
                logit=one.logit,
                scaled=None if sampled.sampling.greedy else float(sampled.scaled[one.token_id]),
                full=one.full_probability,
                by_top_k=bool(sampled.by_top_k[one.token_id]),
                kept=one.kept,
                allowed=one.allowed,
                probability=one.probability,
            )
            for one in step.top(CANDIDATES)
        ),
        left=tuple(stage.left for stage in after),
        held=tuple(stage.probability for stage in after),
        numbers=step_numbers(step),
    )


def step_numbers(step: vm.Step) -> tuple[tuple[str, str, str], ...]:
    """Lines of (what, with the cache, without it); the last is "" where one number holds for both."""
    return (
        ("tokens read", f"{step.queries:,}", f"{step.read:,}"),
        ("FLOPs", short(costs.flops_cached(step)), short(costs.flops_uncached(step))),
        ("time", milliseconds(step.seconds), milliseconds(step.seconds_uncached)),
        ("cache bytes", f"{step.cache.nbytes:,} of {step.cache.allocated_bytes:,}", ""),
        ("by formula", f"{costs.step_cache_bytes(step):,}", ""),
        ("logits differ by", number(step.largest_difference, 2), ""),
    )


def short(flops: int) -> str:
    """With M for millions or G for thousands of millions."""
    return f"{number(flops / 1e9, 3)} G" if flops >= 1e9 else f"{number(flops / 1e6, 3)} M"
