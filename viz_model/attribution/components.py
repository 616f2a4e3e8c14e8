"""The residual stream of a pass as the sum of what was added to it: embeddings, heads, feed-forwards, biases.

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", "Residual stream". With its norms frozen at
what they divided by in the pass (`linear_maps`), a stream that a norm has gone over is such a sum, too.

Symbols: A components, n positions, C model width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from viz_model.transformer.attention import Equation
from viz_model.transformer.changes import changed
from viz_model.transformer.facts import ModelFacts
from viz_model.transformer.host import Host
from viz_model.transformer.linear_maps import BlockMaps, Maps, carried, constant_last

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
class Components:
    """`parts` (A,n,C) in float64, which add up to the stream at n positions; the last one is the biases."""

    components: tuple[Component, ...]
    parts: Tensor

    @property
    def stream(self) -> Tensor:
        """Their sum: (n,C)."""
        return self.parts.sum(0)


class Pass(Protocol):
    """What a trace holds of a pass."""

    config: ModelFacts
    host: Host
    part: str
    tensors: Mapping[str, Tensor]

    def of(self, part: str) -> Self: ...

    def v(self, layer: int) -> Tensor: ...

    def weights_of(self, layer: int, queries: Sequence[int]) -> Tensor: ...

    def mixed_of(self, layer: int, queries: Sequence[int]) -> Tensor: ...

    def equation(self, layer: int) -> Equation: ...


def components(run: Pass, positions: Sequence[int], layer: int | None = None) -> Components:
    """What the queries of the part read in a layer is made of, before the norm of its half; of None, the stream behind
    all layers, before its final norm.

    Cross-attention queries read the stream behind the self-attention of their layer.
    """
    walk = Walk(run, list(positions))
    last = run.config.layers_of(run.part) if layer is None else layer
    for number in range(last):
        walk.through_block(number)
    if layer is not None and run.part == "cross":
        walk.through_attention(layer, "decoder")
    return Components(tuple(walk.components), walk.parts)


@dataclass(frozen=True, eq=False)
class Passed:
    """Maps that the whole stream went through, and what entered: (n,C)."""

    maps: Maps
    entering: Tensor


@dataclass(frozen=True, eq=False)
class WrittenByHeads:
    """What the heads of an attention wrote into the stream: their mixed values side by side (n,H·D) through `maps`.

    behind: how many times the whole stream had gone through maps before.
    """

    part: str
    layer: int
    maps: Maps
    mixed: Tensor
    behind: int


class Walk:
    """Through a stack from its embeddings on; `components` and `parts` are those of the stream so far.

    passed, written: what happened to the stream on the way, in its order.
    """

    def __init__(self, run: Pass, positions: list[int]):
        self.run, self.positions = run, positions
        self.stack_part = "decoder" if run.part == "cross" else run.part
        found = self._embeddings()
        zeros = torch.zeros_like(next(iter(found.values())))
        self.components = [*(Component(kind) for kind in found), Component(BIASES)]
        self.parts = torch.stack([*found.values(), zeros])
        self.passed: list[Passed] = []
        self.written: list[WrittenByHeads] = []
        if TOKENS in found:  # else the stream is taken as it is behind the norm
            self.through(run.host.stack_maps(self.stack_part).embedding)

    def through_block(self, layer: int) -> None:
        maps = self._maps(layer)
        for part, of in [(self.stack_part, maps.attn)] + ([("cross", maps.cross)] if maps.cross else []):
            if of.output is None and (maps.is_parallel or self._after_attention(layer, part) is None):
                self._add(BLOCK, layer, self._behind(layer) - self.stream)  # more is not known of it
                break
            self.through_attention(layer, part)
        else:
            if maps.has_feed_forward:
                self._add(FEED_FORWARD, layer, self._given_by_feed_forward(layer, maps))
                self.through(maps.after)
        self._through_edits(layer)

    def through_attention(self, layer: int, part: str) -> None:
        maps = self._maps(layer)
        maps = maps.cross if part == "cross" else maps.attn
        if maps.output is None:
            self._add(ATTENTION, layer, self._after_attention(layer, part) - self.stream, part)
            return
        mixed = self.run.of(part).mixed_of(layer, self.positions).double()  # (H,n,D)
        heads, length, width = mixed.shape
        side_by_side = mixed.transpose(0, 1).flatten(-2)  # (n,H·D)
        self.written.append(WrittenByHeads(part, layer, maps.output, side_by_side, len(self.passed)))
        apart = torch.zeros(heads + 1, length, heads, width, dtype=torch.float64)  # the last: constants
        apart[range(heads), :, range(heads)] = mixed
        own = [Component(HEAD, layer, head, part) for head in range(heads)]
        self._take(own, carried(maps.output, apart.flatten(-2)))
        self.through(maps.after)

    def through(self, maps: Maps) -> None:
        """The whole stream goes through these maps, such as the norm behind a half (post-norm)."""
        self.passed.append(Passed(maps, self.stream))
        self.parts = carried(maps, self.parts)

    @property
    def stream(self) -> Tensor:
        return self.parts.sum(0)

    def _maps(self, layer: int) -> BlockMaps:
        return self.run.host.maps(self.run.config.block_name(self.stack_part, layer))

    def _after_attention(self, layer: int, part: str) -> Tensor | None:
        """The stream behind an attention, as the pass has it."""
        is_last = part == "cross" or self._maps(layer).cross is None
        return self._held(layer, "resid_mid" if is_last else "resid_self")

    def _given_by_feed_forward(self, layer: int, maps: BlockMaps) -> Tensor:
        """What the half added to the stream: held where a norm comes behind the sum, else a difference of streams."""
        if maps.after:
            return self._held(layer, "ffn.out")
        if maps.is_parallel:
            given = self._held(layer, "attn.out")
            before = self.stream if given is None else self._held(layer, "resid_pre") + given
        else:
            before = self._held(layer, "resid_mid")
        return self._behind(layer) - before

    def _behind(self, layer: int) -> Tensor:
        """The stream behind a layer, before an edit adds a vector to it."""
        added = self._added_by_edits(layer)
        stream = self._held(layer, "resid_post")
        return stream if added is None else stream - added

    def _through_edits(self, layer: int) -> None:
        added = self._added_by_edits(layer)
        if added is not None:
            self._add(VECTOR, layer, added)

    def _added_by_edits(self, layer: int) -> Tensor | None:
        """What edits of the pass add to the stream behind a layer; None where there is no such edit."""
        site = f"{self.run.config.block_name(self.stack_part, layer)}.resid_post"
        if all(change.site != site for change in self.run.host.changes):
            return None
        nothing = torch.zeros_like(self.run.tensors[site])  # (T,C)
        return changed(self.run.host.changes, site, nothing)[self.positions].double()

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
        self._take([Component(kind, layer, part=part)], torch.stack((added, torch.zeros_like(added))))

    def _take(self, own: list[Component], added: Tensor) -> None:
        """Put these before the biases, to which the last one of `added` (A+1,n,C) goes."""
        joined = torch.cat((self.parts[:-1], added[:-1], self.parts[-1:]))
        self.parts = constant_last(joined, added[-1])
        self.components = [*self.components[:-1], *own, self.components[-1]]
