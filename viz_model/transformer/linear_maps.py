"""What a block does to its stream, map by map, and what each map is once the norms are frozen: affine.

A norm divides by what the whole vector is. With that number taken from the pass, what comes out of a sum of parts is
the sum of what comes out of each part, and a constant (Elhage et al. 2021, "A Mathematical Framework for Transformer
Circuits", "Handling Layer Normalization"). An activation, too, is a factor of each number once it is frozen. All in
float64.

A linear reader of what comes out is then a linear reader of what goes in. So it is taken back through the maps, once,
and no part is carried forward: this is how the many parts of a long text are read quickly.

n positions, C model width, A parts, E numbers that are read; m positions is n, or 1 where all are read in the same way.
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


@dataclass(frozen=True, eq=False)
class Reader:
    """E numbers that are read of a vector x at each position: factor · (directions · x) + constant.

    directions (m,E,C); of what has several axes at a position, such as heads, with these one behind the other. factor,
    broadcastable to (n,E): of frozen norms. constant, likewise: what does not come of x, but of biases on the way.
    """

    directions: Tensor
    factor: Tensor
    constant: Tensor

    @classmethod
    def along(cls, directions: Tensor) -> "Reader":
        """Of these directions (E,C) and nothing else."""
        one = torch.ones(1, 1, dtype=torch.float64)
        return cls(directions.double()[None], one, 0 * one)

    @classmethod
    def of_head(cls, head: int, heads: int, width: int) -> "Reader":
        """Of the numbers of one head, which has others beside it."""
        return cls.along(torch.eye(heads * width)[head * width : (head + 1) * width])

    def of(self, vectors: Tensor) -> Tensor:
        """What is read of vectors, but for the constant: (…,n,C) -> (…,n,E)."""
        return self.factor * _products(vectors, self.directions)

    def of_blocks(self, vectors: Tensor) -> Tensor:
        """The same of each of A blocks that stand side by side in a vector: (A,n,C/A) -> (A,n,E)."""
        directions = self.directions.unflatten(-1, (len(vectors), -1)).movedim(-2, 0)  # (A,m,E,C/A)
        return self.factor * _products(vectors, directions)

    def before(self, directions: Tensor, factor: Tensor | float = 1.0, added: Tensor | float = 0.0) -> "Reader":
        """Of what enters a map, who reads along these directions: with the factor of the map, and what it adds."""
        return Reader(directions, self.factor * factor, self.constant + self.factor * added)


def _products(vectors: Tensor, directions: Tensor) -> Tensor:
    """(…,n,C), (…,m,E,C) -> (…,n,E)."""
    if directions.shape[-3] == 1:
        return vectors @ directions[..., 0, :, :].transpose(-1, -2)
    return (directions @ vectors[..., None])[..., 0]


class Map(Protocol):
    """A step of a block. is_frozen: whether what it makes of a part depends on the whole that enters."""

    is_frozen: bool

    def of(self, entering: Tensor) -> Tensor:
        """What comes out in the pass: (n,·) -> (n,·)."""

    def read_back(self, entering: Tensor, reader: Reader) -> Reader:
        """Who reads what comes out, as a reader of what enters: (n,·) in the pass, or of any one position where the
        map is not frozen."""

    def linear(self, rows: Tensor) -> Tensor:
        """What comes out of rows (n,·) without anything constant, and of a norm without its divisor.

        Raises VizError for a step that is nothing without a pass.
        """


Maps = tuple[Map, ...]


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


def as_in_the_pass(maps: Sequence["Norm | Product"], entering: Tensor) -> Tensor:
    """What comes out behind all maps, in the precision of the model: to the last digit what the pass computes."""
    with unwatched():
        for step in maps:
            entering = step.module(entering)
    return entering


def read_through(maps: Sequence[Map], entering: Tensor, reader: Reader) -> Reader:
    """Who reads what comes out behind all maps, as a reader of what enters in the pass: (n,·)."""
    frozen = max((place for place, step in enumerate(maps) if step.is_frozen), default=-1)
    entered = []
    for place, step in enumerate(maps):
        entering = entering if place <= frozen else entering[:1]
        entered.append(entering)
        if place < len(maps) - 1:  # nobody asks what comes out of the last one
            entering = step.of(entering)
    for step, before in zip(reversed(maps), reversed(entered), strict=True):
        reader = step.read_back(before, reader)
    return reader


@dataclass(frozen=True)
class Product:
    """A product with a learned matrix, and its bias where it has one."""

    module: nn.Module
    is_frozen = False

    def of(self, entering: Tensor) -> Tensor:
        return in_float64(self.module, entering)

    def read_back(self, entering: Tensor, reader: Reader) -> Reader:
        matrix, bias = self._learned(entering.shape[-1])
        read = reader.directions.any(1).any(0)  # columns that nobody reads need no product
        if read.all():
            return reader.before(reader.directions @ matrix.double(), added=reader.directions @ bias)
        return reader.before(reader.directions[..., read] @ matrix[read].double(), added=reader.directions @ bias)

    def linear(self, rows: Tensor) -> Tensor:
        return self.of(rows) - self.of(torch.zeros_like(rows[:1]))

    def _learned(self, width: int) -> tuple[Tensor, Tensor]:
        """The matrix (out,in), and the bias (out,) in float64. Libraries keep a matrix one way or the other, or in
        parts."""
        kept = self.module.weight
        probe = torch.stack((torch.zeros(width), _without_mean(torch.Size([width])))).to(kept.dtype)
        with unwatched():
            bias, given = self.module(probe)
        for matrix in (kept, kept.T):
            if matrix.shape == (len(bias), width):
                rounding = 1e-5 * given.abs().max().item() + 1e-8
                if torch.allclose(matrix @ probe[1], given - bias, rtol=1e-5, atol=rounding):
                    return matrix, bias.double()
        bias = self.of(probe[:1])[0]
        return (self.of(torch.eye(width)) - bias).T, bias


@dataclass(frozen=True)
class Norm:
    """A layer norm (Ba et al. 2016) or an RMS norm (Zhang and Sennrich 2019) over the last axis."""

    module: nn.Module
    is_frozen = True

    def of(self, entering: Tensor) -> Tensor:
        return in_float64(self.module, entering)

    def read_back(self, entering: Tensor, reader: Reader) -> Reader:
        shape = entering.shape[1:]
        gain, bias, is_centred = self._learned(shape)
        varying = gain * _centred(entering, is_centred)
        square = (varying * varying).sum(-1)
        frozen = ((self.of(entering) - bias) * varying).sum(-1) / square.clamp_min(1e-300)  # (n,), or (n,heads)
        directions = reader.directions.unflatten(-1, shape)
        if len(shape) == 1:
            frozen = frozen[:, None]
        else:  # a norm of each head: each number is read of one
            frozen = frozen[:, directions.abs().sum(-1).argmax(-1)[0]]  # (n,E)
        added = (directions * bias).flatten(2).sum(-1)
        return reader.before(_centred(directions * gain, is_centred).flatten(2), frozen, added)

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
    is_frozen = True

    def of(self, entering: Tensor) -> Tensor:
        return self.way(entering)

    def read_back(self, entering: Tensor, reader: Reader) -> Reader:
        factors = torch.where(entering == 0, 0.0, self.way(entering) / entering)  # (n,C)
        return reader.before(reader.directions * factors[:, None])

    def linear(self, rows: Tensor) -> Tensor:
        raise VizError("What an activation makes of a vector depends on the vector: the weights alone do not say it.")


@dataclass(frozen=True)
class Scaled:
    """What comes in, multiplied with a number of the model's own."""

    factor: float
    is_frozen = False

    def of(self, entering: Tensor) -> Tensor:
        return entering * self.factor

    def read_back(self, entering: Tensor, reader: Reader) -> Reader:
        return reader.before(reader.directions * self.factor)

    def linear(self, rows: Tensor) -> Tensor:
        return rows * self.factor


