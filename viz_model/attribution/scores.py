"""Where a score comes from: the terms that the components of the query's and of the key's stream make with each other.

score(i,j) = Σₐ Σ_b q⁽ᵃ⁾(i)·k⁽ᵇ⁾(j)·scale, exact for a pass with its norms frozen, before and after a rotation (Elhage
et al. 2021, "A Mathematical Framework for Transformer Circuits", "Q- and K-composition").
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.attribution.components import Component, Pass, components
from viz_model.errors import VizError
from viz_model.jobs import Tell
from viz_model.transformer.linear_maps import AttentionMaps, Maps, Reader, read_through, turned

ROW = "row"
HELD_BYTES = 192 * 2**20  # of the streams of so many keys at once


@dataclass(frozen=True, eq=False)
class ScoreTerms:
    """The terms of one cell, (A,B) float64: components of the query's stream × of the key's, scale included.

    score: what the pass computed, scaled, before a soft cap, a bias or the mask. bias: what the model adds to it; 0
    where it adds nothing. remainder: score − the sum of all terms; rounding, where the pass can be taken apart.
    than: what the cell is compared with, None, another key of the row, or "row": the mean over the keys that the query
    may attend to. Softmax sees nothing else than such differences. Terms, score and bias are then differences, too.
    """

    query_components: tuple[Component, ...]
    key_components: tuple[Component, ...]
    terms: Tensor
    score: float
    bias: float
    than: int | str | None = None

    @property
    def names_query(self) -> tuple[str, ...]:
        return tuple(component.name for component in self.query_components)

    @property
    def names_key(self) -> tuple[str, ...]:
        return tuple(component.name for component in self.key_components)

    @property
    def of_query(self) -> Tensor:
        """What each component of the query's stream adds, with all of the key: (A,)."""
        return self.terms.sum(1)

    @property
    def of_key(self) -> Tensor:
        """What each component of the key's stream adds, with all of the query: (B,)."""
        return self.terms.sum(0)

    @property
    def remainder(self) -> float:
        return self.score - self.terms.sum().item()


def score_terms(
    run: Pass,
    layer: int,
    head: int,
    query: int,
    key: int,
    scores: Tensor,
    allowed: Tensor,
    bias: Tensor | None,
    than: int | str | None,
    tell: Tell,
) -> ScoreTerms:
    """The terms of a cell. scores (T,S): of this head, as drawn; allowed (T,S); bias (T,S) or None. tell: told how many
    keys are read, of how many."""
    equation = run.equation(layer)
    if equation.turns_otherwise and _maps(run, layer).rotation is None:
        raise VizError(
            f"This model ({run.config.family}) turns its queries and keys in a way of its own, so its scores cannot be "
            "taken apart. Choose another model, such as tiny-llama."
        )
    others = [] if than is None else [than] if than != ROW else allowed[query].nonzero().flatten().tolist()
    if than == ROW and not others:
        raise VizError(f"Query {query} may attend to no key, so there is nothing to compare with.")
    query_components, asked = parts_of_queries(run, layer, head, [query])
    shares = dict.fromkeys(others, -1 / len(others)) if others else {}
    shares[key] = shares.get(key, 0.0) + 1.0
    keys, compared = sorted(shares), 0.0
    at_once = max(1, HELD_BYTES // (8 * (layer + 1) * run.config.d_model))
    for start in range(0, len(keys), at_once):
        tell(start, len(keys))
        some = keys[start : start + at_once]
        weights = torch.tensor([shares[one] for one in some], dtype=torch.float64)
        key_components, part = parts_of_keys(run, layer, head, some, lambda parts, w=weights: w @ parts)
        compared = compared + part  # (B,D)
    return ScoreTerms(
        query_components=query_components,
        key_components=key_components,
        terms=asked[:, 0] @ compared.T * equation.scale,
        score=_difference(scores, query, key, others),
        bias=0.0 if bias is None else _difference(bias, query, key, others),
        than=than,
    )


def parts_of_queries(run: Pass, layer: int, head: int, queries: list[int]) -> tuple[tuple[Component, ...], Tensor]:
    """What the components of the streams of these queries are in the head: (A,n,D)."""
    maps, equation = _maps(run, layer), run.equation(layer)
    stream = run.tensors[f"{run.config.block_name(run.part, layer)}.resid_{'self' if run.part == 'cross' else 'pre'}"]
    reader = Reader.of_head(head, run.config.n_heads, run.config.d_head)
    reader = read_through((*maps.read, *_known(run, maps.query, "queries")), stream[queries].double(), reader)
    made = components(run, queries, layer)
    parts = turned(made.read(reader), maps.rotation or equation.rotation, torch.tensor(queries))
    return made.components, parts * equation.query_factor


def parts_of_keys(
    run: Pass, layer: int, head: int, keys: list[int], then: Callable[[Tensor], Tensor] = lambda parts: parts
) -> tuple[tuple[Component, ...], Tensor]:
    """What the components of the streams of these keys are in the head, and what is made of that: (B,n,D) -> (B,…)."""
    maps, key_maps = _maps(run, layer), _known(run, _maps(run, layer).key, "keys")
    if run.part == "cross":  # they are made of the encoder output
        made, final = components(run.of("encoder"), keys), run.host.stack_maps("encoder").final
        if final is None:
            raise VizError(
                "This model changes the output of its encoder in its own way, so scores of cross-attention cannot be "
                "taken apart. Choose another attention."
            )
        site, before = f"{run.config.block_name('encoder', run.config.n_encoder_layers - 1)}.resid_post", final
    else:
        made, before = components(run, keys, layer), maps.read
        site = f"{run.config.block_name(run.part, layer)}.resid_pre"
    reader = Reader.of_head(run.config.kv_head(head), run.config.n_kv_heads, run.config.d_head)
    reader = read_through((*before, *key_maps), run.tensors[site][keys].double(), reader)
    rotation = maps.rotation or run.equation(layer).rotation
    turn = rotation.at(torch.tensor(keys)) if rotation else lambda parts: parts
    return made.components, made.read(reader, lambda parts: then(turn(parts)))


def _maps(run: Pass, layer: int) -> AttentionMaps:
    maps = run.host.maps(run.config.block_name(run.part, layer))
    return maps.cross if run.part == "cross" else maps.attn


def _known(run: Pass, maps: Maps | None, what: str) -> Maps:
    if maps is None:
        raise VizError(
            f"This model computes its {what} in its own way ({run.config.family}), not as a product with "
            "one matrix, so its scores cannot be taken apart. Choose another model, such as tiny-gpt."
        )
    return maps


def _difference(numbers: Tensor, query: int, key: int, others: list[int]) -> float:
    row = numbers[query].double()
    return (row[key] - row[others].mean() if others else row[key]).item()
