"""What training asks of every position: its target, the loss there, and how far up the model had the target.

A row of T tokens is its own exercise: the target of a position is the token after it, and under the causal mask one
pass answers all T − 1 questions (Radford et al. 2018, "Improving Language Understanding", eq. 1; given the right tokens
so far: Williams and Zipser 1989). A model that reads in both directions would look its targets up, so tokens are hidden
from it instead (Devlin et al. 2019, "BERT", §3.1).
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from viz_model.errors import PromptError, VizError
from viz_model.jobs import Tell, untold
from viz_model.model import Model
from viz_model.model.trace import Trace
from viz_model.training.data import IGNORED, hide
from viz_model.transformer.cache import KVCache

AT_ONCE = 64  # positions that are unembedded together: over a large vocabulary logits are dear


@dataclass(frozen=True, eq=False)
class Targets:
    """N questions and their answers, each (N,).

    positions: where in the row a token was asked for. ids: the tokens that were right. losses: −ln of their
    probabilities, in nats. ranks: 1 for a target that was the likeliest token of all. best: what was the likeliest.
    """

    positions: Tensor
    ids: Tensor
    losses: Tensor
    ranks: Tensor
    best: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def loss(self) -> float:
        """Their mean, which training makes smaller, in nats."""
        return self.losses.mean().item()


def next_token_targets(trace: Trace) -> Targets:
    """Of every position but the last the token after it; of an encoder-decoder's trace, in what the decoder reads.

    Raises VizError where the model does not predict next tokens, and PromptError for a row of one token.
    """
    if trace.config.layout == "encoder-only":
        raise VizError("This model reads in both directions, so it predicts hidden tokens and not next tokens.")
    trace = trace.of(trace.config.self_part)
    if trace.length < 2:
        raise PromptError("A prompt of one token has no token after it to predict. Type a longer prompt.")
    return asked(trace, torch.arange(trace.length - 1), torch.tensor(trace.ids[1:]))


def hidden_token_targets(model: Model, prompt: str | Sequence[int], seed: int) -> tuple[Trace, Targets]:
    """Hide tokens of the prompt by chance, as in training, run it, and ask for them; at least one is hidden.

    Gives the trace of what the model read. Raises VizError where it has no token to hide behind.
    """
    mask_token = model.mask_token
    if model.config.layout != "encoder-only" or mask_token is None:
        raise VizError(f"{model.name} has no mask token, so nothing can be hidden from it.")
    ids = np.array(model.encode(prompt))
    for attempt in range(1000):
        batch = hide(ids[None], mask_token, np.random.default_rng((seed, attempt)))
        chosen = batch.targets[0] != IGNORED
        if chosen.any():
            break
    trace = model.trace(batch.ids[0].tolist())
    positions = torch.from_numpy(np.flatnonzero(chosen))
    return trace, asked(trace, positions, torch.from_numpy(ids[chosen]))


@torch.inference_mode()
def asked(trace: Trace, positions: Tensor, ids: Tensor) -> Targets:
    """How the pass answers: is the token at `positions` (N,) the one in `ids` (N,)?"""
    stream, found = trace[trace.site("final_norm")], []
    for here, right in zip(positions.split(AT_ONCE), ids.split(AT_ONCE), strict=True):
        logits = trace.host.unembed(stream[here]).double()  # (N,C) -> (N,V)
        losses = F.cross_entropy(logits, right, reduction="none")
        ranks = 1 + (logits > logits.gather(1, right[:, None])).sum(-1)
        found.append((losses, ranks, logits.argmax(-1)))
    losses, ranks, best = (torch.cat(parts) for parts in zip(*found, strict=True))
    return Targets(positions, ids, losses, ranks, best)


@torch.inference_mode()
def expected(trace: Trace, position: int, count: int = 8) -> list[tuple[int, float]]:
    """The likeliest tokens at a position, each with its probability."""
    probabilities = trace.logits_at(position).double().softmax(-1)
    top = probabilities.topk(min(count, len(probabilities)))
    return list(zip(top.indices.tolist(), top.values.tolist(), strict=True))


@dataclass(frozen=True)
class OneStep:
    """One decode step over the cache: the loss of the token that came next (nats), and how long the step took."""

    loss: float
    seconds: float


@torch.inference_mode()
def step_by_step(model: Model, ids: Sequence[int]) -> Iterator[OneStep]:
    """Read the row as decoding would, a token a step, each on its own: T − 1 steps for the T − 1 losses of one pass.

    Raises VizError, at the first step, for a layout that has no cache.
    """
    cache = KVCache(model.config, len(ids))
    for now, after in pairwise(ids):
        start = time.perf_counter()
        logits = model.transformer(torch.tensor([[now]]), cache=cache)[0]  # (1,1) -> (V,)
        seconds = time.perf_counter() - start
        yield OneStep(F.cross_entropy(logits.double(), torch.tensor(after)).item(), seconds)


@dataclass(frozen=True)
class Comparison:
    """A row read in one pass and in steps: seconds of both, how many steps, and how far their losses differ."""

    pass_seconds: float
    step_seconds: float
    steps: int
    largest_difference: float


def compare_with_steps(model: Model, trace: Trace, tell: Tell = untold) -> Comparison:
    """Read the row of a trace under the model's own mask both ways; tell: told each step, of how many."""
    losses, seconds, row = [], 0.0, trace.ids
    one_pass_seconds(model, row[:-1])  # the first pass of a length is slower
    pass_seconds = one_pass_seconds(model, row[:-1])
    for step in step_by_step(model, row):
        losses.append(step.loss)
        seconds += step.seconds
        tell(len(losses), len(row) - 1)
    difference = (torch.tensor(losses, dtype=torch.float64) - next_token_targets(trace).losses).abs().max().item()
    return Comparison(pass_seconds, seconds, len(losses), difference)


def one_pass_seconds(model: Model, ids: Sequence[int]) -> float:
    """How long one pass over the row takes, with the logits of all its positions."""
    start = time.perf_counter()
    with torch.inference_mode():
        model.transformer(torch.tensor([list(ids)]), logits="all")
    return time.perf_counter() - start
