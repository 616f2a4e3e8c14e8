"""Texts longer than a model was trained on: the loss by position, what the weights do there, and other angles.

Rotary angles and sinusoids exist for every position; learned rows end. Positions divided by a factor: Chen et al. 2023,
"Extending Context Window of Large Language Models via Positional Interpolation", eq. 4; a larger base, which leaves the
fast pairs nearly as they are: Peng et al. 2023, "YaRN", §3.1 ("NTK-aware").
"""

import copy
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from viz_model.errors import VizError
from viz_model.heads.measures import previous_token_share
from viz_model.jobs import Tell, untold
from viz_model.model import Model
from viz_model.model.trace import Trace
from viz_model.positions.schemes import with_config
from viz_model.transformer.hooks import Edit, edit
from viz_model.transformer.positions import Rotation

DIVIDED, LARGER_BASE = "divided positions", "larger base"


def longer(model: Model, length: int) -> Model:
    """The model with the same weights (shared, not copied), reading up to `length` tokens.

    Raises VizError where positions are rows that were learned: there are no further ones.
    """
    config = model.config
    if config.position not in ("rotary", "sinusoidal", "none"):
        last = config.context_length - 1
        raise VizError(f"Position {last + 1} has no row, because {model.name} learned only rows 0 to {last}.")
    wanted = replace(config, context_length=length)
    if config.is_skeleton:
        return with_config(model, wanted)
    variant = copy.copy(model)
    variant.transformer = model.transformer.sharing_copy()
    variant.transformer.config = wanted
    return variant


@dataclass(frozen=True)
class Stretch:
    """Other angles: θ/factor ("divided positions"), or θ of a larger base.

    The larger base is b · factor^(n/(n−2)), n the numbers of a head that turn: so the slowest pair turns as if
    positions were divided, and the fastest as trained.
    """

    way: str
    factor: float

    def of(self, rotation: Rotation) -> Tensor:
        """θ of each pair, radians a position: (n/2,), float64."""
        theta, pairs = rotation.theta, len(rotation.frequencies)
        if self.way == DIVIDED:
            return theta / self.factor
        return theta * self.factor ** (-torch.arange(pairs, dtype=torch.float64) / max(pairs - 1, 0.5))


def stretched(model: Model, length: int, stretch: Stretch) -> dict[str, Edit]:
    """Edits under which token m is turned by m times other frequencies in every layer that turns queries and keys.

    q and k, turned already, turn on by the rest. Raises VizError for a model whose pairs are not known.
    """
    config, edits = model.config, {}
    if config.rotary_pairs is None or config.position != "rotary":
        raise VizError("Only a model whose rotary pairs are known can have its angles stretched. Choose such a model.")
    for layer in range(config.n_layers):
        name = config.attention_name(config.self_part, layer)
        if (rotation := model.transformer.equation(name).rotation) is not None:
            on = Rotation(tuple((stretch.of(rotation) - rotation.theta).tolist()), rotation.pairs)
            turn = partial(on.turn, positions=torch.arange(length))
            edits |= {f"{name}.q": turn, f"{name}.k": turn}
    return edits


@dataclass(frozen=True, eq=False)
class Reading:
    """What reading some windows of T tokens gave, by position.

    losses: cross-entropy of the token after each position, in nats, (n,T). Of the first window: previous, the weight
    on the token before, of one head, (T,), NaN at position 0; far, the weight on keys at distances that no text of
    the trained length has, mean of all heads, (T,).
    """

    losses: Tensor
    previous: Tensor
    far: Tensor


@torch.inference_mode()
def read(
    model: Model,
    rows: Tensor,
    head: tuple[int, int],
    stretch: Stretch | None = None,
    tell: Tell = untold,
) -> Reading:
    """Read windows (n,T+1) of any length, each as one text; the last token of each is only predicted.

    head: layer and head whose weight on the token before is told. stretch: other angles than the model's own.
    tell: told before each window how many are read, of how many.
    """
    length = rows.shape[1] - 1
    reader = longer(model, length)
    edits = {} if stretch is None else stretched(model, length, stretch)
    losses, first = [], None
    for n, row in enumerate(rows):
        tell(n, len(rows))
        with edit(edits):
            trace = reader.trace(row[:-1].tolist(), stored_weights_bytes=0)
        losses.append(_losses(reader, trace, row[1:]))
        if first is None:
            first = _weights(trace, head, model.config.context_length)
    tell(len(rows), len(rows))
    return Reading(torch.stack(losses), *first)


@torch.inference_mode()
def read_restarting(model: Model, rows: Tensor, tell: Tell = untold) -> Tensor:
    """The same losses (n,T) of windows (n,T+1) read in pieces of the trained length, which overlap by half.

    Every token is predicted once, after the first piece with at least half a piece before it: positions are all
    trained ones, so what changes along a window is the text alone.
    """
    piece, length = model.config.context_length, rows.shape[1] - 1
    if length <= piece:
        starts = [0]
    else:
        starts = [*range(0, length - piece, (piece + 1) // 2), length - piece]
    losses = torch.zeros(len(rows), length)
    for n, row in enumerate(rows):
        tell(n, len(rows))
        done = 0
        for start in starts:
            end = min(start + piece, length)
            trace = model.trace(row[start:end].tolist(), stored_weights_bytes=0)
            losses[n, done:end] = _losses(model, trace, row[start + 1 : end + 1])[done - start :]
            done = end
    tell(len(rows), len(rows))
    return losses


@torch.inference_mode()
def previous_token_head(model: Model, row: Tensor) -> tuple[int, int]:
    """Layer and head with most weight on the token before, on a text (T,), of which the trained length is read."""
    trace = model.trace(row[: model.config.context_length].tolist(), stored_weights_bytes=0)
    shares = {
        (layer, head): previous_token_share(trace.weights(layer, head)).item()
        for layer in range(trace.n_layers)
        for head in range(model.config.n_heads)
    }
    return max(shares, key=shares.get)


def binned(values: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Means over runs of `size` positions and over all windows, (…,T) -> (bins,), and the middle of each run, (bins,).

    The last run may be shorter; NaN is left out.
    """
    runs = values.reshape(-1, values.shape[-1]).split(size, -1)
    starts = torch.arange(len(runs)) * size
    widths = torch.tensor([run.shape[-1] for run in runs])
    return torch.stack([run.nanmean() for run in runs]), starts + (widths - 1) / 2


def _losses(model: Model, trace: Trace, targets: Tensor) -> Tensor:
    """Cross-entropy of the token after each position: (T,)."""
    logits = model.transformer.unembed(trace["final_norm"])  # (T,C) -> (T,V)
    return F.cross_entropy(logits, targets, reduction="none")


def _weights(trace: Trace, head: tuple[int, int], trained: int) -> tuple[Tensor, Tensor]:
    """`previous` and `far` of `Reading`, one head at a time."""
    positions = torch.arange(trace.length)
    is_far = positions[:, None] - positions >= trained  # (T,S)
    far, previous = torch.zeros(trace.length), torch.full((trace.length,), torch.nan)
    for layer in range(trace.n_layers):
        for number in range(trace.config.n_heads):
            weights = trace.weights(layer, number)
            far += (weights * is_far).sum(-1)
            if (layer, number) == head:
                previous[1:] = weights.diagonal(-1)
    return previous, far / (trace.n_layers * trace.config.n_heads)
