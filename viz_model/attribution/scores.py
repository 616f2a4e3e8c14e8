"""Where a score comes from: the terms that the components of the query's and of the key's stream make with each other.

score(i,j) = Σₐ Σ_b q⁽ᵃ⁾(i)·k⁽ᵇ⁾(j)·scale, exact for a pass with its norms frozen, before and after a rotation (Elhage
et al. 2021, "A Mathematical Framework for Transformer Circuits", "Q- and K-composition").
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.attribution.components import Component, Components, Pass, components
from viz_model.errors import VizError
from viz_model.transformer.linear_maps import Maps, carried, turned

ROW = "row"
CHUNK = 64  # keys


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
    run: Pass, layer: int, head: int, query: int, key: int, scores: Tensor, allowed: Tensor, bias: Tensor | None, than
) -> ScoreTerms:
    """The terms of a cell. scores (T,S): of this head, as drawn; allowed (T,S); bias (T,S) or None."""
    equation = run.equation(layer)
    if equation.turns_otherwise:
        raise VizError(
            f"This model ({run.config.family}) turns its queries and keys in a way of its own, so a score of it cannot "
            "be taken apart. Choose another model, such as tiny-llama."
        )
    maps = run.host.maps(run.config.block_name(run.part, layer))
    maps = maps.cross if run.part == "cross" else maps.attn
    others = [] if than is None else [than] if than != ROW else allowed[query].nonzero().flatten().tolist()
    if than == ROW and not others:
        raise VizError(f"Query {query} may attend to no key, so there is nothing to compare with.")
    asking, read = components(run, [query], layer), _read_by_keys(run, layer)
    queries = _heads(run, maps.read, maps.query, asking, "queries")[:, head]
    queries = turned(queries, equation.rotation, torch.tensor([query]))[:, 0] * equation.query_factor  # (A,D)

    def keys(places: list[int]) -> tuple[Components, Tensor]:
        """What the components of these keys are in the head: (B,n,D)."""
        made = read(places)
        parts = _heads(run, () if run.part == "cross" else maps.read, maps.key, made, "keys")
        return made, turned(parts[:, run.config.kv_head(head)], equation.rotation, torch.tensor(places))

    known, own = keys([key])
    compared = own[:, 0]
    if others:
        compared = compared - sum(keys(some)[1].sum(1) for some in _in_chunks(others)) / len(others)
    return ScoreTerms(
        query_components=asking.components,
        key_components=known.components,
        terms=queries @ compared.T * equation.scale,
        score=_difference(scores, query, key, others),
        bias=0.0 if bias is None else _difference(bias, query, key, others),
        than=than,
    )


def _read_by_keys(run: Pass, layer: int):
    """Positions -> components of what the keys of a layer are made of."""
    if run.part != "cross":
        return lambda positions: components(run, positions, layer)

    def encoder_output(positions):
        encoder = run.of("encoder")
        made, final = components(encoder, positions), run.host.stack_maps("encoder").final
        if final is None:
            raise VizError("What stands behind this model's encoder cannot be taken apart. Choose its other attention.")
        return Components(made.components, carried(final, made.parts))

    return encoder_output


def _heads(run: Pass, read: Maps, maps: Maps | None, made: Components, what: str) -> Tensor:
    """What each component becomes in the heads, before they are turned: (A,heads,n,D)."""
    if maps is None:
        raise VizError(
            f"The {what} of this model come of a computation of its own ({run.config.family}), not of a product with "
            "one matrix, so a score of it cannot be taken apart. Choose another model, such as tiny-gpt."
        )
    return carried((*read, *maps), made.parts)


def _in_chunks(places: list[int]) -> list[list[int]]:
    """So many at once that their components fit into memory."""
    return [places[start : start + CHUNK] for start in range(0, len(places), CHUNK)]


def _difference(numbers: Tensor, query: int, key: int, others: list[int]) -> float:
    row = numbers[query].double()
    return (row[key] - row[others].mean() if others else row[key]).item()
