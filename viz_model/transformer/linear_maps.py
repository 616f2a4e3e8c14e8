"""What a block does to its stream, map by map, and what each map is once the norms are frozen: affine.

A norm divides by what the whole vector is. With that number taken from the pass, what comes out of a sum of parts is
the sum of what comes out of each part, and a constant (Elhage et al. 2021, "A Mathematical Framework for Transformer
Circuits", "Handling Layer Normalization"). An activation, too, is a factor of each number once it is frozen. All in
float64.

n positions, C model width, A parts: parts (A,n,C) add up to what enters (n,C); the last part holds what is constant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call

from viz_model.errors import VizError
from viz_model.transformer.hooks import unwatched
from viz_model.transformer.positions import Rotation

PROBE = 1e4  # far above the epsilon of any norm


class Map(Protocol):
    """A step of a block."""

    def of(self, entering: Tensor) -> Tensor:
        """What comes out in the pass: (n,·) -> (n,·)."""

    def of_parts(self, entering: Tensor, parts: Tensor) -> Tensor:
        """What comes out of each part (A,n,·), with the norm frozen at what enters in the pass."""

    def linear(self, rows: Tensor) -> Tensor:
        """What comes out of rows (n,·) without anything constant, and of a norm without its divisor.

        Raises VizError for a step that is nothing without a pass.
        """


Maps = tuple[Map, ...]


def carried(maps: Sequence[Map], parts: Tensor) -> Tensor:
    """Parts (A,n,·) through one map after the other; they still add up to what comes out."""
    entering = parts.sum(0)
    for step in maps:
        parts = step.of_parts(entering, parts)
        entering = step.of(entering)
    return parts


def through(maps: Sequence[Map], entering: Tensor) -> Tensor:
    """What comes out behind all maps."""
    for step in maps:
        entering = step.of(entering)
    return entering


def linear(maps: Sequence[Map], rows: Tensor) -> Tensor:
    """Rows (n,·) through all maps without biases and divisors of norms: what the weights alone say of them.

    With rows of the identity it is the matrix of all maps together. A frozen divisor is a positive number for each
    position (Elhage et al. 2021, "Handling Layer Normalization"), so no sign depends on it.
    """
    for step in maps:
        rows = step.linear(rows)
    return rows


def drawn_back(maps: Sequence[Map], entering: Tensor, reading: Tensor) -> Tensor:
    """A reading of what comes out behind all maps, reading·out, as one of what enters: (n,·) -> (n,·).

    This is the transpose of `carried`: for a part p, drawn_back(…, reading)·p is what p adds to reading·out. What is
    constant adds the same whatever enters, and is no part of it.
    """
    entered = []
    for step in maps:
        entered.append(entering)
        entering = step.of(entering)
    with torch.inference_mode(False), torch.enable_grad():
        for step, known in zip(reversed(maps), reversed(entered), strict=True):
            parts = torch.zeros(2, *known.shape, dtype=known.dtype, requires_grad=True)  # the last: constants
            behind = step.of_parts(known.clone(), parts)[0]
            [drawn] = torch.autograd.grad(behind, parts, reading.clone())
            reading = drawn[0]
    return reading


def as_in_the_pass(maps: Sequence["Norm | Product"], entering: Tensor) -> Tensor:
    """What comes out behind all maps, in the precision of the model: to the last digit what the pass computes."""
    with unwatched():
        for step in maps:
            entering = step.module(entering)
    return entering


def constant_last(parts: Tensor, constant: Tensor) -> Tensor:
    """The same parts with a constant (n,·) added to the last one."""
    return torch.cat((parts[:-1], parts[-1:] + constant))


@dataclass(frozen=True)
class Product:
    """A product with a learned matrix, and its bias where it has one."""

    module: nn.Module

    def of(self, entering: Tensor) -> Tensor:
        return in_float64(self.module, entering)

    def of_parts(self, entering: Tensor, parts: Tensor) -> Tensor:
        bias = self.of(torch.zeros_like(entering))
        return constant_last(self.of(parts) - bias, bias)

    def linear(self, rows: Tensor) -> Tensor:
        return self.of(rows) - self.of(torch.zeros_like(rows[:1]))


@dataclass(frozen=True)
class Norm:
    """A layer norm (Ba et al. 2016) or an RMS norm (Zhang and Sennrich 2019) over the last axis."""

    module: nn.Module

    def of(self, entering: Tensor) -> Tensor:
        return in_float64(self.module, entering)

    def of_parts(self, entering: Tensor, parts: Tensor) -> Tensor:
        gain, bias, is_centred = self._learned(entering.shape[1:])
        varying = gain * _centred(entering, is_centred)
        square = (varying * varying).sum(-1, keepdim=True)
        frozen = ((self.of(entering) - bias) * varying).sum(-1, keepdim=True) / square.clamp_min(1e-300)
        return constant_last(gain * _centred(parts, is_centred) * frozen, bias.expand_as(entering))

    def linear(self, rows: Tensor) -> Tensor:
        gain, _, is_centred = self._learned(rows.shape[1:])
        return gain * _centred(rows, is_centred)

    def _learned(self, shape: torch.Size) -> tuple[Tensor, Tensor, bool]:
        """Gain and bias, each of the shape of one position, and whether the mean is taken away: by what the module
        makes of a large vector whose mean is 0, of its opposite, and of both with a constant added."""
        probe = _without_mean(shape)
        up, down, moved = self.of(PROBE * torch.stack((probe, -probe, probe + 1)))
        length = probe.square().mean(-1, keepdim=True).sqrt()
        is_centred = torch.allclose(moved, up, atol=1e-5, rtol=1e-5)
        return (up - down) / 2 * length / probe, (up + down) / 2, is_centred


@dataclass(frozen=True)
class Activation:
    """φ of each number x, where φ(0) = 0. Frozen, it multiplies each number with what it did in the pass, φ(x)/x."""

    way: Callable[[Tensor], Tensor]

    def of(self, entering: Tensor) -> Tensor:
        return self.way(entering)

    def of_parts(self, entering: Tensor, parts: Tensor) -> Tensor:
        return parts * torch.where(entering == 0, 0.0, self.way(entering) / entering)

    def linear(self, rows: Tensor) -> Tensor:
        raise VizError("What an activation makes of a vector depends on the vector: the weights alone do not say it.")


@dataclass(frozen=True)
class Scaled:
    """What comes in, multiplied with a number of the model's own."""

    factor: float

    def of(self, entering: Tensor) -> Tensor:
        return entering * self.factor

    def of_parts(self, entering: Tensor, parts: Tensor) -> Tensor:
        return parts * self.factor

    def linear(self, rows: Tensor) -> Tensor:
        return rows * self.factor


