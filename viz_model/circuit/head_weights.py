"""The weights of heads as matrices between tokens, the residual stream and one another.

Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits". The gain of each norm, and the mean that it
takes away, are folded into the matrix that reads it; its divisor, which only a pass knows, is left out, and so are all
biases. A divisor is a positive number for each position. Where norms stand on the stream (post-norm), what goes past a
half goes through the norm behind it, too.

C model width, H heads, D head width, V vocabulary. All in float64.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.errors import VizError
from viz_model.transformer.attention import Equation
from viz_model.transformer.facts import ModelFacts
from viz_model.transformer.host import Host
from viz_model.transformer.linear_maps import AttentionMaps, BlockMaps, Maps, linear, turned

ROWS = 4096  # tokens that are multiplied at once


@dataclass(frozen=True)
class AttentionHalf:
    """An attention on its way through a stack: of which part and layer, what it does, and what it is told."""

    part: str
    layer: int
    maps: AttentionMaps
    equation: Equation


class DirectPath:
    """The blocks that the queries of a part go through, and what stands before and behind them."""

    def __init__(self, host: Host, part: str):
        self.host, self.facts = host, host.config
        self.part = "decoder" if part == "cross" else part
        self.maps = host.stack_maps(self.part)

    @property
    def layers(self) -> range:
        return range(self.facts.layers_of(self.part))

    def halves(self, layer: int) -> list[AttentionHalf]:
        """The attentions of a layer, in their order."""
        block = self.block(layer)
        found = [(self.part, block.attn)] + ([("cross", block.cross)] if block.cross else [])
        equation = self.host.equation
        return [AttentionHalf(part, layer, of, equation(self.facts.attention_name(part, layer))) for part, of in found]

    def block(self, layer: int) -> BlockMaps:
        return self.host.maps(self.facts.block_name(self.part, layer))

    def behind_feed_forward(self, layer: int) -> Maps:
        """What the stream goes through at the end of a layer."""
        block = self.block(layer)
        if not block.adds:
            raise VizError(
                f"Layer {layer} of this model ({self.facts.family}) does more with the residual stream than add to it, "
                "so what the heads of one layer hand to another one cannot be read from its parameters. Choose "
                "another model, such as tiny-gpt."
            )
        return block.after

    @property
    def final(self) -> Maps:
        """From the stream behind the last layer to the final hidden state."""
        if self.maps.final is None:
            raise VizError(
                f"After its last layer, this model ({self.facts.family}) has something other than a norm, so what its "
                "heads write cannot be followed to the logits. Choose another model, such as tiny-gpt."
            )
        return self.maps.final

    @property
    def entrance(self) -> Maps:
        """From the row of a token in its table to the stream of the first layer."""
        if self.maps.tokens is None:
            raise VizError(
                f"The residual stream of this model ({self.facts.family}) does not begin with one vector for each "
                "token, so what its heads read cannot be said in tokens. Choose another model, such as tiny-gpt."
            )
        return (*self.maps.tokens, *self.maps.embedding)

    def to(self, part: str, layer: int) -> Maps:
        """From the stream of the first layer to what the attention of a part reads in a layer, before its norm."""
        before = [step for earlier in range(layer) for step in self._whole(earlier)]
        halves = self.halves(layer)
        own = [half.part for half in halves].index(part)
        return (*before, *(step for half in halves[:own] for step in half.maps.after))

    def behind(self, part: str, layer: int) -> Maps:
        """From the sum of the stream and what an attention adds in a layer to what the unembedding's rows read."""
        halves = self.halves(layer)
        own = [half.part for half in halves].index(part)
        here = [step for half in halves[own:] for step in half.maps.after]
        later = [step for layer in range(layer + 1, len(self.layers)) for step in self._whole(layer)]
        return (*here, *self.behind_feed_forward(layer), *later, *self.final, *self.maps.unembedding)

    @property
    def whole(self) -> Maps:
        """From the row of a token in its table, past all layers, to the final hidden state."""
        return (*self.entrance, *(step for layer in self.layers for step in self._whole(layer)), *self.final)

    def _whole(self, layer: int) -> Maps:
        """What the stream goes through in a layer."""
        after = [step for half in self.halves(layer) for step in half.maps.after]
        return (*after, *self.behind_feed_forward(layer))


