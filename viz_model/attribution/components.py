"""The residual stream of a pass as the sum of what was added to it: embeddings, heads, feed-forwards, biases.

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", "Residual stream". With its norms frozen at
what they divided by in the pass (`linear_maps`), a stream that a norm has gone over is such a sum, too.

Symbols: A components, n positions, C model width, E numbers that are read of a vector.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol, Self

import torch
from torch import Tensor

from viz_model.transformer.attention import Equation
from viz_model.transformer.changes import changed
from viz_model.transformer.facts import ModelFacts
from viz_model.transformer.host import Host
from viz_model.transformer.linear_maps import BlockMaps, Maps, Reader, read_through, through

TOKENS, POSITIONS, SEGMENTS, EMBEDDING, HEAD, ATTENTION, FEED_FORWARD, BLOCK, VECTOR, BIASES = (
    "token embedding",
    "position embedding",
    "segment embedding",
    "embedding",
    "head",
    "attention",
    "feed-forward",
    "block",
    "added vector",
    "biases",
)


@dataclass(frozen=True)
class Component:
    """What was added to a stream. part: the attention that a head is of. Where a model's own code does more than can be
    told apart, it is the whole attention or the whole block of a layer."""

    kind: str
    layer: int | None = None
    head: int | None = None
    part: str = "self"

    @property
    def name(self) -> str:
        """ "layer 2, head 3", "layer 2, feed-forward", "token embedding"."""
        if self.layer is None:
            return self.kind
        cross = "cross-" if self.part == "cross" else ""
        if self.kind == HEAD:
            return f"layer {self.layer}, {cross}{'attention ' if cross else ''}head {self.head}"
        return f"layer {self.layer}, {cross}{self.kind}"


@dataclass(frozen=True, eq=False)
class Added:
    """What was added to a stream at once: numbers of A components, which stand side by side in what enters `maps`
    (A,n,·); what comes out was added."""

    components: tuple[Component, ...]
    numbers: Tensor
    maps: Maps = ()

    @property
    def entering(self) -> Tensor:
        """All components side by side: (n,·)."""
        return self.numbers.double().transpose(0, 1).flatten(1)


@dataclass(frozen=True, eq=False)
class Changed:
    """That a stream (n,C) went through maps, as behind the sum in a post-norm block."""

    entering: Tensor
    maps: Maps


@dataclass(frozen=True, eq=False)
class Components:
    """What a stream of n vectors (n,C) is made of: the steps from which it came. The last component is the biases."""

    steps: tuple[Added | Changed, ...]
    width: int

    @property
    def components(self) -> tuple[Component, ...]:
        added = (step.components for step in self.steps if isinstance(step, Added))
        return (*chain.from_iterable(added), Component(BIASES))

    def readers(self, reader: Reader) -> Iterator[tuple[Added, Reader]]:
        """What was added, the last first; and who reads its numbers, where `reader` reads the stream. The constant is
        what the biases on the way add, from there on."""
        for step in reversed(self.steps):
            before = read_through(step.maps, step.entering, reader)
            if isinstance(step, Changed):
                reader = before
            else:
                reader = replace(reader, constant=before.constant)
                yield step, before

    def read(self, reader: Reader, then: Callable[[Tensor], Tensor] = lambda parts: parts) -> Tensor:
        """What is read of each component: (A,n,E) in float64. Their sum is what is read of the stream.

        then: what is made of it, for some components at a time (A,n,E) -> (A,…), so that all of it is never held.
        """
        found = []
        for added, before in self.readers(reader):
            parts = before.of_blocks(added.numbers.double())
            found.insert(0, then(parts))
        biases = before.constant.expand(parts[:1].shape)
        return torch.cat((*found, then(biases)))

    @property
    def parts(self) -> Tensor:
        """Each component as what it is in the stream: (A,n,C) in float64."""
        return self.read(Reader.along(torch.eye(self.width)))


class Pass(Protocol):
    """What a trace holds of a pass."""

    config: ModelFacts
    host: Host
    part: str
    tensors: Mapping[str, Tensor]

    def of(self, part: str) -> Self: ...

    def v(self, layer: int) -> Tensor: ...

    def weights_of(self, layer: int, queries: Sequence[int]) -> Tensor: ...

    def mixed(self, layer: int) -> Tensor: ...

    def equation(self, layer: int) -> Equation: ...


def components(run: Pass, positions: Sequence[int], layer: int | None = None) -> Components:
    """What the queries of the part read in a layer is made of, before the norm of its half; of None, the stream behind
    all layers, before its final norm.

    Cross-attention queries read the stream behind the self-attention of their layer.
    """
    walk = _Walk(run, list(positions))
    last = run.config.layers_of(run.part) if layer is None else layer
    for number in range(last):
        walk.through_block(number)
    if layer is not None and run.part == "cross":
        walk.through_attention(layer, "decoder")
    return Components(tuple(walk.steps), run.config.d_model)


class _Walk:
    """Through a stack from its embeddings on; `steps` are those of the stream so far."""

    def __init__(self, run: Pass, positions: list[int]):
        self.run, self.positions = run, _as_slice(positions)
        self.stack_part = "decoder" if run.part == "cross" else run.part
        found = self._embeddings()
        self.steps: list[Added | Changed] = [Added((Component(kind),), rows[None]) for kind, rows in found.items()]
        if TOKENS in found:  # else the stream is taken as it is behind the norm
            self._change(sum(found.values()), run.host.stack_maps(self.stack_part).embedding)

    def through_block(self, layer: int) -> None:
        maps = self._maps(layer)
        for part, of in [(self.stack_part, maps.attn)] + ([("cross", maps.cross)] if maps.cross else []):
            if of.output is None and (maps.is_parallel or self._after_attention(layer, part) is None):
                self._add(BLOCK, layer, self._behind(layer) - self._before_attention(layer, part))
                break  # more is not known of it
            self.through_attention(layer, part)
        else:
            if maps.has_feed_forward:
                given = self._given_by_feed_forward(layer, maps)
                self._add(FEED_FORWARD, layer, given)
                if maps.after:
                    self._change(self._held(layer, "resid_mid") + given, maps.after)
        if (added := self._added_by_edits(layer)) is not None:
            self._add(VECTOR, layer, added)

    def through_attention(self, layer: int, part: str) -> None:
        maps, before = self._maps(layer), self._before_attention(layer, part)
        maps = maps.cross if part == "cross" else maps.attn
        if maps.output is None:
            self._add(ATTENTION, layer, self._after_attention(layer, part) - before, part)
            return
        mixed = self.run.of(part).mixed(layer)[:, self.positions]  # (H,n,D)
        heads = tuple(Component(HEAD, layer, head, part) for head in range(len(mixed)))
        added = Added(heads, mixed, maps.output)
        self.steps.append(added)
        if maps.after:
            self._change(before + through(maps.output, added.entering), maps.after)

    def _maps(self, layer: int) -> BlockMaps:
        return self.run.host.maps(self.run.config.block_name(self.stack_part, layer))

    def _before_attention(self, layer: int, part: str) -> Tensor:
        """The stream that the queries of an attention are made of."""
        return self._held(layer, "resid_self" if part == "cross" else "resid_pre")

    def _after_attention(self, layer: int, part: str) -> Tensor | None:
        """The stream behind an attention, as the pass has it."""
        is_last = part == "cross" or self._maps(layer).cross is None
        return self._held(layer, "resid_mid" if is_last else "resid_self")

    def _given_by_feed_forward(self, layer: int, maps: BlockMaps) -> Tensor:
        """What the half added to the stream: held where a norm comes behind the sum, else a difference of streams."""
        if maps.after:
            return self._held(layer, "ffn.out")
        if maps.is_parallel:
            before = self._held(layer, "resid_pre") + self._written_by_attention(layer)
        else:
            before = self._held(layer, "resid_mid")
        return self._behind(layer) - before

    def _behind(self, layer: int) -> Tensor:
        """The stream behind a layer, before an edit adds a vector to it."""
        added, stream = self._added_by_edits(layer), self._held(layer, "resid_post")
        return stream if added is None else stream - added

    def _added_by_edits(self, layer: int) -> Tensor | None:
        """What edits of the pass add to the stream behind a layer; None where there is no such edit."""
        site = f"{self.run.config.block_name(self.stack_part, layer)}.resid_post"
        if all(change.site != site for change in self.run.host.changes):
            return None
        nothing = torch.zeros_like(self.run.tensors[site])  # (T,C)
        return changed(self.run.host.changes, site, nothing)[self.positions].double()

    def _written_by_attention(self, layer: int) -> Tensor:
        held, heads = self._held(layer, "attn.out"), self.steps[-1]
        return through(heads.maps, heads.entering) if held is None else held

    def _embeddings(self) -> dict[str, Tensor]:
        """Rows of tokens, positions and segments, where the stream begins with their sum, else what it begins with."""
        stack, factor = self.run.config.stack_name(self.stack_part), self.run.config.embedding_factor
        sites = {TOKENS: "tokens", POSITIONS: "positions", SEGMENTS: "segments"}
        found = {kind: self.run.tensors.get(f"{stack}embed.{site}") for kind, site in sites.items()}
        found = {kind: tensor[self.positions].double() for kind, tensor in found.items() if tensor is not None}
        if TOKENS not in found or factor is None or self.run.config.embedding_matrix == "rows":
            return {EMBEDDING: self._held(0, "resid_pre")}
        return {**found, TOKENS: found[TOKENS] * factor}

    def _held(self, layer: int, site: str) -> Tensor | None:
        tensor = self.run.tensors.get(f"{self.run.config.block_name(self.stack_part, layer)}.{site}")
        return None if tensor is None else tensor[self.positions].double()

    def _add(self, kind: str, layer: int, added: Tensor, part: str = "self") -> None:
        self.steps.append(Added((Component(kind, layer, part=part),), added[None]))

    def _change(self, entering: Tensor, maps: Maps) -> None:
        if maps:
            self.steps.append(Changed(entering, maps))


def _as_slice(positions: list[int]) -> list[int] | slice:
    """Positions that follow each other as a slice, of which no copy is made."""
    follow = positions == [*range(positions[0], positions[0] + len(positions))]
    return slice(positions[0], positions[0] + len(positions)) if follow else positions