@dataclass(frozen=True)
class Rearranged:
    """The same numbers in another shape, such as heads put apart; `way` takes (B,n,·)."""

    way: Callable[[Tensor], Tensor]

    def of(self, entering: Tensor) -> Tensor:
        return self.way(entering[None])[0]

    def of_parts(self, entering: Tensor, parts: Tensor) -> Tensor:
        return self.way(parts)

    def linear(self, rows: Tensor) -> Tensor:
        return self.of(rows)


@dataclass(frozen=True)
class AttentionMaps:
    """Of one attention.

    read: from the stream to what queries are made of; keys and values, too, but for cross-attention, where they are
    made of the encoder output. query, key, value: from that to (heads,n,D), before queries and keys are turned by their
    position. output: from heads
    side by side (n,H·D) to what is added to the stream. after: from the sum to the stream. None: it is no such map.
    """

    read: Maps = ()
    query: Maps | None = None
    key: Maps | None = None
    value: Maps | None = None
    output: Maps | None = None
    after: Maps = ()


@dataclass(frozen=True)
class BlockMaps:
    """Of one block. has_feed_forward: whether there is such a half; adds: whether its halves are known to do nothing
    but add to the stream, and go through their maps `after`. after: from the stream with what that half gave to
    the stream (post-norm). is_parallel: whether both halves read the stream as it came in (GPT-J)."""

    attn: AttentionMaps
    cross: AttentionMaps | None = None
    has_feed_forward: bool = True
    adds: bool = True
    after: Maps = ()
    is_parallel: bool = False


@dataclass(frozen=True, eq=False)
class StackMaps:
    """tokens: from the row of a token in the table to what is added up for it; None where the stream begins otherwise.
    positions: the rows (N,C) that are added by position; None where there are none. embedding: from the sum of the
    embeddings to the stream of the first block. final: from the stream behind the last block to the final hidden state;
    None where that is no such map. unembedding: from there to what is multiplied with the unembedding's rows (nothing
    but in BERT and its kin)."""

    tokens: Maps | None = ()
    positions: Tensor | None = None
    embedding: Maps = ()
    final: Maps | None = ()
    unembedding: Maps = ()


def turned(heads: Tensor, rotation: Rotation | None, positions: Tensor) -> Tensor:
    """(…,n,D) turned by their positions (n,), where an attention does so."""
    return heads if rotation is None else rotation.turn(heads, positions)


def in_float64(module: nn.Module, entering: Tensor) -> Tensor:
    """What a module gives in float64, without a change of its own weights."""
    weights = {name: tensor.double() for name, tensor in module.named_parameters()}
    with unwatched():  # it is no pass
        return functional_call(module, weights, (entering.double(),)).double()


def _without_mean(shape: torch.Size) -> Tensor:
    """1, −1, 1, −1, … along the last axis; of an odd length with 1, 1, −2 at its end: no number is 0, their sum is."""
    row = torch.ones(shape[-1], dtype=torch.float64)
    row[1::2] = -1.0
    if shape[-1] % 2:
        row[-3:] = torch.tensor([1.0, 1.0, -2.0])[-shape[-1] :]
    return row.expand(shape)


def _centred(x: Tensor, is_centred: bool) -> Tensor:
    return x - x.mean(-1, keepdim=True) if is_centred else x