def queries(half: AttentionHalf, facts: ModelFacts, rows: Tensor, distance: int | Tensor = 0) -> Tensor:
    """Rows (n,C) of what a layer reads -> queries (H,n,D), which stand so many tokens (or of each row so many, (n,))
    behind the keys."""
    made = _heads(half, half.maps.query, half.maps.read, facts, "queries", rows) * half.equation.query_factor
    return _turned(half, facts, made, distance)


def keys(half: AttentionHalf, facts: ModelFacts, rows: Tensor) -> Tensor:
    """Rows (n,C) of what keys are made of -> the keys that each head reads (H,n,D)."""
    made = _heads(half, half.maps.key, _read_by_keys(half), facts, "keys", rows)
    return _by_head(_turned(half, facts, made, 0), facts)


def values(half: AttentionHalf, facts: ModelFacts, rows: Tensor) -> Tensor:
    """Rows (n,C) of what values are made of -> the values that each head reads (H,n,D)."""
    return _by_head(_heads(half, half.maps.value, _read_by_keys(half), facts, "values", rows), facts)


def written(half: AttentionHalf, facts: ModelFacts, mixed: Tensor) -> Tensor:
    """Mixed values of heads side by side (n,H·D) -> what is added to the stream (n,C)."""
    if half.maps.output is None:
        raise VizError(
            f"This model ({facts.family}) computes what its attention writes in its own way, not as a product with "
            "one matrix, so it cannot be read from the parameters. Choose another model, such as tiny-gpt."
        )
    return linear(half.maps.output, mixed)


def _turned(half: AttentionHalf, facts: ModelFacts, heads: Tensor, position: int | Tensor) -> Tensor:
    """Heads (…,n,D) turned as those of a token at that position; of a model that does not turn them as they are."""
    if half.equation.turns_otherwise:
        raise VizError(
            f"This model ({facts.family}) turns its queries and keys in a way of its own, so what a query looks for "
            "cannot be read from its parameters. Choose another model, such as tiny-llama."
        )
    positions = torch.as_tensor(position).expand(heads.shape[-2])
    return turned(heads, half.equation.rotation, positions)


def identity(width: int) -> Tensor:
    return torch.eye(width, dtype=torch.float64)


def products_of_tables(host: Host, tell: Callable[[int], None]) -> Tensor:
    """Uᵀ·E, the sum over all tokens of unembedding row × embedding row: (C,C). tell: told how many are read."""
    rows, table = host.unembedding_rows()[0], host.embedding_rows()
    found = torch.zeros(rows.shape[1], table.shape[1], dtype=torch.float64)
    for start in range(0, len(rows), ROWS):
        tell(start)
        some = slice(start, start + ROWS)
        found += rows[some].double().T @ table[some].double()
    return found


def _read_by_keys(half: AttentionHalf) -> Maps:
    return () if half.part == "cross" else half.maps.read


def _heads(half: AttentionHalf, maps: Maps | None, read: Maps, facts: ModelFacts, what: str, rows: Tensor) -> Tensor:
    if maps is None:
        raise VizError(
            f"This model computes its {what} in its own way ({facts.family}), not as a product with one matrix, so "
            "they cannot be read from its parameters. Choose another model, such as tiny-gpt."
        )
    return linear((*read, *maps), rows)


def _by_head(of_groups: Tensor, facts: ModelFacts) -> Tensor:
    """(G,·,·) -> (H,·,·): each head has those of its group."""
    return of_groups.repeat_interleave(facts.n_heads // len(of_groups), 0)