@dataclass(frozen=True)
class Rearranged:
    """The same numbers in another shape, such as heads put apart; `way` takes (B,n,·)."""

    way: Callable[[Tensor], Tensor]
    is_frozen = False

    def of(self, entering: Tensor) -> Tensor:
        return self.way(entering[None])[0]

    def read_back(self, entering: Tensor, reader: Reader) -> Reader:
        places = torch.arange(entering[0].numel())
        came_from = self.of(places.reshape(entering[:1].shape)).flatten()
        directions = torch.zeros(*reader.directions.shape[:2], len(places), dtype=torch.float64)
        return reader.before(directions.index_add(-1, came_from, reader.directions))

    def linear(self, rows: Tensor) -> Tensor:
        return self.of(rows)


@dataclass(frozen=True)
class Beside:
    """The first `few` numbers go through maps, and the others stay as they are, behind what comes out of these (latent
    attention). Each number that is read of it must be of one of the two."""

    few: int
    maps: "Maps"
    is_frozen = True

    def of(self, entering: Tensor) -> Tensor:
        return torch.cat((through(self.maps, entering[..., : self.few]), entering[..., self.few :].double()), -1)

    def read_back(self, entering: Tensor, reader: Reader) -> Reader:
        out = reader.directions.shape[-1] - (entering.shape[-1] - self.few)
        first, others = reader.directions[..., :out], reader.directions[..., out:]
        before = read_through(self.maps, entering[..., : self.few], Reader(first, reader.factor, 0 * reader.factor))
        factor = torch.where(first.any(-1).any(0), before.factor, reader.factor)  # (n,E)
        directions = torch.cat((before.directions, others.expand(*before.directions.shape[:2], -1)), -1)
        return Reader(directions, factor, reader.constant + before.constant)

    def linear(self, rows: Tensor) -> Tensor:
        raise VizError("A norm of some numbers beside others says nothing of both without a pass.")


@dataclass(frozen=True)
class AttentionMaps:
    """Of one attention.

    read: from the stream to what queries are made of; keys and values, too, but for cross-attention, where they are
    made of the encoder output. query, key, value: from that to (heads,n,D), before queries and keys are turned by their
    position. output: from heads
    side by side (n,H·D) to what is added to the stream. after: from the sum to the stream. None: it is no such map.
    rotation: how these queries and keys are turned, where that is not the one of the attention's equation.
    """

    read: Maps = ()
    query: Maps | None = None
    key: Maps | None = None
    value: Maps | None = None
    output: Maps | None = None
    after: Maps = ()
    rotation: Rotation | None = None


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
